"""The README says what is true: options, marks, hooks and exit codes are compared with the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

import pytest_anubis
from pytest_anubis import hookspecs
from pytest_anubis.core.verdict import Decision
from pytest_anubis.session.collecting.benchmark_mark import BenchmarkMark
from pytest_anubis.settings import OPTIONS

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
CODE = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
PAGE_BYTES = 70_000
"""More nobody finds anything in; pages that a command writes are the reason that it is so much."""
CI = (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_every_option_is_described_and_none_is_invented() -> None:
    described = set(re.findall(r"^\| `(--anubis[a-z-]*)", README, flags=re.MULTILINE))
    assert described == {option.flag for option in OPTIONS}


def test_every_choice_is_described() -> None:
    for option in OPTIONS:
        if option.choices:
            choices = "\\|".join(option.choices)  # a bar inside a Markdown table is escaped
            assert f"{option.flag}={choices}" in README


def test_every_key_of_the_mark_is_named() -> None:
    for name in BenchmarkMark.__dataclass_fields__:
        assert f"`{name}`" in README


def test_every_hook_is_named() -> None:
    for name in vars(hookspecs):
        if name.startswith("pytest_anubis_"):
            assert f"`{name}`" in README


def test_exit_codes_are_the_codes() -> None:
    for decision in Decision:
        assert re.search(rf"^\| {decision.exit_code} \|", README, flags=re.MULTILINE)


def test_the_tests_are_run_as_they_are_checked() -> None:
    (options,) = re.findall(r"^python -m pytest -p no:cacheprovider (.*) \|\|", CI, re.MULTILINE)
    assert f".venv/bin/pytest {options}\n```" in README


def places(text: str) -> set[str]:
    """Return what headings of a page are called in links to them."""
    heads = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(((?!https?:)[^)\s]*\.md(?:#[^)]*)?|#[^)]*)\)", text):
        name, _, place = target.partition("#")
        other = (page.parent / name) if name else page
        assert other.is_file(), target
        assert not place or place in places(other.read_text(encoding="utf-8")), target
        shown = len(other.read_bytes())
        assert shown < PAGE_BYTES, f"{other.name} has {shown} bytes: give a part a page of its own"


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(((?:docs|baselines)/[^)]+)\)", README):
        assert (ROOT / target.partition("#")[0]).is_file(), target


def test_the_changelog_is_about_this_version() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(r"^## \[([\d.]+)\]", changelog, flags=re.MULTILINE)[1] == (  # type: ignore[index]
        pytest_anubis.__version__
    )


def test_the_readmes_benchmark_works(pytester: pytest.Pytester) -> None:
    assert torch.__version__  # loaded before pytester does: it is loaded once in a process
    pytester.makepyfile(test_mine=CODE[0])
    pytester.runpytest().assert_outcomes(passed=1)
    pytester.runpytest("--anubis", "--anubis-mode=measure").assert_outcomes(passed=1)


def test_the_readmes_ranks_work(pytester: pytest.Pytester, request: pytest.FixtureRequest) -> None:
    pytester.makepyfile(test_own_ranks=CODE[1])
    options = ("--anubis", "--anubis-mode=measure", "--anubis-in-process")
    pytester.runpytest(*options, "-k", "test_sum").assert_outcomes(passed=1, deselected=1)
    request.getfixturevalue("quick_processes")  # once they are started as users do
    done = pytester.runpytest(*options, "-k", "not test_sum").parseoutcomes()
    assert done.get("passed", 0) + done.get("skipped", 0) == 1
    assert "failed" not in done


@pytest.mark.usefixtures("quick_processes")
def test_the_readmes_ranks_notice_a_wrong_sum(pytester: pytest.Pytester) -> None:
    before = "        dist.all_reduce(values)\n"
    spoiled = CODE[1].replace(before, f"{before}        values[7] += 1 if number == 1 else 0\n")
    pytester.makepyfile(test_own_ranks=spoiled)
    run = pytester.runpytest("-k", "test_sum")
    run.assert_outcomes(failed=1, deselected=1)
    run.stdout.fnmatch_lines(["*the sum is off by *"])
