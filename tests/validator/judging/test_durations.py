"""A duration of 0 was never measured: it passes nothing. A rate of 0 is a dead part, and never normal."""

from __future__ import annotations

import pytest

from pytest_anubis.core.baseline import DOUBTFUL, Baseline, Criterion
from pytest_anubis.core.metric import Direction, Metric
from pytest_anubis.core.sample import population_of
from pytest_anubis.core.verdict import Outcome, Reason
from pytest_anubis.validator import judge_columns, judge_sample, learn_baseline
from pytest_anubis.validator.judging.peer_judging import judge_by_peers

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


RATE = Metric(name="m", unit="GB/s", better="higher")
NODES = ("n1", "n2", "n3", "n4")


def learn(samples: list[list[float]], metric: Metric = RATE) -> Baseline:
    found = population_of(
        samples, metric=metric, benchmark="b", hardware_class="c", nodes=NODES[: len(samples)]
    )
    return learn_baseline([found], hardware_class="c", created="2026-01-01")


@pytest.mark.parametrize("samples", [[[0.0] * 3] * 4, [[0.0]] * 2 + [[4.0]] * 2, [[0.0]] * 4])
def test_no_rate_of_zero_is_learned_as_normal(samples: list[list[float]]) -> None:
    baseline = learn(samples)
    assert not baseline.criteria
    (finding,) = baseline.findings
    assert finding.kind == DOUBTFUL
    assert all(node in finding.text for node in NODES[: samples.count(samples[0])])
    assert [one.metric for one in baseline.unjudged] == ["m"]


@pytest.mark.parametrize(
    ("values", "outcome"), [([0.0, 0.0], Outcome.INCONCLUSIVE), ([0.0, 4.0], Outcome.NOT_TESTED)]
)
def test_a_rate_of_zero_is_none_without_a_criterion(values: list[float], outcome: Outcome) -> None:
    baseline = learn([[0.0]] * 4)
    single = judge_sample(values, None, baseline, metric=RATE, benchmark="b")
    population = population_of([values], metric=RATE, benchmark="b", hardware_class="c")
    columns = judge_columns(population, None, baseline=baseline).verdict(0, baseline)
    assert single.outcome is columns.outcome is outcome
    assert single.reason is columns.reason


@pytest.mark.parametrize("better", ["higher", "lower"])
def test_a_rate_of_zero_passes_no_criterion(better: Direction) -> None:
    metric = Metric(name="m", unit="1/s", better=better)
    criterion = Criterion(benchmark="b", metric=metric, centre=(0.0,))
    population = population_of([[0.0] * 3], metric=metric, benchmark="b")
    wanted = Outcome.INCONCLUSIVE if better == "higher" else Outcome.PASS
    assert judge_sample([0.0] * 3, criterion).outcome is wanted
    assert judge_columns(population, criterion).verdict(0).outcome is wanted


def test_devices_that_all_measured_nothing_do_not_pass_by_each_other() -> None:
    names = [f"cuda:{number}" for number in range(6)]
    population = population_of(
        [[0.0] * 3] * 6, metric=RATE, benchmark="b", nodes=["n"] * 6, devices=names
    )
    [judged] = judge_by_peers([population])
    for row in range(6):
        verdict = judged.verdict(row)
        assert verdict.outcome is Outcome.INCONCLUSIVE
        assert verdict.reason is Reason.INVALID
