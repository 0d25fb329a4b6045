"""Changes within the runs of a whole population: found where they are, and nowhere else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pytest_anubis.core.baseline import Baseline, Criterion
from pytest_anubis.core.metric import Direction, Metric
from pytest_anubis.core.sample import FloatArray, SampleProblem, population_of
from pytest_anubis.core.verdict import Outcome, Reason, Triage
from pytest_anubis.validator import (
    JudgedColumns,
    judge_columns,
    judge_sample,
    segments,
    with_segments,
)
from pytest_anubis.validator.changes.segments import least_change
from pytest_anubis.validator.deciding.fleet_judging import judge_fleet
from pytest_anubis.validator.judging.change_screening import find_changes, judge_current
from tests.validator.known import known


def judged(
    rows: FloatArray | list[FloatArray],
    better: Direction = "higher",
    problems: dict[int, SampleProblem] | None = None,
    learned: float | None = None,
) -> JudgedColumns:
    metric = Metric(name="rate", unit="GB/s", better=better)
    centre = (99.0, 100.0, 101.0)
    criterion = Criterion(
        benchmark="b", metric=metric, centre=centre, alpha=0.85, learned=learned, nodes=9
    )
    population = population_of(list(rows), metric=metric, benchmark="b", problems=problems)
    return find_changes(judge_columns(population, criterion))


def quiet(count: int, size: int = 60, spread: float = 0.004) -> FloatArray:
    return np.asarray(100 * np.exp(np.random.default_rng(0).normal(0, spread, (count, size))))


@pytest.mark.parametrize(("better", "factor"), [("higher", 0.88), ("lower", 1 / 0.88)])
def test_only_what_changed_is_marginal(better: Direction, factor: float) -> None:
    rows = quiet(40)
    rows[7, 30:] *= factor
    rows[9, 30:] /= factor  # for the better
    found = judged(rows, better)
    verdicts = list(found.verdicts())
    assert set(found.changes) == {7}
    assert (verdicts[7].outcome, verdicts[7].reason) == (Outcome.MARGINAL, Reason.CHANGE_POINT)
    assert "from value 31 of 60" in verdicts[7].text
    assert {v.outcome for i, v in enumerate(verdicts) if i != 7} == {Outcome.PASS}


def test_what_has_passed_by_the_end_is_evidence_only() -> None:
    rows = quiet(5)
    rows[2, 20:32] *= 0.8
    found = judged(rows)
    verdict = found.verdict(2)
    assert verdict.outcome is Outcome.PASS
    assert any("until value" in line for line in verdict.evidence)


def test_a_slow_ramp_is_found() -> None:
    rows = quiet(5)
    rows[2] *= np.linspace(1, 0.85, 60)
    verdict = judged(rows).verdict(2)
    assert verdict.outcome is Outcome.MARGINAL
    assert "slowly became" in verdict.text


def test_short_sorted_and_disturbed_samples_are_left_alone() -> None:
    rows: list[FloatArray] = list(quiet(4))
    rows[0] = np.concatenate([rows[0][:10], 0.85 * rows[0][:10]])  # too short
    rows[1] = np.sort(quiet(1, spread=0.04)[0])[::-1]  # sorted by somebody
    rows[2] = np.concatenate([rows[2][:30], 0.85 * rows[2][30:]])
    found = judged(rows, problems={2: SampleProblem(kind="disturbed", text="steal")})
    assert [v.outcome for v in found.verdicts()] == [Outcome.PASS] * 4


def test_a_change_within_the_metrics_own_noise_does_not_count() -> None:
    rows = quiet(3)
    rows[1, 30:] *= 0.88
    assert judged(rows, learned=0.8).changes == {}
    assert least_change(None) == 0.05


def test_a_long_quiet_fleet_has_no_changes() -> None:
    assert judged(quiet(300, 200, 0.01)).changes == {}


def test_the_onset_is_found_in_a_very_long_run() -> None:
    rows = quiet(1, 20_000)
    rows[0, 15_000:] *= 0.9
    (found,) = judged(rows).changes.values()
    change = known(found.change)
    assert change.onset == pytest.approx(15_000, abs=100)
    assert change.until == 20_000
    assert "until" not in judged(rows).verdict(0).text


def test_more_suspects_than_can_be_searched_are_counted_and_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pytest_anubis.validator.judging.change_screening.MAX_SEARCHED", 3)
    rows = quiet(9)
    rows[:5, 30:] *= 0.85
    found = judged(rows)
    assert (len(found.changes), found.unsearched) == (3, 2)
    fleet = judge_fleet([found.population], {})
    (finding,) = fleet.findings
    assert (finding.kind, finding.benchmark, finding.metric) == ("not-searched", "b", "rate")
    assert "2 more were judged as a whole only" in finding.text
    assert judged(quiet(9)).unsearched == 0


# In a soak the current segment is judged beside the whole run.

RATE = Metric(name="rate", unit="GB/s", better="higher")
CRITERION = Criterion(benchmark="b", metric=RATE, centre=(100.0,), nodes=30, units=30)
SOAK = Baseline(
    hardware_class="c",
    attributes={"profile": "soak"},
    criteria=(CRITERION,),
    created="2026-01-01T00:00:00Z",
)


def run(since: int, level: float) -> FloatArray:
    """Return 600 values that are at so much of what is normal from one of them on."""
    values = 100.5 * np.exp(np.random.default_rng(0).normal(0, 0.003, 600))
    values[since:] *= level
    return np.asarray(values)


def by_segment(values: FloatArray) -> tuple[Outcome, Outcome, str]:
    """Return the verdict on the whole run, and the one with the current segment beside it."""
    found = segments(values, "higher", least_change=0.05)
    whole = with_segments(judge_sample(values, CRITERION), found)
    current = judge_current(whole, values, CRITERION, SOAK, found)
    assert (current.outcome is Outcome.FAIL) == (current.triage in (Triage.REJECT, Triage.RETEST))
    return whole.outcome, current.outcome, f"{current.text} {current.evidence}"


def test_a_part_that_fails_since_an_hour_fails_though_the_weekend_passes() -> None:
    whole, current, text = by_segment(run(520, 0.8))
    assert (whole, current) == (Outcome.MARGINAL, Outcome.FAIL)
    assert "passes as a whole, but its current segment, value 521 to 600, fails" in text
    assert "20 % slower" in text


def test_a_segment_within_the_limit_is_evidence_only() -> None:
    # From better than normal to a little worse: a change, and nothing that would fail anew.
    whole, current, text = by_segment(1.02 * run(400, 0.945))
    assert whole is current is Outcome.MARGINAL
    assert "its current segment, value 401 to 600, alone is PASS" in text


def test_columns_judge_the_current_segment_of_a_soak_and_of_nothing_else() -> None:
    population = population_of([run(520, 0.8), run(600, 1.0)], metric=RATE, benchmark="b")
    smoke = replace(SOAK, attributes={"profile": "smoke"})
    for baseline, outcome in ((SOAK, Outcome.FAIL), (smoke, Outcome.MARGINAL)):
        columns = find_changes(judge_columns(population, CRITERION, baseline=baseline), baseline)
        slow, sound = columns.verdicts(baseline)
        assert (slow.outcome, sound.outcome) == (outcome, Outcome.PASS)
        assert slow.reason is Reason.CHANGE_POINT
        assert columns.value[0] == slow.value
