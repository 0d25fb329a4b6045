"""A rank that is late, gets a wrong bit or dies in an exchange, as the file says that ``FAULT`` names."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist

from pytest_anubis.benchmarking.verification import flip_bit
from suites.traffic import rank

FAULT = "ANUBIS_TEST_FAULT"
DELAY = 0.1
BIT = 10
"""Not the last: a gradient's would be lost in the weights that learn from it."""


def spoil(arrived: torch.Tensor) -> None:
    """Wait, ``flip`` a bit of or ``add`` 1 to one number that the second rank got, or end that rank."""
    fault = Path(os.environ[FAULT]).read_text(encoding="ascii")
    if fault == "slow":
        time.sleep(DELAY)
    if fault == "add" and dist.get_rank() == 1:
        arrived.view(-1)[arrived.numel() // 2] += 1
    if fault == "flip" and dist.get_rank() == 1:
        flip_bit(arrived, arrived.numel() // 2, BIT)
    if fault == "die" and dist.get_rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    rank.main(*sys.argv[1:], spoil=spoil)
