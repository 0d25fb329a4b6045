"""Model the shortest time of a collective operation, by its algorithm, its size and the links.

A message takes as long as in ASTRA-sim's analytical model (Won et al., ISPASS 2023): hops times latency, and
the bytes that the busiest link carries over its bandwidth. Sizes are those of the NCCL tests: the larger of a
rank's two buffers. `suites/traffic/` and `tier_schedule` use it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

Topology = Literal["ring", "connected", "switch"]
Algorithm = Literal["ring", "direct", "halving"]


@dataclass(frozen=True, slots=True)
class Tier:
    """Ranks that one kind of link joins.

    Attributes:
        ranks: How many.
        bandwidth: Of one link or port one way, bytes per second.
        topology: ``ring``: a link each way to the next rank; ``connected``: a link to every other one;
            ``switch``: one port each.
        latency: Of one hop in seconds; through a switch a message takes two.

    Raises:
        ValueError: Fewer than one rank, or a bandwidth that is not above 0.
    """

    ranks: int
    bandwidth: float
    topology: Topology = "switch"
    latency: float = 0.0

    def __post_init__(self) -> None:
        if self.ranks < 1 or not self.bandwidth > 0:
            raise ValueError(f"a tier of {self.ranks} ranks at {self.bandwidth} B/s")

    def send(self, size: float, distance: int) -> float:
        """Return the seconds in which every rank sends to the rank at a distance, all at the same time.

        On a ring the messages of `distance` ranks share each link.
        """
        around = min(distance, self.ranks - distance) if self.topology == "ring" else 1
        hops = 2 if self.topology == "switch" else around
        return hops * self.latency + around * size / self.bandwidth

    def send_to_all(self, size: float) -> float:
        """Return the seconds in which every rank sends to each other one, all at the same time."""
        others = self.ranks - 1
        if self.topology == "connected":
            return self.send(size, 1)
        if self.topology == "switch":
            return 2 * self.latency + others * size / self.bandwidth
        # The shorter way round; to the rank opposite one half goes either way.
        both = sum(min(step, self.ranks - step) for step in range(1, self.ranks))
        return self.ranks // 2 * self.latency + both / self.ways * size / self.bandwidth

    @property
    def ways(self) -> int:
        """Links of a rank on a ring: two ranks have one between them."""
        return 1 if self.ranks == 2 else 2


def collective_seconds(
    operation: str, size: float, tiers: Sequence[Tier], algorithm: Algorithm = "ring"
) -> float:
    """Return the seconds of an operation over one tier or several, the inner ones first.

    Args:
        operation: ``all_reduce``, ``all_gather``, ``reduce_scatter``, ``all_to_all``, ``broadcast`` or
            ``reduce``.
        size: Bytes of the larger buffer of a rank.
        tiers: A scatter or gather passes on to each further tier what a rank has then: its share.
        algorithm: ``ring``, ``direct`` (everybody to everybody at once) or ``halving`` (recursive halving and
            doubling, for powers of two).

    Raises:
        ValueError: An unknown operation or algorithm, or halving among a number that is no power of two.
    """
    if algorithm not in _SCATTER:
        raise ValueError(f"{algorithm}: no algorithm; there are {', '.join(_SCATTER)}")
    if algorithm == "halving" and any(tier.ranks & (tier.ranks - 1) for tier in tiers):
        raise ValueError("halving is for powers of two")
    if operation in ("all_reduce", "all_gather", "reduce_scatter"):
        whole, seconds = size, 0.0
        for tier in tiers:
            seconds += _SCATTER[algorithm](tier, whole)
            whole /= tier.ranks
        return 2 * seconds if operation == "all_reduce" else seconds
    if operation == "all_to_all":
        return sum(_EXCHANGE[algorithm](tier, size) for tier in tiers)
    if operation in ("broadcast", "reduce"):
        return sum(_BROADCAST[algorithm](tier, size) for tier in tiers)
    raise ValueError(f"{operation}: no collective operation")


def _steps(ranks: int) -> range:
    """Return the numbers of the steps of halving."""
    return range(ranks.bit_length() - 1)


def _scatter_by_halving(tier: Tier, size: float) -> float:
    return sum(
        tier.send(size / 2 ** (step + 1), tier.ranks >> (step + 1)) for step in _steps(tier.ranks)
    )


def _exchange_in_steps(tier: Tier, size: float) -> float:
    return sum(tier.send(size / tier.ranks, distance) for distance in range(1, tier.ranks))


def _exchange_by_halving(tier: Tier, size: float) -> float:
    return sum(tier.send(size / 2, tier.ranks >> (step + 1)) for step in _steps(tier.ranks))


def _chain(tier: Tier, size: float) -> float:
    """Return the seconds of a chain that passes pieces on as soon as they arrive."""
    if tier.ranks == 1:
        return 0.0
    return (tier.ranks - 2) * tier.send(0.0, 1) + tier.send(size, 1)


def _star(tier: Tier, size: float) -> float:
    """Return the seconds in which one rank sends all to each other one."""
    others = tier.ranks - 1
    if tier.topology == "switch":
        return others and 2 * tier.latency + others * size / tier.bandwidth
    if tier.topology == "connected":
        return others and tier.send(size, 1)
    # Each of its two links carries what half of the ranks get, of the opposite one a half.
    return tier.ranks // 2 * tier.latency + others / tier.ways * size / tier.bandwidth


def _tree(tier: Tier, size: float) -> float:
    """Return the seconds of a binomial tree, in which the ranks that have it double."""
    sends = (tier.send(0.0, tier.ranks >> (step + 1)) for step in _steps(tier.ranks))
    return sum(latency + size / tier.bandwidth for latency in sends)


_Of = Callable[[Tier, float], float]
_SCATTER: dict[str, _Of] = {
    "ring": lambda tier, size: (tier.ranks - 1) * tier.send(size / tier.ranks, 1),
    "direct": lambda tier, size: tier.send_to_all(size / tier.ranks) if tier.ranks > 1 else 0.0,
    "halving": _scatter_by_halving,
}
_EXCHANGE: dict[str, _Of] = {
    "ring": _exchange_in_steps,
    "direct": _SCATTER["direct"],
    "halving": _exchange_by_halving,
}
_BROADCAST: dict[str, _Of] = {"ring": _chain, "direct": _star, "halving": _tree}
