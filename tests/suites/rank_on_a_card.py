"""A rank on a stand-in for an accelerator: NCCL's place is taken by gloo."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist

from suites.collective import rank
from tests.suites.stand_in_card import stand_in

MEMORY = 16 << 20
"""Bytes that the card has: the benchmarks' own sizes have no room."""


def main(run: Callable[..., None] = rank.main) -> None:
    """Run a rank, of collective operations if no other main is given."""
    begin = dist.init_process_group

    def with_gloo(backend: str, *, device_id: torch.device, **given: Any) -> None:
        assert (backend, device_id.type) == ("nccl", "cuda")
        begin("gloo", **given)

    torch.set_num_threads(1)
    with (
        stand_in(memory=MEMORY, rounded=False),
        mock.patch.object(torch.cuda, "set_device"),
        mock.patch.object(torch.cuda, "get_device_properties"),
        mock.patch.object(torch, "set_num_threads"),
        mock.patch.object(dist, "init_process_group", with_gloo),
    ):
        run(*sys.argv[1:])


if __name__ == "__main__":
    main()
