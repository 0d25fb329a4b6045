"""A rank whose all-reduce is slow or wrong, as the file says that ``FAULT`` in its environment names."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist

from suites.collective import operations, rank

FAULT = "ANUBIS_TEST_FAULT"
DELAY = 0.2


def all_reduce(tensor: torch.Tensor, in_background: bool) -> dist.Work | None:
    """Reduce late, or flip the last bit of one element on one rank."""
    fault = Path(os.environ[FAULT]).read_text(encoding="ascii")
    if fault == "slow":
        time.sleep(DELAY)
    work = rank.all_reduce(tensor, in_background)
    if fault == "flip" and dist.get_rank() == 1:
        if work is not None:
            work.wait()
        tensor.view(torch.int32)[tensor.numel() // 2] ^= 1
    return work


def perform(operation: str, sent: torch.Tensor, due: torch.Tensor) -> None:
    """Where something is due, flip a last bit, lose what arrives, or put its halves in each other's place."""
    fault = Path(os.environ[FAULT]).read_text(encoding="ascii")
    before = due.clone()
    operations.perform(operation, sent, due)
    if dist.get_rank() != (0 if operation == "reduce" else 1):
        return
    if fault == "flip":
        due.view(torch.int32)[due.numel() // 2] ^= 1
    if fault == "lose":
        due.copy_(before)
    if fault == "swap":
        due.copy_(due.roll(due.numel() // 2))


if __name__ == "__main__":
    rank.main(*sys.argv[1:], reduce=all_reduce, perform=perform)
