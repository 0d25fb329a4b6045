"""A process that copies to a stand-in card; the file that ``FAULT`` names may make one slow or wrong."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from unittest import mock

import torch

from suites.link import copier
from suites.link.transfer import copy
from tests.suites.stand_in_card import stand_in

FAULT = "ANUBIS_TEST_FAULT"
DELAY = 0.1
MEMORY = 16 << 20
"""Bytes that the card has: the benchmarks' own sizes have no room."""


def main(descriptor: str, kind: str, number: str) -> None:
    """Copy late, or change a byte, on the card that the file names: ``slow 1``, ``wrong 0``."""

    def move(target: torch.Tensor, source: torch.Tensor) -> None:
        place = os.environ.get(FAULT)
        fault = Path(place).read_text(encoding="ascii") if place else ""
        copy(target, source)
        if fault == f"slow {number}":
            time.sleep(DELAY)
        if fault == f"wrong {number}":
            target[777] += 1  # not ^=: on the way back it would undo itself

    torch.set_num_threads(1)
    with (
        stand_in(memory=MEMORY, rounded=False, cards=2),
        mock.patch.object(torch.cuda, "get_device_properties"),
    ):
        copier.main(descriptor, kind, number, move=move)


if __name__ == "__main__":
    main(*sys.argv[1:])
