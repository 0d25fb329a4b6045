"""Benchmarks that could run, and the runs that several of them share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

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
        shared_run: Candidates with the same non-empty value come from one run (five metrics of one
            program): choosing one of them makes the others free, and the run costs what its
            longest member costs.

    Raises:
        SelectorError: The id is empty, or the cost is negative or not finite.
    """

    benchmark: str
    cost_seconds: float
    component: str = ""
    pinned: bool = False
    shared_run: str = ""

    def __post_init__(self) -> None:
        if not self.benchmark:
            raise SelectorError("a candidate has an empty benchmark id; give each benchmark its id")
        if not math.isfinite(self.cost_seconds) or self.cost_seconds < 0:
            raise SelectorError(
                f"benchmark {self.benchmark!r} has the cost {self.cost_seconds!r} s; "
                "give a finite duration of 0 s or more"
            )


@dataclass(frozen=True, slots=True)
class Group:
    """Candidates that run together: one program, or a single benchmark.

    Attributes:
        name: Smallest benchmark id in it; groups are ordered by it.
        members: Its benchmark ids, sorted.
        cost: Seconds of the run: those of its longest member.
        pinned: One of its members is pinned.
    """

    name: str
    members: tuple[str, ...]
    cost: float
    pinned: bool


def grouped(candidates: Sequence[Candidate]) -> tuple[Group, ...]:
    """Return the runs behind candidates, ordered by their smallest id.

    Raises:
        SelectorError: A benchmark id appears twice.
    """
    seen: set[str] = set()
    runs: dict[tuple[str, str], list[Candidate]] = {}
    for candidate in candidates:
        if candidate.benchmark in seen:
            raise SelectorError(
                f"benchmark {candidate.benchmark!r} is a candidate twice; name each benchmark once"
            )
        seen.add(candidate.benchmark)
        key = ("run", candidate.shared_run) if candidate.shared_run else ("", candidate.benchmark)
        runs.setdefault(key, []).append(candidate)
    return tuple(sorted(map(_group, runs.values()), key=lambda group: group.name))


def _group(members: Sequence[Candidate]) -> Group:
    if len(members) == 1:  # nearly all, and there may be thousands
        (one,) = members
        return Group(one.benchmark, (one.benchmark,), one.cost_seconds, one.pinned)
    return Group(
        name=min(member.benchmark for member in members),
        members=tuple(sorted(member.benchmark for member in members)),
        cost=max(member.cost_seconds for member in members),
        pinned=any(member.pinned for member in members),
    )
