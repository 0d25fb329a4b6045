"""Seconds of collective operations by hand, and their laws."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_anubis.benchmarking.models.collective_times import (
    Algorithm,
    Tier,
    Topology,
    collective_seconds,
)

OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce")
ALGORITHMS: tuple[Algorithm, ...] = ("ring", "direct", "halving")


@pytest.mark.parametrize(
    ("topology", "operation", "algorithm", "seconds"),
    [
        # Eight bytes among four ranks, one byte a second, a hop of ten seconds.
        ("ring", "reduce_scatter", "ring", 3 * (10 + 2)),
        ("ring", "all_reduce", "ring", 6 * (10 + 2)),
        ("ring", "reduce_scatter", "direct", 2 * 10 + (1 + 2 + 1) / 2 * 2),
        ("ring", "reduce_scatter", "halving", (2 * 10 + 2 * 4) + (10 + 2)),
        ("ring", "all_to_all", "ring", (10 + 2) + (20 + 4) + (10 + 2)),
        ("ring", "broadcast", "ring", 2 * 10 + (10 + 8)),
        ("ring", "broadcast", "direct", 2 * 10 + 3 / 2 * 8),
        ("connected", "all_gather", "direct", 10 + 2),
        ("connected", "all_reduce", "ring", 6 * (10 + 2)),
        ("connected", "broadcast", "halving", 2 * (10 + 8)),
        ("switch", "all_gather", "ring", 3 * (20 + 2)),
        ("switch", "all_to_all", "direct", 20 + 3 * 2),
        ("switch", "all_reduce", "halving", 2 * ((20 + 4) + (20 + 2))),
        ("switch", "reduce", "direct", 20 + 3 * 8),
    ],
)
def test_times_are_those_computed_by_hand(
    topology: Topology, operation: str, algorithm: Algorithm, seconds: float
) -> None:
    tier = Tier(ranks=4, topology=topology, bandwidth=1.0, latency=10.0)
    assert collective_seconds(operation, 8.0, [tier], algorithm) == pytest.approx(seconds)


def test_each_further_tier_carries_its_share_only() -> None:
    inner = Tier(ranks=4, topology="switch", bandwidth=8.0)
    outer = Tier(ranks=2, topology="switch", bandwidth=1.0)
    both = collective_seconds("all_reduce", 32.0, [inner, outer])
    assert both == pytest.approx(2 * (3 * 8 / 8 + 1 * 4 / 1))


@given(
    st.sampled_from(OPERATIONS),
    st.sampled_from(ALGORITHMS),
    st.sampled_from(["ring", "connected", "switch"]),
    st.sampled_from([1, 2, 4, 8, 16]),
    st.floats(1, 1e9),
)
def test_twice_the_bytes_take_twice_the_time_and_one_rank_takes_none(
    operation: str, algorithm: Algorithm, topology: Topology, ranks: int, size: float
) -> None:
    tier = Tier(ranks=ranks, topology=topology, bandwidth=1e9)
    once = collective_seconds(operation, size, [tier], algorithm)
    assert collective_seconds(operation, 2 * size, [tier], algorithm) == pytest.approx(2 * once)
    slower = Tier(ranks=ranks, topology=topology, bandwidth=0.5e9)
    assert collective_seconds(operation, size, [slower], algorithm) == pytest.approx(2 * once)
    assert (once == 0) == (ranks == 1)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_no_algorithm_is_quicker_than_the_ports_of_a_switch(algorithm: Algorithm) -> None:
    tier = Tier(ranks=8, topology="switch", bandwidth=100.0)
    seconds = collective_seconds("all_reduce", 800.0, [tier], algorithm)
    assert 2 * 7 / 8 * 800.0 / seconds == pytest.approx(100.0)


@pytest.mark.parametrize(
    ("operation", "algorithm", "ranks"),
    [("gather", "ring", 4), ("all_reduce", "tree", 4), ("all_reduce", "halving", 6)],
)
def test_what_there_is_not_is_refused(operation: str, algorithm: Algorithm, ranks: int) -> None:
    with pytest.raises(ValueError, match=r"no algorithm|no collective|powers of two"):
        collective_seconds(
            operation, 1.0, [Tier(ranks=ranks, topology="ring", bandwidth=1.0)], algorithm
        )
