"""Plans of pairs: each node meets its partners, and none twice in a round."""

from __future__ import annotations

from itertools import combinations

import pytest

from pytest_anubis.fleet.links.pair_plans import (
    PlanError,
    Round,
    check_rounds,
    fans,
    quick_scan,
    round_robin,
    ways,
)


def met(rounds: tuple[Round, ...]) -> list[tuple[int, ...]]:
    return sorted(tuple(sorted(pair)) for one in rounds for pair in one)


@pytest.mark.parametrize("count", [2, 3, 4, 7, 8, 9, 64])
def test_round_robin_lets_every_pair_meet_once(count: int) -> None:
    rounds = round_robin(count)
    check_rounds(rounds, count)
    assert met(rounds) == list(combinations(range(count), 2))
    assert len(rounds) == count - 1 + count % 2
    assert {len(one) for one in rounds} == {count // 2}  # with an odd number one waits


@pytest.mark.parametrize("count", [0, 1])
def test_nobody_to_meet(count: int) -> None:
    assert round_robin(count) == ()


def test_quick_scan_pairs_unknown_with_good_nodes() -> None:
    rounds = quick_scan(9, good=[2, 5, 5, 77])
    check_rounds(rounds, 9)
    assert len(rounds) == 4  # seven unknown, two good ones
    assert sorted(a for one in rounds for a, _ in one) == [0, 1, 3, 4, 6, 7, 8]
    assert {b for one in rounds for _, b in one} == {2, 5}
    with pytest.raises(PlanError, match="at least one partner"):
        quick_scan(4, good=[9])


def test_each_direction_is_a_round_of_its_own() -> None:
    assert ways((((0, 1), (2, 3)),)) == (((0, 1), (2, 3)), ((1, 0), (3, 2)))


def test_plan_that_cannot_be_run() -> None:
    with pytest.raises(PlanError, match="round 1: a node is in two pairs"):
        check_rounds((((0, 1),), ((0, 1), (1, 2))), 3)
    with pytest.raises(PlanError, match="beyond the 2"):
        check_rounds((((0, 2),),), 2)


@pytest.mark.parametrize("count", [0, 1, 3, 8])
def test_fans_have_each_way_once_to_the_host_and_once_from_it(count: int) -> None:
    rounds = fans(count)
    assert len(rounds) == 2 * count
    every = [(a, b) for a in range(count) for b in range(count) if a != b]
    for kind, end in ((rounds[0::2], 1), (rounds[1::2], 0)):
        assert sorted(way for one in kind for way in one) == every
        assert [{way[end] for way in one} for one in kind if one] == [
            {node} for node in range(count) if count > 1
        ]
