"""Plan an all-reduce in chunks over several tiers of links, so that all tiers work at once.

An all-reduce over tiers sums parts within each group of one tier after the other, and gathers the sums on the
way back. If every chunk begins at the same tier, that one carries the most and the others wait. Chunks that
begin at the tier with the least load share the work: Themis (Rashidi et al. 2022, arXiv 2110.04478).
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations


@dataclass(frozen=True, slots=True)
class Tier:
    """Ranks that one kind of link joins.

    Raises:
        ValueError: Fewer than one rank, or a bandwidth that is not above 0.
    """

    ranks: int  # how many
    bandwidth: float  # of one link or port one way, bytes per second

    def __post_init__(self) -> None:
        if self.ranks < 1 or not self.bandwidth > 0:
            raise ValueError(f"a tier of {self.ranks} ranks at {self.bandwidth} B/s")


@dataclass(frozen=True, slots=True)
class Stage:
    """One collective of one chunk."""

    begin: float  # seconds since the all-reduce began
    end: float  # likewise
    chunk: int  # number of the chunk
    place: int  # its number among the chunk's stages
    tier: int  # number of the tier
    gathers: bool  # it gathers sums; else it sums parts (reduce-scatter)
    bytes: float  # what each rank sends


Order = tuple[int, ...]
"""Numbers of the tiers, in the order in which a chunk's parts are summed."""


def fixed_order(tiers: Sequence[Tier], chunks: int) -> list[Order]:
    """Return the order of every chunk when all begin at the first tier."""
    return [tuple(range(len(tiers)))] * chunks


def by_load(tiers: Sequence[Tier], size: float, chunks: int) -> list[Order]:
    """Return the order of every chunk, each chosen to keep the largest load of a tier smallest.

    Args:
        tiers: The tiers, in the fixed order, which a chunk keeps where no other is better.
        size: Bytes of the whole buffer.
        chunks: Number of chunks of equal size.
    """
    loads = [0.0] * len(tiers)
    chosen = []
    for _ in range(chunks):
        after = [
            (_added(loads, tiers, stages_of(tiers, size / chunks, order)), order)
            for order in permutations(range(len(tiers)))
        ]
        loads, best = min(after, key=lambda one: max(one[0]))
        chosen.append(best)
    return chosen


def stages_of(tiers: Sequence[Tier], size: float, order: Order) -> list[tuple[int, bool, float]]:
    """Return the stages of one chunk: the tier, whether it gathers, and the bytes that each rank sends.

    Of `size` bytes a group of P ranks sends ``size (P - 1) / P`` each, and every rank keeps ``size / P`` for
    the next tier.
    """
    found = []
    for tier in order:
        found.append((tier, False, size * (tiers[tier].ranks - 1) / tiers[tier].ranks))
        size /= tiers[tier].ranks
    return [*found, *((tier, True, sent) for tier, _, sent in reversed(found))]


def timeline(tiers: Sequence[Tier], size: float, orders: Sequence[Order]) -> list[Stage]:
    """Return all stages in the order in which they begin, if a tier works at one stage at a time.

    Of those that wait for a tier the one with the fewest bytes is next.

    Args:
        tiers: The tiers.
        size: Bytes of the whole buffer, cut into as many chunks as there are orders.
        orders: The order of every chunk.
    """
    paths = [stages_of(tiers, size / len(orders), order) for order in orders]
    arrivals = [(0.0, chunk, 0) for chunk in range(len(orders))]  # a heap: time, chunk, place
    waiting: list[list[tuple[float, float, int, int]]] = [[] for _ in tiers]
    free = [0.0] * len(tiers)
    found: list[Stage] = []
    while arrivals:
        now = arrivals[0][0]
        while arrivals and arrivals[0][0] <= now:
            since, chunk, place = heapq.heappop(arrivals)
            if place < len(paths[chunk]):
                tier, _, sent = paths[chunk][place]
                heapq.heappush(waiting[tier], (sent, since, chunk, place))
        for tier, queue in enumerate(waiting):
            if queue and free[tier] <= now:
                sent, _, chunk, place = heapq.heappop(queue)
                free[tier] = now + sent / tiers[tier].bandwidth
                gathers = paths[chunk][place][1]
                found.append(Stage(now, free[tier], chunk, place, tier, gathers, sent))
                heapq.heappush(arrivals, (free[tier], chunk, place + 1))
    return found


def duration(stages: Sequence[Stage]) -> float:
    """Return the seconds from the first stage's begin to the last one's end."""
    return max(stage.end for stage in stages)


def schedule(tiers: Sequence[Tier], size: float, chunks: int) -> list[Stage]:
    """Return the stages with orders by load, or in the fixed order where that is no slower by the model.

    Args:
        tiers: The tiers, in the fixed order.
        size: Bytes of the whole buffer.
        chunks: Number of chunks.

    Raises:
        ValueError: There are no tiers or no chunks.
    """
    if not tiers or chunks < 1:
        raise ValueError("a schedule wants tiers and chunks")
    fixed = timeline(tiers, size, fixed_order(tiers, chunks))
    shared = timeline(tiers, size, by_load(tiers, size, chunks))
    return shared if duration(shared) < duration(fixed) else fixed


def _added(
    loads: Sequence[float], tiers: Sequence[Tier], stages: Sequence[tuple[int, bool, float]]
) -> list[float]:
    """Return the seconds of work of every tier with the stages of one more chunk."""
    found = list(loads)
    for tier, _, sent in stages:
        found[tier] += sent / tiers[tier].bandwidth
    return found
