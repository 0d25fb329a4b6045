"""Traits that separate nodes: a slow batch is found, its racks are not, nor chance or single nodes."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_anubis.core.metric import Direction, Metric
from pytest_anubis.core.sample import FloatArray, Population, population_of
from pytest_anubis.validator.surveying.metric_drift import metric_drifts
from pytest_anubis.validator.surveying.trait_shifts import trait_shifts
from pytest_anubis.validator.surveying.unit_medians import UnitMedians, unit_medians

NODES = 60
NAMES = [f"n{i:02d}" for i in range(NODES)]
BATCH = range(12, 24)
TRAITS = {
    name: {
        "rack": f"rack {i // 6}",
        "batch": "B2" if i in BATCH else "B1",
        "delivery": "May" if i in BATCH else "June",
        "driver": f"5{i % 3}",
        "serial": f"S{i}",
    }
    for i, name in enumerate(NAMES)
}


def population(
    name: str, better: Direction, factors: FloatArray, nodes: list[str] = NAMES
) -> Population:
    chance = np.random.default_rng(len(name))
    rates = factors * chance.normal(1, 0.004, len(factors))
    values = [100 * rate * chance.normal(1, 0.002, 5) for rate in rates]
    return population_of(
        [1e4 / v if better == "lower" else v for v in values],
        metric=Metric(name=name, unit="ms" if better == "lower" else "GB/s", better=better),
        benchmark=f"t.py::test_{name}",
        nodes=nodes,
        runs=[f"{node}-{n}" for n, node in enumerate(nodes)],
        component="part",
    )


def table(**factors: FloatArray) -> UnitMedians:
    several = [
        population(name, "lower" if name.startswith("t") else "higher", each)
        for name, each in factors.items()
    ]
    (found,) = unit_medians(several)
    return found


def level(members: range, factor: float) -> FloatArray:
    return np.array([factor if i in members else 1.0 for i in range(NODES)])


def test_a_slow_batch_is_named_and_its_racks_are_not() -> None:
    some = table(rate=level(BATCH, 0.93), time=level(BATCH, 0.97), other=level(BATCH, 1))
    (shift,) = trait_shifts(some, TRAITS, rejected=[*NAMES[12:20], "n40"])
    assert (shift.trait, shift.value, shift.aliases) == ("batch", "B2", ("delivery May",))
    assert shift.nodes == tuple(NAMES[12:24])
    assert (shift.rejected, shift.rejected_others, shift.others, shift.worse) == (8, 1, 48, True)
    assert [one.metric.name for one in shift.metrics if one.worse] == ["rate", "time"]
    assert len(shift.metrics) == 2
    assert shift.metrics[0].size.endswith("% slower")
    assert shift.metrics[1].size.endswith("% longer")
    assert shift.metrics[0].similarity == pytest.approx(0.93, abs=0.01)
    assert shift.metrics[0].apart == 1


def test_what_two_traits_explain_is_named_twice_and_better_is_not_worse() -> None:
    third = np.array([1.03 if i % 3 == 1 else 1.0 for i in range(NODES)])
    found = trait_shifts(table(rate=level(BATCH, 0.93), other=third), TRAITS)
    assert {(one.trait, one.value, one.worse) for one in found} == {
        ("batch", "B2", True),
        ("driver", "51", False),
    }


def test_chance_a_few_slow_nodes_and_small_differences_are_no_shift() -> None:
    scattered = np.array([0.8 if i in (3, 14, 33, 52) else 1.0 for i in range(NODES)])
    assert trait_shifts(table(rate=scattered, time=level(BATCH, 0.996)), TRAITS) == []
    assert trait_shifts(table(rate=scattered), {}) == []


def test_a_rack_whose_nodes_fail_by_tests_without_numbers_is_found() -> None:
    alike = table(rate=level(BATCH, 1))
    (shift,) = trait_shifts(alike, TRAITS, rejected=[*NAMES[30:36], "n50"])
    assert (shift.trait, shift.value, shift.metrics, shift.rejected) == ("rack", "rack 5", (), 6)
    assert shift.worse
    scattered = ["n05", "n13", "n21", "n28", "n36", "n50"]
    assert trait_shifts(alike, TRAITS, rejected=scattered) == []


def over_time(
    change: float, *, late: float = 1.0
) -> tuple[UnitMedians, dict[tuple[str, str], float]]:
    nodes = [name for name in NAMES for _ in range(4)]
    days = [float((7 * i + 30 * turn) % 120) for i in range(NODES) for turn in range(4)]
    slow = [late if i in BATCH and turn == 3 else 1.0 for i in range(NODES) for turn in range(4)]
    factors = np.array([1 - change * day / 120 for day in days])
    (found,) = unit_medians(
        [
            population("rate", "higher", factors, nodes),
            population("time", "lower", np.array(slow), nodes),
        ]
    )
    started = {
        (f"{n}-{k}", n): 86400 * day for k, (n, day) in enumerate(zip(nodes, days, strict=True))
    }
    return found, started


def test_a_metric_that_falls_on_all_nodes_drifts_and_one_that_stays_does_not() -> None:
    found = metric_drifts(*over_time(0.04))
    assert [(one.metric.name, one.drifts) for one in found] == [("rate", True), ("time", False)]
    assert found[0].similarity == pytest.approx(1 - 0.04 * 2 / 3, abs=0.006)
    assert found[0].size.endswith("% slower")
    moments = found[0].moments
    assert moments[0].middle > moments[-1].middle
    assert all(m.low <= m.middle <= m.high and m.nodes >= 5 for m in moments)
    assert not any(one.drifts for one in metric_drifts(*over_time(-0.04)))  # better is no drift


def test_without_dates_or_within_a_day_nothing_is_said_about_time() -> None:
    some, started = over_time(0.04)
    assert metric_drifts(some, {}) == []
    assert metric_drifts(some, dict.fromkeys(started, 3600.0)) == []
    few = {unit: day / 120 * 3 for unit, day in started.items()}  # three days
    assert [one.searched for one in metric_drifts(some, few)] == [False, False]
    assert metric_drifts(some, started)[0].searched


def test_the_others_of_a_slow_half_are_no_second_cause() -> None:
    half = range(NODES // 2)
    traits = {name: {"driver": "580" if i in half else "570"} for i, name in enumerate(NAMES)}
    rejected = NAMES[::6]  # as many of both
    found = trait_shifts(table(rate=level(half, 0.97)), traits, rejected=rejected)
    assert [(one.trait, one.value) for one in found] == [("driver", "580")]
