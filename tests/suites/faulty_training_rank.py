"""A rank of a training on which a bit flips, where the file says that ``FAULT`` in its environment names."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

import torch
import torch.distributed as dist

from pytest_anubis.benchmarking.verification import flip_bit
from suites.workload import data_parallel_rank
from suites.workload.catalogue import BY_NAME, Sizes

FAULT = "ANUBIS_TEST_FAULT"


def spoil(model: torch.nn.Module) -> None:
    """Flip a high bit of one number of the second rank's gradient, or the last bit of one of its weights."""
    fault = Path(os.environ[FAULT]).read_text(encoding="ascii")
    if dist.get_rank() != 1:
        return
    weights = list(model.parameters())[-1]
    if fault == "gradient":
        assert weights.grad is not None
        flip_bit(weights.grad, 5, 30)
    elif fault == "weight":
        flip_bit(weights.data, 5, 0)


SHAPE = {"width": 64, "layers": 2, "heads": 4, "kept": 2, "inner": 96, "vocabulary": 256}
"""Of a network whose steps take milliseconds."""


if __name__ == "__main__":
    small = replace(BY_NAME["llama-small"], shape=SHAPE, cpu=Sizes(batch=2, length=32))
    BY_NAME["llama-small"] = small
    data_parallel_rank.main(*sys.argv[1:], spoil=spoil)
