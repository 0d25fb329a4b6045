"""Trends over the cycles of a soak: decay is found, noise and improvement are not."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_anubis.core.measurement import Measurement
from pytest_anubis.core.metric import Direction, Metric
from pytest_anubis.validator import find_trends
from pytest_anubis.validator.changes.trend import rank_variance, rising_chance


def cycle(
    *values: float, better: Direction = "higher", name: str = "rate", disturbed: bool = False
) -> Measurement:
    return Measurement(
        test="t",
        benchmark="b",
        component="c",
        metric=Metric(name=name, unit="GB/s", better=better),
        device="cuda:3",
        values=values,
        disturbance=("steal",) if disturbed else (),
    )


def falling(count: int, *, disturbed: bool = False) -> list[list[Measurement]]:
    return [[cycle(100.0 - i, 100.5 - i, disturbed=disturbed)] for i in range(count)]


def test_decay_is_found_and_named() -> None:
    (found,) = find_trends(falling(12))
    assert (found.first, found.last, found.cycles) == (98.75, 90.75, 12)
    assert found.similarity == pytest.approx(90.75 / 98.75)
    assert found.text == (
        "b rate cuda:3: 8.1 % slower at the end (median 98.75 GB/s in the first third, "
        "90.75 GB/s in the last) over 12 cycles"
    )


@pytest.mark.parametrize(
    "cycles",
    [
        falling(5),  # too few
        list(reversed(falling(12))),  # became better
        [[cycle(100.0 - 0.1 * i)] for i in range(12)],  # costs nothing
        [[cycle(100.0 - 6 * (i % 2))] for i in range(12)],  # to and fro
        falling(12, disturbed=True),
        [[cycle(100.0 - i, better="equal")] for i in range(12)],
        [[cycle(100.0 + i, better="higher")] for i in range(12)],
        [],
    ],
)
def test_what_is_no_decay_is_no_trend(cycles: list[list[Measurement]]) -> None:
    assert find_trends(cycles) == []


def test_a_time_that_grows_is_decay() -> None:
    cycles = [[cycle(100.0 + i, better="lower")] for i in range(12)]
    assert len(find_trends(cycles)) == 1


def test_the_stated_chance_is_shared_by_all_metrics() -> None:
    random = np.random.default_rng(7)
    alarms = 0
    for _ in range(200):
        noise = random.normal(100.0, 8.0, (20, 10))
        alarms += bool(
            find_trends([[cycle(v, name=f"m{j}") for j, v in enumerate(row)] for row in noise])
        )
    assert alarms <= 8  # 2 expected; more than 8 has a chance of 2e-4


def test_the_chance_of_an_order_is_that_of_counting_all_orders() -> None:
    orders = [np.array(order) for order in itertools.permutations(range(6))]

    def score(order: np.ndarray) -> float:
        return float(np.triu(np.sign(order[None, :] - order[:, None]), 1).sum())

    scores = np.array([score(order) for order in orders])
    for order in orders[::37]:
        exact = float(np.mean(scores >= score(order)))
        assert rising_chance(order) == pytest.approx(exact, abs=0.03)


@given(st.lists(st.integers(0, 5), min_size=2, max_size=20))
def test_a_chance_is_a_chance_and_order_against_order_is_unlikely(values: list[int]) -> None:
    chance = rising_chance(np.array(values, dtype=float))
    assert 0 <= chance <= 1
    assert chance >= rising_chance(np.sort(np.array(values, dtype=float))) - 1e-12


@pytest.mark.parametrize("count", [2, 4, 6])
def test_the_variance_of_the_score_is_that_over_all_orders(count: int) -> None:
    scores = [
        sum(np.sign(later - earlier) for earlier, later in itertools.combinations(order, 2))
        for order in itertools.permutations(range(count))
    ]
    assert rank_variance(count) == pytest.approx(float(np.var(scores)))
