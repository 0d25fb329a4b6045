"""A rank's seat among all ranks: its number, its device, and its neighbours within its group and across."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
import torch.distributed as dist

from suites.traffic.group import groups_of


class Seat:
    """Where one rank sits.

    Args:
        number: The rank.
        world: Number of ranks.
        device: Its device.
        spoil: Called with what has arrived by an exchange; tests flip a bit there, or wait.

    Attributes:
        groups: Number of groups of neighbouring ranks, 1 or 2.
        peers: Number of ranks in each group.
        within: The ranks of this rank's group; None, which means all ranks, where there is one group.
        across: The ranks with its place in every group, likewise.
    """

    def __init__(
        self,
        number: int,
        world: int,
        device: torch.device,
        spoil: Callable[[torch.Tensor], object] = lambda _: None,
    ) -> None:
        self.number, self.world, self.device = number, world, device
        self.spoil = spoil
        self.groups = groups_of(world)
        self.peers = world // self.groups
        self.within: dist.ProcessGroup | None = None
        self.across: dist.ProcessGroup | None = None
        if self.groups > 1:
            firsts = range(0, world, self.peers)
            self.within = self._mine(range(first, first + self.peers) for first in firsts)
            self.across = self._mine(range(place, world, self.peers) for place in range(self.peers))

    def _mine(self, all_groups: Iterable[range]) -> dist.ProcessGroup:
        """Make groups of ranks, as all ranks have to do together; return the one with this rank."""
        made: dict[range, dist.ProcessGroup] = {}
        for ranks in all_groups:
            made[ranks] = dist.new_group(list(ranks))
        return next(group for ranks, group in made.items() if self.number in ranks)
