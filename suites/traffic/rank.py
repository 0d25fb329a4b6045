"""One rank of a group, in a process of its own: started by `suites.traffic.group`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence

import torch

from pytest_anubis.benchmarking.children import Handler, Message, handlers_of
from pytest_anubis.benchmarking.ranks import serve
from pytest_anubis.benchmarking.sizes import give_back
from suites.traffic.layered_exchange import LayeredTraffic
from suites.traffic.seat import Seat
from suites.traffic.sharded_tables import TableTraffic
from suites.traffic.spread_experts import ExpertTraffic
from suites.traffic.two_jobs import JobTraffic
from suites.traffic.two_tiers import TierTraffic

PATTERNS = (ExpertTraffic, LayeredTraffic, TierTraffic, JobTraffic, TableTraffic)


def main(*arguments: str, spoil: Callable[[torch.Tensor], object] = lambda _: None) -> None:
    """Join the group and answer until the parent closes the socket.

    Args:
        arguments: The command line.
        spoil: As for `Seat`.
    """

    def make(
        number: int, world: int, device: torch.device, _own: Sequence[str]
    ) -> Mapping[str, Handler]:
        seat = Seat(number, world, device, spoil)
        patterns = [pattern(seat) for pattern in PATTERNS]

        def rest(request: Message) -> Message:
            for pattern in patterns:
                pattern.rest(request)
            give_back(device)
            return {}

        handlers: dict[str, Handler] = {}
        for pattern in patterns:
            handlers |= handlers_of(pattern)
        return {**handlers, "rest": rest}

    serve(arguments, make)


if __name__ == "__main__":
    main(*sys.argv[1:])
