"""Rounds of pairs: which nodes measure with which at the same time, so that nobody disturbs anybody.

A round is a set of pairs in which no node stands twice; what is measured in a pair is each direction by
itself, one after the other (`ways`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

Pair = tuple[int, int]
"""Two nodes by number. In a round the order says nothing; in a way the first one sends."""

Round = tuple[Pair, ...]


class PlanError(ValueError):
    """No plan of that kind for these nodes; the message says why."""


def round_robin(count: int) -> tuple[Round, ...]:
    """Return rounds in which every pair of nodes meets exactly once.

    The circle method (Kirkman 1847; Lucas, Récréations mathématiques, 1883): one node stands still, the
    others move on by one place a round. With N nodes there are N - 1 rounds and nobody waits; an odd N takes
    N rounds, and in each another node waits.

    Args:
        count: How many nodes; with fewer than two there is no round.
    """
    if count < 2:
        return ()
    circle: list[int | None] = list(range(count))
    if count % 2:
        circle.append(None)  # whoever meets this one waits
    rounds = []
    for _ in range(len(circle) - 1):
        half = len(circle) // 2
        met = zip(circle[:half], reversed(circle[half:]), strict=True)
        rounds.append(tuple((a, b) for a, b in met if a is not None and b is not None))
        circle = [circle[0], circle[-1], *circle[1:-1]]
    return tuple(rounds)


def quick_scan(count: int, good: Collection[int]) -> tuple[Round, ...]:
    """Return the fewest rounds in which every node meets one partner that is known to be good.

    A slow pair then speaks against the one of its nodes that is not yet known. With G good ones and S others
    it takes ceil(S / G) rounds, one where a half is good.

    Args:
        count: How many nodes.
        good: Those that are known to be good.

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


def by_distance(
    hops: Sequence[Sequence[int]],
    *,
    least: int = 1,
    most: int | None = None,
    rounds: int | None = None,
) -> dict[int, tuple[Round, ...]]:
    """Return rounds of pairs of equal distance, so that each layer of the network is loaded by itself.

    A round takes pairs greedily, those first whose nodes have most partners left at that distance: at most
    2 D - 1 rounds where a node has up to D partners, and mostly D (Vizing 1964: no plan needs more than
    D + 1, none less than D).

    Args:
        hops: Symmetric matrix of the nodes' distances in links; 0 or less: not reachable, never paired.
        least: Shortest distance to plan.
        most: Longest one; default: the longest there is.
        rounds: Rounds of one distance at most: one already visits nearly every node; default: until every
            pair of that distance has met.

    Returns:
        Rounds by distance, ascending.

    Raises:
        PlanError: The matrix is not square or not symmetric.
    """
    count = len(hops)
    if any(len(row) != count for row in hops):
        raise PlanError("the matrix of hops is not square")
    if any(hops[a][b] != hops[b][a] for a in range(count) for b in range(a)):
        raise PlanError("the matrix of hops is not symmetric: hops[a][b] differs from hops[b][a]")
    left: dict[int, set[Pair]] = {}
    for a in range(count):
        for b in range(a + 1, count):
            if max(1, least) <= hops[a][b] <= (hops[a][b] if most is None else most):
                left.setdefault(hops[a][b], set()).add((a, b))
    return {distance: _matchings(left[distance], rounds) for distance in sorted(left)}


def _matchings(pairs: set[Pair], most: int | None) -> tuple[Round, ...]:
    """Return rounds that hold all of the pairs, or as many rounds as are wanted."""
    found: list[Round] = []
    while pairs and (most is None or len(found) < most):
        partners: dict[int, int] = {}
        for pair in pairs:
            for node in pair:
                partners[node] = partners.get(node, 0) + 1
        busy: set[int] = set()
        chosen = []
        for a, b in sorted(pairs, key=lambda p: (-partners[p[0]] - partners[p[1]], p)):
            if a not in busy and b not in busy:
                chosen.append((a, b))
                busy |= {a, b}
        pairs = pairs.difference(chosen)
        found.append(tuple(chosen))
    return tuple(found)


def ways(rounds: Sequence[Round]) -> tuple[Round, ...]:
    """Return the rounds with each direction by itself: first from one end, then from the other.

    Both at once would disturb each other: what confirms the arrival of the one waits behind the other's data,
    so that one slow direction makes both look slow.
    """
    return tuple(
        tuple((pair[end], pair[1 - end]) for pair in one) for one in rounds for end in (0, 1)
    )


def check_rounds(rounds: Sequence[Round], count: int) -> None:
    """Make sure that a plan can be run by so many nodes.

    Raises:
        PlanError: A pair has a node that is not there, or a round has a node twice.
    """
    for number, one in enumerate(rounds):
        nodes = [node for pair in one for node in pair]
        if len(set(nodes)) < len(nodes):
            raise PlanError(f"round {number}: a node stands in two pairs")
        if not all(0 <= node < count for node in nodes):
            raise PlanError(f"round {number}: a node beyond the {count} there are")
