"""A stage of a small network: with a wrong bit on the second rank, on a stand-in for a card, or paced.

``FAULT`` in its environment is `ON_A_CARD`, `PACED`, or names a file that says which bit is wrong.
"""

from __future__ import annotations

import itertools
import os
import sys
import time
from dataclasses import replace
from pathlib import Path

import torch
import torch.distributed as dist

from pytest_anubis.benchmarking.verification import flip_bit
from suites.pipeline import rank
from suites.pipeline.group import BATCHES
from suites.pipeline.layers import Chain
from suites.workload.catalogue import BY_NAME, Sizes, Workload
from tests.suites import rank_on_a_card

COMPUTE = Chain.run
FAULT = "ANUBIS_TEST_FAULT"
ON_A_CARD, PACED = "card", "paced"
SHAPE = {"width": 128, "layers": 8, "heads": 4, "kept": 2, "inner": 352, "vocabulary": 512}
NARROW = {**SHAPE, "layers": 5, "width": 32, "inner": 48, "vocabulary": 64}
SIZES = {"thin": Sizes(batch=2, length=64), "thick": Sizes(batch=4, length=64)}
MANY = Sizes(batch=16, length=64)
RESULTS = itertools.count()
PACE = 8e-3
"""Seconds that a block or the scores of `PACED` ranks take at least, whatever else the machine does."""


def small_ones() -> dict[str, Workload]:
    """Return networks whose layers take milliseconds: twice the texts in one, little to compute in one."""
    row = BY_NAME["llama-small"]
    found = {
        name: replace(row, name=name, shape=SHAPE, cpu=sizes, cards=sizes)
        for name, sizes in SIZES.items()
    }
    return {**found, PACED: replace(row, name=PACED, shape=NARROW, cpu=MANY, cards=MANY)}


def paced(self: Chain, x: torch.Tensor, layers: range) -> torch.Tensor:
    """Compute layers, and wait until each but the embedding has had its `PACE`."""
    until = time.monotonic() + PACE * (len(layers) - (0 in layers))
    found = COMPUTE(self, x, layers)
    time.sleep(max(0.0, until - time.monotonic()))
    return found


def spoil(what: str, tensor: torch.Tensor) -> None:
    """Flip a bit of a weight or of a result of the second rank: of all, or of the third in a step."""
    place = os.environ.get(FAULT, PACED)
    if place == PACED or dist.get_rank() != 1:
        return
    fault = Path(place).read_text(encoding="ascii")
    third = what == "passed" and next(RESULTS) % (2 * BATCHES) == 2
    if fault == what or (fault == "third" and third):
        flip_bit(tensor, tensor.numel() // 2, 0 if what == "passed" else 20)


if __name__ == "__main__":
    BY_NAME.update(small_ones())
    if os.environ.get(FAULT) == PACED:
        Chain.run = paced  # type: ignore[method-assign]
    if os.environ.get(FAULT) == ON_A_CARD:
        rank.CALLS["cuda"] = 1
        rank_on_a_card.main(rank.main)
    else:
        rank.main(*sys.argv[1:], spoil=spoil)
