"""What a subtest expects or skips says nothing about the test that it belongs to."""

from __future__ import annotations

import json
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


@pytest.mark.parametrize("inner", ["pytest.skip('tool missing')", "pytest.xfail('tool missing')"])
def test_check_with_a_skipped_subtest_does_not_pass(
    project: pytest.Pytester, learn: Learn, inner: str
) -> None:
    known = learn()
    check = PlainCheck(test="test_suite.py::test_parts", devices=("node",))
    save_baseline(replace(known, checks=(check,)), project.path / "baselines")
    part = "\ndef test_parts(subtests):\n    with subtests.test('a'):\n        {}\n"
    suite = project.path / "test_suite.py"
    text = suite.read_text()
    suite.write_text(text + part.format("assert True"))
    assert project.runpytest("--anubis").ret == 0
    suite.write_text(text + part.format(inner))
    result = project.runpytest("--anubis")
    assert result.ret == 20
    result.stdout.fnmatch_lines(
        ["*NOT_TESTED*test_parts*a part of it was left out: *tool missing*"]
    )


def test_check_with_a_skip_in_its_teardown_does_not_pass(
    project: pytest.Pytester, learn: Learn
) -> None:
    known = learn()
    check = PlainCheck(test="test_suite.py::test_tool", devices=("node",))
    save_baseline(replace(known, checks=(check,)), project.path / "baselines")
    tool = """
import pytest
@pytest.fixture
def tool():
    yield
    {}
def test_tool(tool):
    assert True
"""
    suite = project.path / "test_suite.py"
    text = suite.read_text()
    suite.write_text(text + tool.format("pass"))
    assert project.runpytest("--anubis").ret == 0
    suite.write_text(text + tool.format("pytest.skip('no tool to check with')"))
    assert project.runpytest("--anubis", "--anubis-run-id=r").ret == 20
    lines = (project.path / ".anubis/runs/r/journal.jsonl").read_text().splitlines()
    verdicts = [one for one in map(json.loads, lines) if one["event"] == "verdict"]
    assert [one["benchmark"] for one in verdicts if one["reason"] == "partly-run"] == [check.test]
