"""Records of the scheduler: a node's job, and the runs that it becomes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The benchmarks that one node is to run."""

    node: str
    rank: float  # jobs of a higher rank go first
    runs: tuple[tuple[str, float], ...]  # benchmarks with their seconds
    needs: Mapping[str, Mapping[str, int]]  # benchmark -> pool -> number of units
    pins: frozenset[str] = frozenset()  # benchmarks that must run: the others are given up for them
    # Benchmark that needs a pool -> what is lost without it, in the unit of `SecondPrices`
    losses: Mapping[str, float] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """Duration of all runs."""
        return sum(length for _, length in self.runs)

    @property
    def pools(self) -> tuple[str, ...]:
        """The pools that it needs, sorted."""
        return tuple(sorted({pool for name, _ in self.runs for pool in self.needs.get(name, ())}))

    @property
    def use(self) -> dict[str, float]:
        """Pool -> unit seconds of it."""
        found: dict[str, float] = {}
        for name, length in self.runs:
            for pool, count in self.needs.get(name, {}).items():
                found[pool] = found.get(pool, 0.0) + count * length
        return found

    def without(self, pools: Collection[str]) -> Job | None:
        """Return the job without the runs that need these pools; None if it is empty or lacks a pin."""
        dropped = {
            name for name, _ in self.runs if not self.needs.get(name, {}).keys().isdisjoint(pools)
        }
        runs = tuple(run for run in self.runs if run[0] not in dropped)
        return replace(self, runs=runs) if runs and not dropped & self.pins else None

    def shortened(self) -> Job | None:
        """Return only its pins, or else only its runs without pools; None if that is nothing, or no less."""
        runs = tuple(run for run in self.runs if run[0] in self.pins)
        if len(runs) in (0, len(self.runs)):
            runs = tuple(run for run in self.runs if not self.needs.get(run[0]))
        return replace(self, runs=runs) if 0 < len(runs) < len(self.runs) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRun:
    """One run of the plan."""

    node: str
    benchmark: str
    start: float  # seconds from the window's beginning
    seconds: float
    lane: int  # number of the node's lane
    units: Mapping[str, tuple[int, ...]]  # pool -> numbers of the units that it holds
