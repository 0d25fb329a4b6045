"""One sick card of eight stand-ins, in whole runs of the plugin: is it judged right, and the card named?"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.accelerators import stand_in_node

FAULTS = {
    "a card 5 % slow": "a card 5 % slow",
    "a hot card": "thermal slowdown",
    "a card with less memory": "less memory",
    "a card with a bad page": "uncorrected ECC",
    "a card with a dead link": "lost NVLink",
}
"""Fault -> the condition of `benchmarks/accelerators/stand_in_node.py` that plays it."""

WORKERS = 2  # runs at a time


def tried(names: Sequence[str], trials: int) -> Iterator[tuple[str, tuple[str, int, int, int]]]:
    """Try faults.

    Yields:
        Fault; who has to find it, in how many runs exit code and line were right, runs, and how many of
        as many healthy runs were not accepted.
    """
    if not names:
        return
    with tempfile.TemporaryDirectory(prefix="anubis-faults-") as folder:
        conditions = ["healthy", *(FAULTS[name] for name in names)]
        rows = stand_in_node.rows(conditions, trials, WORKERS, Path(folder))
        [_, _, alarms, _] = next(rows)
        for name, (_, runs, wrong, _) in zip(names, rows, strict=True):
            yield name, ("the node's verdict names it", runs - len(wrong), runs, len(alarms))
