"""Records of a choice by `benchmark_choice`: what runs, what is left out and why, and the residual risk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

Mode = Literal["risk", "budget", "cost", "all"]
MODES: tuple[str, ...] = get_args(Mode)

Method = Literal["exact", "greedy", "nothing", "everything"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """A benchmark that was left out."""

    benchmark: str
    cost_seconds: float
    gain: float  # by how much it would have lowered the residual risk next to what was chosen
    reason: str  # why it was left out, one sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class Picked:
    """A benchmark that runs."""

    benchmark: str
    cost_seconds: float
    reason: str  # what it exposes, alone and next to the others, one phrase


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A choice of benchmarks with everything that explains it."""

    chosen: tuple[str, ...]  # benchmark ids that run, sorted; pinned and explored ones included
    pruned: tuple[Pruned, ...]  # the benchmarks that do not run, sorted by id
    picked: tuple[Picked, ...] = ()  # the benchmarks that run, with reasons, sorted by id
    # Benchmark ids that run by chance, so that later learning stays unbiased
    explored: tuple[str, ...] = ()
    mode: str = "risk"  # the requested mode
    method: Method = "exact"  # how it was found: ``exact``, ``greedy``, or without any choice
    optimal: bool = True  # whether the choice is proven to be the best one (before exploration)
    cost: float = 0.0  # seconds of what is chosen
    full_cost: float = 0.0  # seconds of all candidates
    risk_before: float = 0.0  # probability of an incident on at least one node without validation
    residual_risk: float = 0.0  # the same after everything chosen passed
    full_risk: float = 0.0  # the same after all candidates passed
    coverage: float = 0.0  # share of defects that the chosen benchmarks expose, over all nodes
    target: float | None = None  # the accepted risk p0; None if there was none
    reached: bool = True  # whether the residual risk is within the target, or there is none
    # Seconds of the greedy choice before exploration; None if none was made
    greedy_cost: float | None = None
    # Bound on every choice: seconds (mode risk), share of defects (mode budget), or seconds of
    # total cost (mode cost); None if nothing was optimised
    bound: float | None = None
    defects: int = 0  # how many known defects the coverage was learned from

    @property
    def greedy_excess(self) -> float | None:
        """Share by which the greedy choice costs more than this one; None if not comparable."""
        if self.greedy_cost is None or self.mode != "risk" or self.cost <= 0:
            return None
        return self.greedy_cost / self.cost - 1
