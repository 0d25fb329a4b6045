"""README and the page of options say what is true: both are compared with the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

import pytest_anubis
from benchmarks.pages.options_table import PAGE, page
from pytest_anubis import hookspecs
from pytest_anubis.core.verdict import Decision
from pytest_anubis.session.collecting.benchmark_mark import BenchmarkMark

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
REFERENCE = PAGE.read_text(encoding="utf-8")
CODE = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
PAGE_BYTES = 70_000
"""More nobody finds anything in; pages that a command writes are the reason that it is so much."""
CI = (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_page_of_options_is_what_the_options_say() -> None:
    assert page() == REFERENCE


def test_every_key_of_the_mark_is_named() -> None:
    for name in BenchmarkMark.__dataclass_fields__:
        assert f"`{name}`" in REFERENCE


def test_every_hook_is_named() -> None:
    for name in vars(hookspecs):
        if name.startswith("pytest_anubis_"):
            assert f"`{name}`" in REFERENCE


@pytest.mark.parametrize("text", [README, REFERENCE], ids=["README", "options"])
def test_exit_codes_are_the_codes(text: str) -> None:
    for decision in Decision:
        assert re.search(rf"^\| {decision.exit_code} \|", text, flags=re.MULTILINE)


@pytest.mark.parametrize(("name", "words"), [("README.md", 1200), ("CHANGELOG.md", 800)])
def test_first_pages_are_short(name: str, words: int) -> None:
    assert len((ROOT / name).read_text(encoding="utf-8").split()) <= words


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
