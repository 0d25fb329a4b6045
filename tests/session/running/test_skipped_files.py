"""A file that is skipped as a whole is among what was not tested, with its reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.run_journals import events_of
from tests.session.conftest import SUITE, Learn

SKIPS = {
    "skip": "import pytest\npytest.skip('the tool is missing', allow_module_level=True)\n",
    "importorskip": "import pytest\npytest.importorskip('no_such_module')\n",
    "unittest": "import unittest\nraise unittest.SkipTest('too old')\n",
    "inapplicable": "import pytest\npytest.skip('not applicable: no card', allow_module_level=True)\n",
}


def untested(project: pytest.Pytester) -> Mapping[str, str]:
    """Return what the run has as not tested, each with its words."""
    return {
        one["benchmark"]: one["text"]
        for one in events_of(project, "verdict")
        if one["outcome"] == "NOT_TESTED"
    }


@pytest.mark.parametrize("how", SKIPS)
def test_it_is_not_tested(with_baseline: pytest.Pytester, how: str) -> None:
    with_baseline.makepyfile(test_more=f"{SKIPS[how]}{SUITE}")
    result = with_baseline.runpytest("--anubis", "-v")
    assert result.ret == 0
    assert set(untested(with_baseline)) == {"test_more.py"}
    said = {"skip": "tool is missing", "unittest": "too old", "inapplicable": "no card"}
    assert said.get(how, "no_such_module") in untested(with_baseline)["test_more.py"]
    result.stdout.fnmatch_lines(["*test_more.py*"])


@pytest.mark.usefixtures("in_workers")
def test_workers_tell_it_once(with_baseline: pytest.Pytester) -> None:
    with_baseline.makepyfile(test_more=SKIPS["skip"])
    assert with_baseline.runpytest("--anubis", "-n2").ret == 0
    assert untested(with_baseline) == {"test_more.py": "the tool is missing"}


def test_where_all_is_required_it_blocks(with_baseline: pytest.Pytester) -> None:
    with_baseline.makepyfile(test_more=SKIPS["skip"])
    assert with_baseline.runpytest("--anubis", "--anubis-require-all").ret == 20


@pytest.mark.parametrize("name", ["cpu.compute", "test_more.py::test_speed"])
def test_what_is_required_of_it_is_missing(
    project: pytest.Pytester, learn: Learn, name: str
) -> None:
    learn(benchmark="test_more.py::test_speed")
    project.makepyfile(test_more=f"{SKIPS['skip']}{SUITE}")
    assert project.runpytest("--anubis", f"--anubis-require={name}").ret == 20
    assert "test_more.py" in untested(project)


@pytest.mark.parametrize(
    "before", [Path.unlink, lambda path: path.write_text(SKIPS["skip"])], ids=["alone", "all"]
)
def test_only_skipped_files_accept_nothing(
    with_baseline: pytest.Pytester, before: Callable[[Path], object]
) -> None:
    with_baseline.makepyfile(test_more=SKIPS["skip"])
    before(with_baseline.path / "test_suite.py")
    assert with_baseline.runpytest("--anubis").ret not in (0, 1)
