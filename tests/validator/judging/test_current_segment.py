"""In a soak the current segment is judged beside the whole run."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pytest_anubis.core.baseline import Baseline, Criterion
from pytest_anubis.core.metric import Metric
from pytest_anubis.core.sample import FloatArray, population_of
from pytest_anubis.core.verdict import Outcome, Reason, Triage
from pytest_anubis.validator import judge_columns, judge_sample, segments, with_segments
from pytest_anubis.validator.judging.change_screening import find_changes, judge_current

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


def judged(values: FloatArray) -> tuple[Outcome, Outcome, str]:
    """Return the verdict on the whole run, and the one with the current segment beside it."""
    found = segments(values, "higher", least_change=0.05)
    whole = with_segments(judge_sample(values, CRITERION), found)
    current = judge_current(whole, values, CRITERION, SOAK, found)
    assert (current.outcome is Outcome.FAIL) == (current.triage in (Triage.REJECT, Triage.RETEST))
    return whole.outcome, current.outcome, f"{current.text} {current.evidence}"


def test_a_part_that_fails_since_an_hour_fails_though_the_weekend_passes() -> None:
    whole, current, text = judged(run(520, 0.8))
    assert (whole, current) == (Outcome.MARGINAL, Outcome.FAIL)
    assert "passes as a whole, but its current segment, value 521 to 600, fails" in text
    assert "20 % slower" in text


def test_a_segment_within_the_limit_is_evidence_only() -> None:
    # From better than normal to a little worse: a change, and nothing that would fail anew.
    values = run(400, 0.945)
    values = values * 1.02
    whole, current, text = judged(values)
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
