"""What is placed in a window, and where it was placed: jobs and their runs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What one node is to run.

    Attributes:
        node: Its name.
        rank: Jobs of a higher one go first.
        runs: Benchmark and its seconds.
        needs: Benchmark -> pool -> how many of it.
        pins: Those of its benchmarks that have to run: the others are given up for them.
        losses: Of those that need a pool: what is lost without it, in what a second of `Rates` is worth.
    """

    node: str
    rank: float
    runs: tuple[tuple[str, float], ...]
    needs: Mapping[str, Mapping[str, int]]
    pins: frozenset[str] = frozenset()
    losses: Mapping[str, float] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """How long all runs take."""
        return sum(length for _, length in self.runs)

    @property
    def pools(self) -> tuple[str, ...]:
        """The pools that it needs, sorted."""
        return tuple(sorted({pool for name, _ in self.runs for pool in self.needs.get(name, ())}))

    @property
    def use(self) -> dict[str, float]:
        """Pool -> seconds of its things that it takes."""
        found: dict[str, float] = {}
        for name, length in self.runs:
            for pool, count in self.needs.get(name, {}).items():
                found[pool] = found.get(pool, 0.0) + count * length
        return found

    def without(self, pools: Collection[str]) -> Job | None:
        """Return what is left without the runs that need these pools; None if that is nothing or a pin."""
        gone = {
            name for name, _ in self.runs if not self.needs.get(name, {}).keys().isdisjoint(pools)
        }
        runs = tuple(run for run in self.runs if run[0] not in gone)
        return replace(self, runs=runs) if runs and not gone & self.pins else None

    def shortened(self) -> Job | None:
        """Return what is left without what has not to run, or else without the pools; None if nothing is."""
        runs = tuple(run for run in self.runs if run[0] in self.pins)
        if len(runs) in (0, len(self.runs)):
            runs = tuple(run for run in self.runs if not self.needs.get(run[0]))
        return replace(self, runs=runs) if 0 < len(runs) < len(self.runs) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """One run of the plan.

    Attributes:
        node: On which node.
        benchmark: What.
        start: Seconds from the window's beginning.
        seconds: How long.
        lane: Number of the place among the nodes that are out of service.
        units: Pool -> numbers of the things that it takes.
    """

    node: str
    benchmark: str
    start: float
    seconds: float
    lane: int
    units: Mapping[str, tuple[int, ...]]
