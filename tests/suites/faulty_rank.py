"""A rank whose all-reduce is slow or wrong, as the file says that ``FAULT`` in its environment names."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist

from suites.collective import rank

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


if __name__ == "__main__":
    rank.main(*sys.argv[1:], reduce=all_reduce)
