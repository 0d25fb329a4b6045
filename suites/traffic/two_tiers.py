"""An all-reduce in chunks over two tiers of links, within groups of ranks and across them, by a schedule."""

from __future__ import annotations

from functools import partial

import torch
import torch.distributed as dist

from pytest_anubis.benchmarking.children import Message
from pytest_anubis.benchmarking.ranks import timed
from pytest_anubis.benchmarking.sizes import fitting
from suites.collective.operations import wrong_sums
from suites.traffic.seat import Seat

Stages = list[tuple[int, int, bool]]
"""Of each collective in the order in which they begin: chunk, tier (0: within), and whether it gathers."""

Shards = dict[tuple[int, int], tuple[torch.Tensor, torch.Tensor]]
"""Of each chunk and tier what the chunk is before its parts are summed there, and after."""


class TierTraffic:
    """One rank's chunks, which both tiers sum.

    Args:
        seat: The rank.
    """

    def __init__(self, seat: Seat) -> None:
        self._seat = seat
        self._chunks: list[torch.Tensor] = []
        self.rest({})

    def fit_tiers(self, request: Message) -> Message:
        """Answer how many of the wanted ``bytes`` this rank's device has room for, twice for their sums."""
        return {"bytes": fitting(request["bytes"], self._seat.device, times=2)}

    def prepare_tiers(self, request: Message) -> Message:
        """Make so many ``chunks`` of ``bytes`` in all; answer the ``bytes`` that there are."""
        world, device = self._seat.world, self._seat.device
        numbers = request["bytes"] // 4 // request["chunks"] // world * world
        self._buffer = torch.zeros(numbers * request["chunks"], device=device)
        self._chunks = list(torch.split(self._buffer, numbers))
        return {"bytes": 4 * len(self._buffer)}

    def time_tiers(self, request: Message) -> Message:
        """Answer the seconds of some ``forms``, one of so many ``times``.

        They are ``within`` and ``across``, one tier's collectives alone, and ``together``, the all-reduce,
        all of them by the same ``stages``.
        """
        stages: Stages = [tuple(stage) for stage in request["stages"]]
        self._buffer.zero_()
        forms = {
            "within": [stage for stage in stages if stage[1] == 0],
            "across": [stage for stage in stages if stage[1] == 1],
            "together": stages,
        }
        shards = self._shards(stages)
        return {
            form: timed(
                partial(self._run, forms[form], shards), self._seat.device, request["times"]
            )
            for form in request["forms"]
        }

    def check_tiers(self, request: Message) -> Message:
        """Reduce known numbers by ``stages``; answer how many sums are ``wrong``."""
        stages: Stages = [tuple(stage) for stage in request["stages"]]
        run = partial(self._run, stages, self._shards(stages))
        return {"wrong": wrong_sums(self._buffer, self._seat.number, self._seat.world, run)}

    def rest(self, _request: Message) -> Message:
        """Give up the chunks."""
        self._buffer = torch.empty(0)
        self._chunks = []
        return {}

    def _run(self, stages: Stages, shards: Shards) -> None:
        """Do stages of a schedule, all or those of one tier; each waits for its chunk's stage before it."""
        under_way: dict[int, dist.Work] = {}
        for chunk, tier, gathers in stages:
            if chunk in under_way:
                under_way[chunk].wait()
            larger, smaller = shards[chunk, tier]
            among = self._seat.across if tier else self._seat.within
            work: dist.Work | None
            if gathers:
                work = dist.all_gather_into_tensor(larger, smaller, group=among, async_op=True)
            else:
                work = dist.reduce_scatter_tensor(smaller, larger, group=among, async_op=True)
            assert work is not None
            under_way[chunk] = work
        for work in under_way.values():
            work.wait()
        self._seat.spoil(self._buffer)

    def _shards(self, whole: Stages) -> Shards:
        """Make what each chunk becomes when the parts of a tier are summed."""
        ranks = (self._seat.peers, self._seat.groups)
        found: Shards = {}
        newest = dict(enumerate(self._chunks))
        for chunk, tier, gathers in whole:
            if not gathers:
                before = newest[chunk]
                newest[chunk] = torch.empty_like(before[: len(before) // ranks[tier]])
                found[chunk, tier] = before, newest[chunk]
        return found
