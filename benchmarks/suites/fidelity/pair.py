"""Two ways to the same quantity."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

SECONDS = 0.15  # of a turn: long beside the clock and short beside what a neighbour does

Take = Callable[[], float]


@dataclass(frozen=True)
class Pair:
    """Two ways to the same quantity.

    Attributes:
        name: What is measured.
        peer: What it is held against.
        ours: Returns our value of one turn, larger is better unless the ratio is to be near one.
        theirs: Returns theirs.
        low: Least median ratio that is wanted; 0 where none is.
        high: Largest one.
        alike: The two count the same; else their ratio says nothing.
    """

    name: str
    peer: str
    ours: Take
    theirs: Take
    low: float = 0.0
    high: float = float("inf")
    alike: bool = True


class NotHere(RuntimeError):
    """A peer is not installed, or this machine cannot do it."""


def rate(run: Callable[[], object], work: float) -> Take:
    """Return what repeats a callable for a turn and gives work per second."""
    run()
    begin = time.perf_counter()
    run()
    calls = max(1, round(SECONDS / (time.perf_counter() - begin)))

    def take() -> float:
        begin = time.perf_counter()
        for _ in range(calls):
            run()
        return calls * work / (time.perf_counter() - begin)

    return take
