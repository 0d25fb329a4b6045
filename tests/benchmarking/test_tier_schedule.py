"""Chunks over several tiers: as computed by hand, never slower than a fixed order, never beyond the bound."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_anubis.benchmarking.tier_schedule import (
    Stage,
    Tier,
    by_load,
    duration,
    fixed_order,
    schedule,
    timeline,
)

EQUAL = (Tier(2, 1.0), Tier(2, 1.0))


def bound(of: Sequence[Tier], size: float) -> float:
    """Return the seconds that no order can beat: all bytes of a rank over the sum of all rates."""
    ranks = math.prod(tier.ranks for tier in of)
    return 2 * size * (1 - 1 / ranks) / sum(tier.bandwidth for tier in of)


tiers = st.lists(
    st.builds(Tier, ranks=st.integers(2, 64), bandwidth=st.floats(0.1, 1000.0)),
    min_size=1,
    max_size=3,
)


def test_two_chunks_over_two_equal_tiers_by_hand() -> None:
    # Of a chunk of 2 bytes each rank sends 1, then 1/2, then gathers 1/2, then 1.
    fixed = timeline(EQUAL, 4.0, fixed_order(EQUAL, 2))
    first = [(s.begin, s.end, s.chunk, s.tier, s.gathers, s.bytes) for s in fixed]
    assert first == [
        (0.0, 1.0, 0, 0, False, 1.0),
        (1.0, 2.0, 1, 0, False, 1.0),
        (1.0, 1.5, 0, 1, False, 0.5),
        (1.5, 2.0, 0, 1, True, 0.5),
        (2.0, 3.0, 0, 0, True, 1.0),
        (2.0, 2.5, 1, 1, False, 0.5),
        (2.5, 3.0, 1, 1, True, 0.5),
        (3.0, 4.0, 1, 0, True, 1.0),
    ]
    assert by_load(EQUAL, 4.0, 2) == [(0, 1), (1, 0)]
    shared = schedule(EQUAL, 4.0, 2)
    assert duration(shared) == bound(EQUAL, 4.0) == 3.0


def test_fixed_order_is_kept_where_it_is_no_slower() -> None:
    wide = (
        Tier(4, 100.0),
        Tier(2, 1.0),
    )  # the second tier has little to carry, and is the slow one
    assert by_load(wide, 1.0, 8) == fixed_order(wide, 8)
    assert schedule(wide, 1.0, 8) == timeline(wide, 1.0, fixed_order(wide, 8))
    assert schedule((Tier(8, 2.0),), 16.0, 4) == timeline((Tier(8, 2.0),), 16.0, [(0,)] * 4)


def whole(stages: list[Stage], of: list[Tier], size: float, chunks: int) -> None:
    """Assert that every chunk passes all tiers there and back, and that a tier does one thing at a time."""
    for chunk in range(chunks):
        mine = [stage for stage in stages if stage.chunk == chunk]
        assert [stage.place for stage in mine] == list(range(2 * len(of)))
        there, back = mine[: len(of)], mine[len(of) :]
        assert sorted(stage.tier for stage in there) == list(range(len(of)))
        assert [stage.tier for stage in back] == [stage.tier for stage in reversed(there)]
        assert [stage.gathers for stage in mine] == [False] * len(of) + [True] * len(of)
        assert all(one.end <= two.begin for one, two in pairwise(mine))
    for tier in range(len(of)):
        mine = sorted((s for s in stages if s.tier == tier), key=lambda s: (s.begin, s.end))
        assert all(one.end <= two.begin for one, two in pairwise(mine))
    sent = sum(stage.bytes for stage in stages)
    assert sent == pytest.approx(2 * size * (1 - 1 / math.prod(tier.ranks for tier in of)))


@settings(max_examples=500)
@given(of=tiers, chunks=st.integers(1, 24), size=st.floats(1.0, 1e9))
def test_schedule_is_never_slower_than_fixed_order_and_never_beyond_the_bound(
    of: list[Tier], chunks: int, size: float
) -> None:
    found = schedule(of, size, chunks)
    whole(found, of, size, chunks)
    fixed = duration(timeline(of, size, fixed_order(of, chunks)))
    assert duration(found) <= fixed
    assert duration(found) >= bound(of, size) * (1 - 1e-9)


def test_many_chunks_over_equal_tiers_reach_the_bound_that_a_fixed_order_misses() -> None:
    three = (Tier(4, 1.0), Tier(4, 1.0), Tier(4, 1.0))
    fixed = duration(timeline(three, 1.0, fixed_order(three, 60)))
    assert fixed > 2 * bound(three, 1.0)
    assert duration(schedule(three, 1.0, 60)) < 1.1 * bound(three, 1.0)


@pytest.mark.parametrize(("of", "chunks"), [((), 1), (EQUAL, 0)])
def test_nothing_to_plan_is_refused(of: tuple[Tier, ...], chunks: int) -> None:
    with pytest.raises(ValueError, match="a schedule wants tiers and chunks"):
        schedule(of, 1.0, chunks)


@pytest.mark.parametrize(("ranks", "bandwidth"), [(0, 1.0), (2, 0.0), (2, float("nan"))])
def test_a_tier_without_ranks_or_bandwidth_is_refused(ranks: int, bandwidth: float) -> None:
    with pytest.raises(ValueError, match="a tier of"):
        Tier(ranks, bandwidth)
