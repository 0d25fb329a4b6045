"""Records of a choice by `benchmark_choice`: what runs, what is left out and why, and the residual risk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

Mode = Literal["risk", "budget", "cost", "all"]
MODES: tuple[str, ...] = get_args(Mode)

Method = Literal["exact", "greedy", "nothing", "everything"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """A benchmark that was left out.

    Attributes:
        gain: By how much it would have lowered the residual risk next to what was chosen.
        reason: Why it was left out, one sentence.
    """

    benchmark: str
    cost_seconds: float
    gain: float
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Picked:
    """A benchmark that runs.

    Attributes:
        reason: What it exposes, alone and next to the others, one phrase.
    """

    benchmark: str
    cost_seconds: float
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A choice of benchmarks with everything that explains it.

    Attributes:
        chosen: Benchmark ids that run, sorted; pinned and explored ones included.
        pruned: The benchmarks that do not run, sorted by id.
        picked: The benchmarks that run, with reasons, sorted by id.
        explored: Benchmark ids that run by chance, so that later learning stays unbiased.
        mode: The requested mode.
        method: How it was found: ``exact``, ``greedy``, or without any choice.
        optimal: Whether the choice is proven to be the best one (before exploration).
        cost: Seconds of what is chosen.
        full_cost: Seconds of all candidates.
        risk_before: Probability of an incident on at least one node without validation.
        residual_risk: The same after everything chosen passed.
        full_risk: The same after all candidates passed.
        coverage: Share of defects that the chosen benchmarks expose, over all nodes.
        target: The accepted risk p0; None if there was none.
        reached: Whether the residual risk is within the target, or there is none.
        greedy_cost: Seconds of the greedy choice before exploration; None if none was made.
        bound: Bound on every choice: seconds (mode risk), share of defects (mode budget), or seconds of total
            cost (mode cost); None if nothing was optimised.
        defects: How many known defects the coverage was learned from.
    """

    chosen: tuple[str, ...]
    pruned: tuple[Pruned, ...]
    picked: tuple[Picked, ...] = ()
    explored: tuple[str, ...] = ()
    mode: str = "risk"
    method: Method = "exact"
    optimal: bool = True
    cost: float = 0.0
    full_cost: float = 0.0
    risk_before: float = 0.0
    residual_risk: float = 0.0
    full_risk: float = 0.0
    coverage: float = 0.0
    target: float | None = None
    reached: bool = True
    greedy_cost: float | None = None
    bound: float | None = None
    defects: int = 0

    @property
    def greedy_excess(self) -> float | None:
        """Share by which the greedy choice costs more than this one; None if not comparable."""
        if self.greedy_cost is None or self.mode != "risk" or self.cost <= 0:
            return None
        return self.greedy_cost / self.cost - 1
