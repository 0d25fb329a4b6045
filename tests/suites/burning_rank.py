"""Cards under load of which the second flips a bit of each result while the file ``FAULT`` names is there."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
import torch

from pytest_anubis.benchmarking.verification import flip_bit
from suites.burn import card_rank
from suites.compute.exact import Multiply
from tests.suites.stand_in_card import right_eight_bits

FAULT = "ANUBIS_TEST_FAULT"


def product(number: int) -> Multiply | None:
    """Return what multiplies on a rank."""
    if number != 1:
        return None
    fault = Path(os.environ[FAULT])

    def faulty(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None:
        (torch._int_mm if a.dtype == torch.int8 else torch.matmul)(a, b, out=out)
        if fault.exists():
            flip_bit(out, 5 * out.shape[1], 3)

    return faulty


if __name__ == "__main__":
    right_eight_bits(pytest.MonkeyPatch())
    card_rank.main(*sys.argv[1:], product=product)
