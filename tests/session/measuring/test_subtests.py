"""What a subtest expects or skips says nothing about the test that it belongs to."""

from __future__ import annotations

import json

import pytest

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
    ("inner", "values", "outcome", "code"),
    [
        ("pytest.xfail('known')", HEALTHY, "passed", 0),
        ("pytest.skip('not here')", HEALTHY, "passed", 0),
        ("pytest.xfail('known')", SLOW, "failed", 1),
        ("assert False, 'inner'", HEALTHY, "failed", 1),
    ],
)
def test_subtest_waives_nothing(
    project: pytest.Pytester, learn: Learn, inner: str, values: list[float], outcome: str, code: int
) -> None:
    learn()
    set_speed(project, values)
    project.makepyfile(test_suite=WITH_SUBTEST.format(inner=inner))
    result = project.runpytest("--anubis", "--anubis-run-id=r")
    lines = (project.path / ".anubis/runs/r/journal.jsonl").read_text().splitlines()
    happened = [json.loads(line) for line in lines]
    (ended,) = [one for one in happened if one["event"] == "test_finished"]
    assert (ended["outcome"], ended["component"]) == (outcome, "cpu.compute")
    assert ended["benchmark"] == "test_suite.py::test_speed"
    verdicts = [one for one in happened if one["event"] == "verdict"]
    assert not [one for one in verdicts if one["reason"] == "waived"]
    assert result.ret == code
