"""A duration of 0 was never measured: it passes nothing. A rate of 0 is a dead part."""

from __future__ import annotations

import pytest

from pytest_anubis.core.baseline import Criterion
from pytest_anubis.core.metric import Direction, Metric
from pytest_anubis.core.sample import population_of
from pytest_anubis.core.verdict import Outcome, Reason
from pytest_anubis.validator import judge_columns, judge_sample, learn_baseline

CASES: list[tuple[str, Direction, Outcome]] = [
    ("ms", "lower", Outcome.INCONCLUSIVE),
    ("us/step", "lower", Outcome.INCONCLUSIVE),
    ("\N{MICRO SIGN}s", "lower", Outcome.INCONCLUSIVE),
    ("1/s", "lower", Outcome.PASS),
    ("count", "lower", Outcome.PASS),
    ("s", "higher", Outcome.FAIL),
    ("GB/s", "higher", Outcome.FAIL),
]


@pytest.mark.parametrize(("unit", "better", "outcome"), CASES)
def test_zero(unit: str, better: Direction, outcome: Outcome) -> None:
    metric = Metric(name="m", unit=unit, better=better)
    criterion = Criterion(benchmark="b", metric=metric, centre=(4.0,))
    single = judge_sample([0.0] * 3, criterion)
    population = population_of([[0.0] * 3, [4.0] * 3], metric=metric, benchmark="b")
    columns = judge_columns(population, criterion)
    for verdict in (single, columns.verdict(0)):
        assert verdict.outcome is outcome
        if outcome is Outcome.INCONCLUSIVE:
            assert verdict.reason is Reason.INVALID
            assert verdict.text == "m cannot be judged: value 1 is 0, so nothing was timed"
    assert columns.verdict(1).outcome is Outcome.PASS


def test_nothing_is_learned_from_a_time_of_zero() -> None:
    samples = [[4.0, 4.1], [4.1, 4.0], [4.0, 4.0], [0.0, 4.0]]
    metric = Metric(name="m", unit="ms", better="lower")
    found = population_of(samples, metric=metric, benchmark="b", hardware_class="c")
    baseline = learn_baseline([found], hardware_class="c", created="2026-01-01")
    assert baseline.criteria[0].nodes == 3
    assert "nothing was timed" in baseline.exclusions[0].reason
