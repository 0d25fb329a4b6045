"""Two ways to the same quantity."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
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
        both: Returns the two values of one round, in which they took many short turns; None where a turn of
            either cannot be short, and each is a call of `ours` or `theirs`.
    """

    name: str
    peer: str
    ours: Take
    theirs: Take
    low: float = 0.0
    high: float = float("inf")
    both: Callable[[], tuple[float, float]] | None = None


class NotHere(RuntimeError):
    """A peer is not installed, or this machine cannot do it."""


def median_interval(values: Sequence[float]) -> tuple[float, float]:
    """Return an interval that holds the median in 95 of 100 cases: between two of the values in their order.

    Whatever their distribution is: so many of them lie below the median as of so many tosses show heads
    (David and Nagaraja, Order Statistics, 7.1). Of fewer than six no two do: then all lie in it.
    """
    from scipy.stats import binom

    ordered = sorted(values)
    place = max(1, int(binom.ppf(0.025, len(ordered), 0.5)))
    return ordered[place - 1], ordered[len(ordered) - place]


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
