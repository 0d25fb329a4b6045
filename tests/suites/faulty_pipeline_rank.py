"""A stage of a small network whose second rank has a wrong bit, as the file says that ``FAULT`` names."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

import torch
import torch.distributed as dist

from pytest_anubis.benchmarking.verification import flip_bit
from suites.pipeline import rank
from suites.workload.catalogue import BY_NAME, Sizes, Workload
from tests.suites import rank_on_a_card

FAULT = "ANUBIS_TEST_FAULT"
ON_A_CARD = "card"
SHAPE = {"width": 128, "layers": 8, "heads": 4, "kept": 2, "inner": 352, "vocabulary": 512}
SIZES = {"thin": Sizes(batch=2, length=64), "thick": Sizes(batch=4, length=64)}


def small_ones() -> dict[str, Workload]:
    """Return networks whose stages take milliseconds, the second one with twice the texts."""
    row = BY_NAME["llama-small"]
    return {
        name: replace(row, name=name, shape=SHAPE, cpu=sizes, cards=sizes)
        for name, sizes in SIZES.items()
    }


def spoil(what: str, tensor: torch.Tensor) -> None:
    """Flip the last bit of a weight or of a result of the second rank."""
    place = os.environ.get(FAULT)
    if place and dist.get_rank() == 1 and Path(place).read_text(encoding="ascii") == what:
        flip_bit(tensor, tensor.numel() // 2, 0 if what == "passed" else 20)


if __name__ == "__main__":
    BY_NAME.update(small_ones())
    if os.environ.get(FAULT) == ON_A_CARD:
        rank_on_a_card.main(rank.main)
    else:
        rank.main(*sys.argv[1:], spoil=spoil)
