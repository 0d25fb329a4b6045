"""Bisection of what only fails at scale: the right nodes, with few tests."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import pytest

from pytest_anubis.fleet.links.group_testing import bisect


@pytest.mark.parametrize("culprits", [1, 2, 4])
@pytest.mark.parametrize("count", [2, 9, 64, 500])
def test_smallest_failing_subset_is_found(count: int, culprits: int) -> None:
    draw = random.Random(count)
    for _ in range(20):
        bad = set(draw.sample(range(count), min(culprits, count)))

        def fails(nodes: Sequence[int], bad: set[int] = bad) -> bool:
            return bad <= set(nodes)

        found = bisect(range(count), fails, least=1)
        assert [set(one.nodes) for one in found.culprits] == [bad]
        assert found.complete
        assert found.tests <= 2 * len(bad) * (1 + math.log2(count / len(bad))) + 3


def test_healthy_nodes_take_one_test() -> None:
    found = bisect(range(100), lambda _: False)
    assert (found.culprits, found.tests, found.complete) == ((), 1, True)


def test_several_that_fail_alone_are_found_with_good_partners() -> None:
    bad = {5, 77, 300}
    asked: list[int] = []

    def fails(nodes: Sequence[int]) -> bool:
        asked.append(len(nodes))
        return bool(bad & set(nodes))

    found = bisect(range(2, 512), fails, partners=[0, 1])
    assert {one.nodes for one in found.culprits} == {(5,), (77,), (300,)}
    assert min(asked) == 2  # one alone cannot run it


def test_number_of_nodes_is_told_from_their_names() -> None:
    found = bisect(range(64), lambda nodes: len(nodes) >= 24)
    (one,) = found.culprits
    assert one.by_number
    assert len(one.nodes) == 24
    assert not bisect(range(64), lambda nodes: {3, 9} <= set(nodes)).culprits[0].by_number


def test_what_fails_now_and_then_is_asked_again() -> None:
    draw = random.Random(1)
    found = bisect(range(32), lambda nodes: 7 in nodes and draw.random() < 0.5, least=1, repeats=12)
    assert [one.nodes for one in found.culprits] == [(7,)]


def test_tests_run_out() -> None:
    found = bisect(range(64), lambda nodes: 7 in nodes, most=4)
    assert (found.tests, found.complete, found.culprits) == (4, False, ())
    with pytest.raises(ValueError, match="each node once"):
        bisect([1, 1], lambda _: True)
