"""What a subtest expects or skips says nothing about the test that it belongs to."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_anubis.core.baseline import PlainCheck
from pytest_anubis.store.baselines.baseline_files import save_baseline
from tests.run_journals import events_of
from tests.session.conftest import HEALTHY, SUITE, Learn, set_speed

SLOW = [value * 0.8 for value in HEALTHY]
WITH_SUBTEST = (
    SUITE.replace("anubis_device):", "anubis_device, subtests):")
    + """
    with subtests.test("inner"):
        {inner}
"""
)


@pytest.mark.parametrize(
    ("inner", "values", "outcome", "parted", "code"),
    [
        ("pytest.xfail('known')", HEALTHY, "passed", False, 20),
        ("pytest.skip('not here')", HEALTHY, "passed", False, 20),
        ("pytest.skip('not here')", HEALTHY, "passed", True, 0),
        ("pytest.xfail('known')", SLOW, "failed", True, 1),
        ("assert False, 'inner'", HEALTHY, "failed", True, 1),
    ],
)
def test_subtest_waives_nothing(
    project: pytest.Pytester,
    learn: Learn,
    inner: str,
    values: list[float],
    outcome: str,
    parted: bool,
    code: int,
) -> None:
    known = learn()
    if parted:
        names = ("test_suite.py::test_speed",)
        save_baseline(replace(known, parted=names), project.path / "baselines")
    set_speed(project, values)
    project.makepyfile(test_suite=WITH_SUBTEST.format(inner=inner))
    result = project.runpytest("--anubis")
    (ended,) = events_of(project, "test_finished")
    assert (ended["outcome"], ended["component"]) == (outcome, "cpu.compute")
    assert ended["benchmark"] == "test_suite.py::test_speed"
    verdicts = events_of(project, "verdict")
    assert not [one for one in verdicts if one["reason"] == "waived"]
    partly = [one for one in verdicts if one["reason"] == "partly-run"]
    assert bool(partly) == (outcome == "passed")
    assert result.ret == code


PART = "def test_check(subtests):\n    with subtests.test('a'):\n        {}\n"
TEARDOWN = """
@pytest.fixture
def tool():
    yield
    {}
def test_check(tool):
    assert True
"""


@pytest.mark.parametrize(("check", "how"), [(PART, "skip"), (PART, "xfail"), (TEARDOWN, "skip")])
def test_check_of_which_a_part_is_left_out_does_not_pass(
    project: pytest.Pytester, learn: Learn, check: str, how: str
) -> None:
    known = PlainCheck(test="test_suite.py::test_check", devices=("node",))
    save_baseline(replace(learn(), checks=(known,)), project.path / "baselines")
    project.makepyfile(test_suite=SUITE + check.format("pass"))
    assert project.runpytest("--anubis", "--anubis-store=before").ret == 0
    project.makepyfile(test_suite=SUITE + check.format(f"pytest.{how}('tool missing')"))
    result = project.runpytest("--anubis")
    assert result.ret == 20
    result.stdout.fnmatch_lines(
        ["*NOT_TESTED*test_check*a part of it was left out: *tool missing*"]
    )
    verdicts = events_of(project, "verdict")
    assert [one["benchmark"] for one in verdicts if one["reason"] == "partly-run"] == [known.test]
