"""Values that are too good or wrong on many nodes: named, and no criterion is lost or learned by them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_anubis.core.baseline import DOUBTFUL, Baseline
from pytest_anubis.core.metric import Direction, Metric
from pytest_anubis.core.nominal_rate import NominalRate
from pytest_anubis.core.sample import Population, population_of
from pytest_anubis.core.verdict import Outcome
from pytest_anubis.validator import judge_sample, learn_baseline
from pytest_anubis.validator.learning.criterion_learning import learn_criterion

UNITS = {"higher": "GB/s", "lower": "us"}


def learn(*populations: Population) -> Baseline:
    return learn_baseline(populations, hardware_class="", created="-")


def rates(better: Direction, times: Sequence[float], seed: int = 3) -> Population:
    rng = np.random.default_rng(seed)
    rows = [100 * factor * np.exp(rng.normal(0, 0.004, 10)) for factor in times]
    return population_of(
        rows,
        metric=Metric(name="m", unit=UNITS[better], better=better),
        benchmark="b",
        nodes=[f"n{n:02}" for n in range(len(times))],
    )


def named(baseline: Baseline) -> str:
    return " ".join(f.text for f in baseline.findings if f.kind == DOUBTFUL)


@pytest.mark.parametrize("better", ["higher", "lower"])
@settings(max_examples=20, deadline=None)
@given(
    factor=st.sampled_from([8, 60, 1000, 1024, 1e6]),
    up=st.booleans(),
    slipped=st.sets(st.integers(0, 19), min_size=1, max_size=4),
)
def test_a_few_slips_are_named_and_cost_no_criterion(
    better: Direction, factor: float, up: bool, slipped: set[int]
) -> None:
    slip = factor if up else 1 / factor
    baseline = learn(rates(better, [slip if n in slipped else 1.0 for n in range(20)]))
    (criterion,) = baseline.criteria
    assert criterion.typical == pytest.approx(100, rel=0.01)
    assert all(f"n{n:02}" in named(baseline) for n in slipped)
    assert {one.node for one in baseline.exclusions} == {f"n{n:02}" for n in slipped}
    sick = 50.0 if better == "higher" else 200.0
    assert judge_sample([sick] * 10, criterion, baseline).outcome is Outcome.FAIL


@pytest.mark.parametrize("better", ["higher", "lower"])
@pytest.mark.parametrize("factor", [60, 1000, 1 / 1024])
@pytest.mark.parametrize("slipped", [8, 10, 12])
def test_no_criterion_where_a_unit_slipped_on_half(
    better: Direction, factor: float, slipped: int
) -> None:
    baseline = learn(rates(better, [factor] * slipped + [1.0] * (20 - slipped)))
    assert baseline.criteria == ()
    assert "another unit" in named(baseline)


@pytest.mark.parametrize("better", ["higher", "lower"])
@pytest.mark.parametrize("times", [[1.0] * 20, [1.0] * 17 + [1.2, 1.1, 0.95], [1.0] * 19 + [0.5]])
def test_healthy_and_slow_fleets_have_nothing_doubtful(
    better: Direction, times: list[float]
) -> None:
    # What is half of a rate, or twice a time, is slow; half of a time would be too good.
    good = [1 / one if better == "lower" else one for one in times]
    assert named(learn(rates(better, good))) == ""


def exact(values: Sequence[float], **metric: object) -> Population:
    result = {"name": "m", "unit": "1", "better": "equal"} | metric
    return population_of(
        [[value] for value in values],
        metric=Metric(**result),  # type: ignore[arg-type]
        benchmark="b",
        nodes=[f"n{n:02}" for n in range(len(values))],
    )


FAULTS = [
    {"unit": "errors"},
    {"name": "wrong_elements", "unit": "count"},
    {"name": "not_passed", "unit": "count"},
    {"unit": "mismatches"},
    {"name": "ecc_errors"},
    {"expect": 0.0},
]


@pytest.mark.parametrize("metric", FAULTS)
@given(values=st.lists(st.sampled_from([0.0, 1.0, 3.0]), min_size=3, max_size=12))
def test_no_majority_makes_faults_right(metric: dict[str, object], values: list[float]) -> None:
    baseline = learn(exact(values, **metric))
    assert all(criterion.centre == (0.0,) for criterion in baseline.criteria)
    wrong = [f"n{n:02}" for n, value in enumerate(values) if value]
    if not baseline.criteria:
        assert 2 * len(wrong) >= len(values)
        assert all(node in named(baseline) for node in wrong[:8])
    if not wrong:
        assert baseline.criteria


@pytest.mark.parametrize("unit", ["errors", "count", "1"])
@pytest.mark.parametrize("one_machine", [False, True])
def test_no_majority_makes_faults_normal(unit: str, one_machine: bool) -> None:
    for faulty in range(13):
        values = [3.0] * faulty + [0.0] * (12 - faulty)
        population = exact(values, name="retries", unit=unit, better="lower")
        found = learn_criterion(population, one_machine=one_machine)
        assert (found.criterion is None) == (faulty >= 6)
        if found.criterion is None:
            assert "n00" in found.findings[0].text
    shares = exact([2.25] * 12, name="clock_drop", unit="%", better="lower")
    packets = exact([3.0] * 12, name="retries", unit="packets", better="lower")
    assert learn_criterion(shares).criterion
    assert learn_criterion(packets).criterion


@given(odd=st.integers(0, 10))
def test_other_exact_metrics_need_all_but_a_few_nodes(odd: int) -> None:
    baseline = learn(exact([7.0] * (20 - odd) + [8.0] * odd, name="fingerprint"))
    assert bool(baseline.criteria) == (odd <= 2)
    assert bool(named(baseline)) == (odd > 2)


def test_what_is_expected_is_right_where_most_have_another_value() -> None:
    assert learn(exact([4.0] * 9, expect=4.0)).criteria[0].centre == (4.0,)
    assert learn(exact([5.0] * 9, expect=4.0)).criteria == ()


@pytest.mark.parametrize(("healthy", "sick"), [(2, 1), (2, 2), (2, 3)])
@pytest.mark.parametrize("better", ["higher", "lower"])
def test_sick_nodes_without_a_healthy_majority_are_named(
    better: Direction, healthy: int, sick: int
) -> None:
    """Else the metric would have no criterion, and nothing would ever reject them."""
    worse = 0.7 if better == "higher" else 1 / 0.7
    baseline = learn(rates(better, [1.0] * healthy + [worse] * sick))
    assert not baseline.criteria
    assert all(f"n{node:02}" in named(baseline) for node in range(healthy, healthy + sick))
    assert "n00" not in named(baseline)


@pytest.mark.parametrize(("share", "said"), [(0.45, True), (0.85, False)])
def test_what_is_far_below_its_nominal_rate_is_not_learned_in_silence(
    share: float, said: bool
) -> None:
    population = rates("higher", [1.0] * 12)
    nominal = NominalRate(value=100 / share, of="PCIe 5.0 x16")
    rated = replace(population, metric=replace(population.metric, nominal=nominal))
    assert ("45 % of what PCIe 5.0 x16 carries" in named(learn(rated))) is said
