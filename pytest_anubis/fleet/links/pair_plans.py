"""Rounds of pairs: which nodes measure with which at the same time, so that nobody disturbs anybody.

A round is a set of pairs in which no node stands twice; what is measured in a pair is each direction by
itself, one after the other (`ways`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise

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

    Where a node has up to D partners at a distance no plan has fewer than D rounds. Between two sides, as
    across a spine, there are exactly D here; in other graphs some more may be (D + 1 is always enough,
    Vizing 1964).

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
    left: dict[int, list[Pair]] = {}
    for a in range(count):
        for b in range(a + 1, count):
            if max(1, least) <= hops[a][b] <= (hops[a][b] if most is None else most):
                left.setdefault(hops[a][b], []).append((a, b))
    return {distance: _matchings(left[distance])[:rounds] for distance in sorted(left)}


def _matchings(pairs: Sequence[Pair]) -> tuple[Round, ...]:
    """Return rounds that hold all of the pairs, the fullest first.

    Rounds are colours of the graph's edges: an edge gets a colour that neither end has yet. Where there is
    none, the two colours that are free at one end each are exchanged along the path of them that begins at
    the second end (König 1916; Kempe's chain), which frees the first one's there too; in a graph that is not
    bipartite the path may lead back, and another round begins.
    """
    partner: list[dict[int, int]] = []  # by round: node -> the node that it meets

    def free_at(node: int) -> list[int]:
        return [number for number, one in enumerate(partner) if node not in one]

    for a, b in pairs:
        at_a, at_b = free_at(a), free_at(b)
        both = set(at_a) & set(at_b)
        if both:
            chosen = min(both)
        elif at_a and at_b and _exchange(partner[at_a[0]], partner[at_b[0]], b, a):
            chosen = at_a[0]
        else:
            chosen = len(partner)
            partner.append({})
        partner[chosen].update({a: b, b: a})
    rounds = (tuple(sorted(pair for pair in one.items() if pair[0] < pair[1])) for one in partner)
    return tuple(sorted(rounds, key=lambda one: -len(one)))


def _exchange(first: dict[int, int], second: dict[int, int], node: int, avoid: int) -> bool:
    """Free a node of the first round by exchanging both rounds along the path that begins there.

    Returns:
        False, and nothing is changed, if the path ends at the node to avoid.
    """
    path, here = [node], first
    while path[-1] in here:
        path.append(here[path[-1]])
        here = second if here is first else first
    if path[-1] == avoid:
        return False
    for index, ends in enumerate(pairwise(path)):
        for end in ends:
            (second if index % 2 else first).pop(end, None)
    for index, (one, other) in enumerate(pairwise(path)):
        (first if index % 2 else second).update({one: other, other: one})
    return True


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
