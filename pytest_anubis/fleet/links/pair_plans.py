"""Plans for the fixture `anubis_pairs`: which hosts measure their links at the same time.

No host serves two pairs at once, so that no pair disturbs another one.

A round is a set of pairs in which each node occurs once; a pair is measured in each direction by itself, one
after the other (`ways`). Only in a fan (`fans`) several ways meet on purpose.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

Pair = tuple[int, int]
"""Two nodes by number; in a way the first one sends, in a round their order means nothing."""

Round = tuple[Pair, ...]
"""Pairs that are measured at the same time; outside a fan each node occurs once at most."""


class PlanError(ValueError):
    """There is no such plan for these nodes; the message says why."""


def round_robin(count: int) -> tuple[Round, ...]:
    """Return rounds in which every pair of nodes meets exactly once.

    The circle method (Kirkman 1847; Lucas, Récréations mathématiques, 1883): one node keeps its place, the
    others move on by one place a round. An even N takes N - 1 rounds. An odd N takes N rounds, and
    in each of them a different node pauses. With fewer than two nodes there is no round.
    """
    if count < 2:
        return ()
    circle: list[int | None] = list(range(count))
    if count % 2:
        circle.append(None)  # the node that meets this one waits
    rounds = []
    for _ in range(len(circle) - 1):
        half = len(circle) // 2
        met = zip(circle[:half], reversed(circle[half:]), strict=True)
        rounds.append(tuple((a, b) for a, b in met if a is not None and b is not None))
        circle = [circle[0], circle[-1], *circle[1:-1]]
    return tuple(rounds)


def quick_scan(count: int, good: Collection[int]) -> tuple[Round, ...]:
    """Return the fewest rounds in which every other node meets one node that is known to be good.

    A slow pair then accuses its other node. With G good nodes and S others this takes ceil(S / G) rounds, one
    if half of the nodes are good.

    Raises:
        PlanError: None of them is one of the nodes.
    """
    partners = sorted({node for node in good if 0 <= node < count})
    if not partners:
        raise PlanError("a quick scan needs at least one partner that is known to be good")
    others = [node for node in range(count) if node not in partners]
    step = len(partners)
    return tuple(
        tuple(zip(others[begin : begin + step], partners, strict=False))
        for begin in range(0, len(others), step)
    )


def ways(rounds: Sequence[Round]) -> tuple[Round, ...]:
    """Return the rounds with each direction by itself: first from one end, then from the other.

    Both at once would disturb each other: acknowledgements of one direction queue behind the other's data, so
    that one slow direction makes both look slow.
    """
    return tuple(
        tuple((pair[end], pair[1 - end]) for pair in one) for one in rounds for end in (0, 1)
    )


def fans(count: int) -> tuple[Round, ...]:
    """Return two rounds for each node: all others send to it at once, then it sends to all of them.

    Pipeline-parallel training has this traffic: activations go to one node, and gradients come back.
    """
    rounds: list[Round] = []
    for node in range(count):
        others = [other for other in range(count) if other != node]
        rounds += [
            tuple((other, node) for other in others),
            tuple((node, other) for other in others),
        ]
    return tuple(rounds)


def check_rounds(rounds: Sequence[Round], count: int) -> None:
    """Make sure that a plan can be run by so many nodes.

    Raises:
        PlanError: A pair has a node that is not there, or a round has a node twice.
    """
    for number, one in enumerate(rounds):
        nodes = [node for pair in one for node in pair]
        if len(set(nodes)) < len(nodes):
            raise PlanError(f"round {number}: a node is in two pairs")
        if not all(0 <= node < count for node in nodes):
            raise PlanError(f"round {number}: a node beyond the {count} there are")
