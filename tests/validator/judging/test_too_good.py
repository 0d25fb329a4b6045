"""Values that are better than anything learned: a question, unless their spread explains them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_anubis.core.baseline import Baseline, Criterion
from pytest_anubis.core.metric import Direction, Metric
from pytest_anubis.core.sample import Population, population_of
from pytest_anubis.core.verdict import Outcome, Reason
from pytest_anubis.validator import judge_columns, judge_sample, learn_baseline
from pytest_anubis.validator.judging.verdict_table import OUTCOMES, REASONS
from pytest_anubis.validator.similarity.too_good import lowest_likeness

BETTER: tuple[Direction, ...] = ("higher", "lower")
UNITS = {"higher": "GFLOP/s", "lower": "us"}


def fleet(better: Direction, spread: float = 0.004, nodes: int = 24, seed: int = 1) -> Population:
    rng = np.random.default_rng(seed)
    rows = [100 * np.exp(rng.normal(0, spread) + rng.normal(0, 0.002, 10)) for _ in range(nodes)]
    metric = Metric(name="m", unit=UNITS[better], better=better)
    return population_of(
        rows, metric=metric, benchmark="b", nodes=[f"n{n:02}" for n in range(nodes)]
    )


def learned(better: Direction, spread: float = 0.004) -> tuple[Baseline, Criterion]:
    baseline = learn_baseline([fleet(better, spread)], hardware_class="", created="-")
    (criterion,) = baseline.criteria
    return baseline, criterion


LEARNED = {
    (better, spread): learned(better, spread) for better in BETTER for spread in (0.004, 0.05)
}


@pytest.mark.parametrize("spread", [0.004, 0.05])
@pytest.mark.parametrize("better", BETTER)
@given(power=st.floats(-11, 27), part=st.sampled_from([1.0, 0.5]))
def test_no_value_of_any_magnitude_passes_far_from_normal(
    better: Direction, spread: float, power: float, part: float
) -> None:
    baseline, criterion = LEARNED[better, spread]
    values = np.full(20, 100.0)
    values[: int(20 * part)] *= 10.0**power
    verdict = judge_sample(values, criterion, baseline)
    # A part that is too small vanishes in a mean of what is to be low: half of it must be there at least.
    if abs(power) > 1:
        assert verdict.outcome in (Outcome.FAIL, Outcome.INCONCLUSIVE)
        assert verdict.reason in (Reason.BEYOND, Reason.TOO_GOOD)
    elif abs(power) < 0.01:
        assert verdict.outcome in (Outcome.PASS, Outcome.MARGINAL)


@pytest.mark.parametrize("better", BETTER)
@given(times=st.floats(1.0, 1.4))
def test_a_little_better_than_learned_is_normal(better: Direction, times: float) -> None:
    baseline, criterion = LEARNED[better, 0.004]
    value = 100 * times if better == "higher" else 100 / times
    assert judge_sample([value] * 9, criterion, baseline).outcome is Outcome.PASS


@pytest.mark.parametrize("better", BETTER)
@pytest.mark.parametrize("factor", [8, 60, 1000, 1024])
@pytest.mark.parametrize("up", [True, False])
def test_a_slip_of_the_unit_is_named_on_either_side(
    better: Direction, factor: int, up: bool
) -> None:
    baseline, criterion = LEARNED[better, 0.004]
    value = 100.0 * factor if up else 100.0 / factor
    verdict = judge_sample([value] * 9, criterion, baseline)
    good = up == (better == "higher")
    assert verdict.reason is (Reason.TOO_GOOD if good else Reason.BEYOND)
    assert f"a factor of {factor}" in verdict.text


@pytest.mark.parametrize("better", BETTER)
@given(powers=st.lists(st.floats(-40, 300), min_size=1, max_size=6))
def test_columns_say_what_single_samples_say(better: Direction, powers: list[float]) -> None:
    baseline, criterion = LEARNED[better, 0.004]
    rows = [np.full(9, 100.0 * 10.0**power) for power in powers]
    population = population_of(
        rows, metric=criterion.metric, benchmark="b", nodes=[f"x{n}" for n in range(len(rows))]
    )
    columns = judge_columns(population, criterion, baseline=baseline)
    for row, values in enumerate(rows):
        alone = judge_sample(values, criterion, baseline)
        full = columns.verdict(row, baseline)
        assert (full.outcome, full.reason) == (alone.outcome, alone.reason)
        assert OUTCOMES[columns.outcome[row]] is alone.outcome
        assert REASONS[columns.reason[row]] is alone.reason


@pytest.mark.parametrize("value", [1e31, 1e302, 1.7e308])
@pytest.mark.parametrize("better", BETTER)
@pytest.mark.parametrize("count", [1, 9])
def test_what_nothing_can_be_is_no_value(better: Direction, value: float, count: int) -> None:
    baseline, criterion = LEARNED[better, 0.004]
    values = [100.0] * (9 - count) + [value] * count
    verdict = judge_sample(values, criterion, baseline)
    assert (verdict.outcome, verdict.reason) == (Outcome.INCONCLUSIVE, Reason.INVALID)


@pytest.mark.parametrize("unit", ["count", "%", "errors", "retransmits"])
def test_no_faults_at_all_are_not_too_good(unit: str) -> None:
    metric = Metric(name="m", unit=unit, better="lower")
    criterion = Criterion(benchmark="b", metric=metric, centre=(5.0,), nodes=9, units=9)
    assert lowest_likeness(criterion) == 0
    assert judge_sample([0.0] * 9, criterion).outcome is Outcome.PASS


def test_a_noisy_metric_leaves_more_room() -> None:
    tight, noisy = (lowest_likeness(LEARNED["higher", spread][1]) for spread in (0.004, 0.05))
    assert noisy <= tight <= 1 / 1.5


@pytest.mark.parametrize("better", BETTER)
@pytest.mark.parametrize("seed", range(3))
def test_a_fleet_and_another_that_is_somewhat_better_have_none(
    better: Direction, seed: int
) -> None:
    baseline, criterion = LEARNED[better, 0.05]
    other = fleet(better, 0.05, seed=10 + seed)
    faster = other.values * (1.1 if better == "higher" else 1 / 1.1)
    for values in (other.values, faster):
        rows = np.split(values, other.offsets[1:-1])
        again = population_of(rows, metric=other.metric, benchmark="b", nodes=list(other.nodes))
        columns = judge_columns(again, criterion, baseline=baseline)
        assert REASONS.index(Reason.TOO_GOOD) not in columns.reason.tolist()


@pytest.mark.parametrize(
    ("unit", "usual", "seen"), [("packets", 10.0, 0.0), ("degC", 60.0, 38.0), ("W", 70.0, 45.0)]
)
def test_less_of_what_is_no_time_passes(unit: str, usual: float, seen: float) -> None:
    metric = Metric(name="dropped", unit=unit, better="lower")
    criterion = Criterion(benchmark="b", metric=metric, centre=(usual,), medians=(usual,))
    assert judge_sample([seen] * 5, criterion).outcome is Outcome.PASS


def test_a_time_of_next_to_nothing_does_not() -> None:
    metric = Metric(name="step", unit="ms", better="lower")
    criterion = Criterion(benchmark="b", metric=metric, centre=(100.0,), medians=(100.0,))
    found = judge_sample([0.1] * 5, criterion)
    assert (found.outcome, found.reason) == (Outcome.INCONCLUSIVE, Reason.TOO_GOOD)
