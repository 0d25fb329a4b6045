"""What a test recorded before its skip is judged; a skip after nothing wrong stays one."""

from __future__ import annotations

import pytest

from pytest_anubis.cli.main import main
from tests.run_journals import events_of
from tests.session.conftest import HEALTHY, set_speed

WRONG = 'anubis_metric.record("wrong_words", {}, unit="errors", better="equal", expect=0)'
SKIPS = {
    "skip": "pytest.skip('half of it')",
    "importorskip": "pytest.importorskip('no_such_module')",
    "raised": "raise unittest.SkipTest('too old')",
    "xfail": "pytest.xfail('known')",
}


def write(project: pytest.Pytester, value: int, skip: str, *, in_fixture: bool) -> None:
    """Write a test that skips after a value was recorded, in its body or in a fixture of it."""
    lines = f"{WRONG.format(value)}\n    {skip}"
    fixture, body = (lines, "pass") if in_fixture else ("pass", lines)
    project.makepyfile(
        test_half="import unittest\nimport pytest\n\n"
        f"@pytest.fixture\ndef given(anubis_metric):\n    {fixture}\n\n"
        "@pytest.mark.anubis(component='cpu.words', metrics=['wrong_words', 'later'])\n"
        f"def test_half(given, anubis_metric):\n    {body}\n"
    )


def outcomes(project: pytest.Pytester) -> dict[str, str]:
    """Return the outcome of each metric of the half test that the run has a verdict on."""
    return {
        one["metric"]: one["outcome"]
        for one in events_of(project, "verdict")
        if "test_half" in one["benchmark"]
    }


@pytest.mark.parametrize("in_fixture", [False, True])
@pytest.mark.parametrize("how", SKIPS)
def test_a_wrong_result_before_a_skip_rejects(
    with_baseline: pytest.Pytester, how: str, in_fixture: bool
) -> None:
    write(with_baseline, 3, SKIPS[how], in_fixture=in_fixture)
    assert with_baseline.runpytest("--anubis").ret == 1
    assert outcomes(with_baseline) == {"wrong_words": "FAIL"}


@pytest.mark.parametrize("in_fixture", [False, True])
@pytest.mark.parametrize("how", ["skip", "xfail"])
def test_a_skip_after_a_right_result_is_a_skip(
    with_baseline: pytest.Pytester, how: str, in_fixture: bool
) -> None:
    write(with_baseline, 0, SKIPS[how], in_fixture=in_fixture)
    result = with_baseline.runpytest("--anubis")
    assert result.ret == 0
    result.assert_outcomes(passed=1, skipped=1)
    assert set(outcomes(with_baseline).values()) <= {"NOT_TESTED"}


@pytest.mark.parametrize("how", ["skip", "xfail"])
@pytest.mark.parametrize(
    ("mark", "option"), [("", "--anubis-mode=measure"), ("@pytest.mark.xfail\n", "--anubis")]
)
def test_skip_rejects_nothing_without_judgement(
    with_baseline: pytest.Pytester, mark: str, option: str, how: str
) -> None:
    write(with_baseline, 3, SKIPS[how], in_fixture=False)
    path = with_baseline.path / "test_half.py"
    path.write_text(path.read_text().replace("def test_half", f"{mark}def test_half"))
    assert with_baseline.runpytest("--anubis", option).ret == 0


def test_a_loss_before_a_skip_rejects(with_baseline: pytest.Pytester) -> None:
    set_speed(with_baseline, [value * 0.8 for value in HEALTHY])
    path = with_baseline.path / "test_suite.py"
    path.write_text(path.read_text() + "\n    pytest.skip('half of it')\n")
    assert with_baseline.runpytest("--anubis").ret == 1


def test_values_before_a_skip_are_judged_later(with_baseline: pytest.Pytester) -> None:
    write(with_baseline, 3, SKIPS["xfail"], in_fixture=False)
    assert with_baseline.runpytest("--anubis", "--anubis-mode=measure").ret == 0
    assert main(["judge", str(with_baseline.path / ".anubis" / "runs")]) == 1
