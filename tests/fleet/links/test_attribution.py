"""The right part is blamed for slow pairs, and none where there is only noise."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from pytest_anubis.fleet.links.attribution import (
    Part,
    attribute,
    expected_by_distance,
    typical_rates,
)
from pytest_anubis.fleet.links.pair_plans import quick_scan, ways

NAMES = [f"n{number}" for number in range(8)]
PARTS = (
    Part("node", (3,)),
    Part("send", (3,)),
    Part("receive", (3,)),
    Part("link", (2, 5)),
    Part("way", (5, 2)),
)


def noisy(seed: int, count: int = 8, spread: float = 0.01) -> npt.NDArray[np.float64]:
    """Return rates around 10 GB/s, disturbed as on a shared machine: downwards, some of them much."""
    rng = np.random.default_rng(seed)
    return np.asarray(10 * np.exp(-rng.exponential(spread, (count, count))))


def slow(part: Part, rates: npt.NDArray[np.float64], kept: float = 0.75) -> None:
    for way in part.ways(len(rates)):
        rates[way] *= kept


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.kind)
def test_guilty_part_is_named(part: Part) -> None:
    for seed in range(20):
        rates = noisy(seed)
        slow(part, rates)
        found = attribute(rates)
        assert [one.part for one in found] == [part]
        assert found[0].confidence > 0.95
        assert max(found[0].losses) == pytest.approx(0.25, abs=0.06)


def test_nobody_is_accused_for_noise() -> None:
    assert not any(attribute(noisy(seed, spread=s)) for seed in range(100) for s in (0.003, 0.03))


def test_what_is_too_small_to_matter_is_not_told() -> None:
    rates = noisy(1, spread=0.001)
    slow(Part("node", (3,)), rates, kept=0.97)
    assert not attribute(rates)


def test_two_faults_are_named_one_after_the_other() -> None:
    rates = noisy(2)
    for part in (Part("send", (1,)), Part("link", (4, 6))):
        slow(part, rates, kept=0.6)
    assert {one.part for one in attribute(rates)} == {Part("send", (1,)), Part("link", (4, 6))}


def test_unequal_directions_and_a_dead_way() -> None:
    rates = noisy(3)
    rates[3] *= 0.5
    rates[:, 3] *= 0.8
    rates[6, 7] = 0.0
    first, second = sorted(attribute(rates), key=lambda one: one.part.kind)
    assert first.part == Part("node", (3,))
    assert first.losses == pytest.approx((0.5, 0.2), abs=0.03)
    assert second.part == Part("way", (6, 7))
    assert second.text(NAMES).startswith(
        "way n6 -> n7: 1000 times slower than the others, confidence 0.99"
    )


def test_far_nodes_are_compared_with_far_ones() -> None:
    hops = [[0 if a == b else 2 if a // 4 == b // 4 else 4 for b in range(8)] for a in range(8)]
    rates = noisy(4)
    rates[np.asarray(hops) == 4] *= 0.5
    slow(Part("receive", (6,)), rates)
    found = attribute(rates, expected=expected_by_distance(rates, hops))
    assert [one.part for one in found] == [Part("receive", (6,))]


def test_quick_scan_accuses_the_one_that_is_not_known() -> None:
    measured, rates = np.full((8, 8), np.nan), noisy(5)
    slow(Part("send", (6,)), rates, kept=0.6)
    for one in ways(quick_scan(8, good=[0, 1])):
        for way in one:
            measured[way] = rates[way]
    (found,) = attribute(measured, good=[0, 1])
    named = [found.part, *(part for part, _ in found.rivals)]
    # One measurement of one way: its sender or the way itself, which is said.
    assert set(named) == {Part("send", (6,)), Part("way", (6, 0))}
    assert "; or " in found.text(NAMES)


def test_the_best_repeat_counts() -> None:
    repeats = np.stack([noisy(6), noisy(7)])
    np.testing.assert_array_equal(typical_rates(repeats.tolist()), repeats.max(axis=0))
    assert not attribute(np.full((4, 4), np.nan))
    with pytest.raises(ValueError, match="square"):
        attribute([[1.0, 2.0]])
    with pytest.raises(ValueError, match="negative"):
        attribute([[0.0, -1.0], [1.0, 0.0]])
