"""What the Selector decided, and why: plain values."""

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
        benchmark: Its id.
        cost_seconds: What its run would have cost beside what was chosen.
        gain: By how much it would have lowered the residual risk beside what was chosen.
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
        benchmark: Its id.
        cost_seconds: What its run costs.
        reason: What it exposes, by itself and next to the others, one phrase.
    """

    benchmark: str
    cost_seconds: float
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A choice of benchmarks with everything that explains it.

    Attributes:
        chosen: Benchmark ids that run, sorted; pinned and explored ones included.
        pruned: Those that do not, sorted by id.
        picked: What each chosen one is good for, and its price, sorted by id.
        explored: Benchmark ids that run only so that later learning stays unbiased.
        mode: What was asked for.
        method: How it was found: ``exact``, ``greedy``, or without any choice.
        optimal: The choice is proven to be the best one (before exploration).
        cost: Seconds of what is chosen.
        full_cost: Seconds of all candidates.
        risk_before: Probability of an incident on at least one node without validation.
        residual_risk: The same after everything chosen passed.
        full_risk: The same after all candidates passed.
        coverage: Share of defects that the chosen benchmarks expose, over all nodes.
        target: The risk p0 that was asked for; None when none was.
        reached: The residual risk is within the target, or there was none.
        greedy_cost: Seconds of the greedy choice before exploration; None where none was made.
        bound: No choice can be better than this: seconds (mode risk), share of defects (mode
            budget), or seconds of total cost (mode cost); None where nothing was optimised.
        defects: How many known defects the coverage rests on.
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
        """Share by which the greedy choice costs more than the one made; None if not comparable."""
        if self.greedy_cost is None or self.mode != "risk" or self.cost <= 0:
            return None
        return self.greedy_cost / self.cost - 1
