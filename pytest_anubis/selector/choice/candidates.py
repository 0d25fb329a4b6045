"""Benchmarks that could run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from pytest_anubis.selector.selector_error import SelectorError


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One benchmark that could run.

    Attributes:
        benchmark: Its id.
        cost_seconds: How long it takes on this hardware class, in seconds of wall time; what runs in
            parallel (one device each) is one duration, not the sum.
        component: The part of a node that it exercises, dotted, e.g. ``network.loopback``.
        pinned: It was named explicitly and is never pruned.

    Raises:
        SelectorError: The id is empty, or the cost is negative or not finite.
    """

    benchmark: str
    cost_seconds: float
    component: str = ""
    pinned: bool = False

    def __post_init__(self) -> None:
        if not self.benchmark:
            raise SelectorError("a candidate has an empty benchmark id; give each benchmark its id")
        if not math.isfinite(self.cost_seconds) or self.cost_seconds < 0:
            raise SelectorError(
                f"benchmark {self.benchmark!r} has the cost {self.cost_seconds!r} s; "
                "give a finite duration of 0 s or more"
            )


def ordered(candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """Return candidates by their ids.

    Raises:
        SelectorError: A benchmark id appears twice.
    """
    found = tuple(sorted(candidates, key=lambda candidate: candidate.benchmark))
    for one, other in pairwise(found):
        if one.benchmark == other.benchmark:
            raise SelectorError(
                f"benchmark {one.benchmark!r} is a candidate twice; name each benchmark once"
            )
    return found
