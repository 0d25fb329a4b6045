"""Explain a plan in words: why each benchmark was left out, and what each chosen one exposes.

`benchmark_choice` uses it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import numpy as np
import numpy.typing as npt

from pytest_anubis.core.metric import percent_text, value_text
from pytest_anubis.selector.choice.choice_plan import Picked, Plan, Pruned
from pytest_anubis.selector.choice.cover_problem import WEIGHT, CoverProblem


def explain(
    problem: CoverProblem,
    chosen: npt.NDArray[np.bool_],
    plan: Plan,
    residual: Callable[[int], float],
    budget: float | None = None,
) -> tuple[Pruned, ...]:
    """Return every benchmark that was left out, with its reason, sorted by id.

    `chosen`, shape (g,), are the runs that are made, `plan` the plan so far, `residual` gives the joint risk
    for an exposed weight, and `budget` the seconds available in mode ``budget``.
    """
    covered = problem.patterns_of(chosen)
    exposed = int(problem.weights[covered].sum())
    own = problem.gains(np.zeros_like(covered))
    gains = problem.gains(covered)
    left: dict[int, float] = {}
    pruned: list[Pruned] = []
    for run in np.flatnonzero(~chosen).tolist():
        gain = int(gains[run])
        if gain not in left:
            left[gain] = residual(exposed) - residual(exposed + gain)
        cost = int(problem.costs[run]) / 1000
        pruned.append(
            Pruned(
                benchmark=problem.names[run],
                cost_seconds=cost,
                gain=left[gain],
                reason=_reason(int(own[run]), gain, left[gain], cost, plan, budget),
            )
        )
    return tuple(pruned)


def picked(
    problem: CoverProblem,
    chosen: npt.NDArray[np.bool_],
    exposed: Callable[[Collection[str]], int] | None = None,
) -> tuple[Picked, ...]:
    """Return what each chosen benchmark exposes, in total and as the only one, and its cost, by id.

    `chosen`, shape (g,), are the runs that are made. `exposed` counts the known defects that benchmarks
    exposed, since a share of a third may be a single defect; None: no count is known.
    """
    own = problem.gains(np.zeros(len(problem.weights), dtype=np.bool_))
    often = np.bincount(problem.rows[chosen[problem.columns]], minlength=len(problem.weights))
    alone = problem.gains(often != 1)  # counts only patterns that exactly one chosen run exposes
    found = []
    for run in np.flatnonzero(chosen).tolist():
        what = "no known defect was exposed by it yet"
        if own[run]:
            count = None if exposed is None else exposed((problem.names[run],))
            verb = "assumed to expose" if count == 0 else "exposes"
            what = f"{verb} {percent_text(int(own[run]) / WEIGHT)} of defects"
            what += f" ({count} known)" if count else ""
            only = int(alone[run])
            share = percent_text(only / WEIGHT)
            what += f", {share} as the only one of these" if only else ", others too"
        cost = int(problem.costs[run]) / 1000
        reason = f"{what}, in {duration_words(cost)}"
        found.append(Picked(benchmark=problem.names[run], cost_seconds=cost, reason=reason))
    return tuple(found)


def _reason(own: int, gain: int, less: float, cost: float, plan: Plan, budget: float | None) -> str:
    if plan.method == "nothing" and plan.target is not None:
        return (
            f"the risk of {percent_text(plan.risk_before)} is within the accepted "
            f"{percent_text(plan.target)} without any benchmark"
        )
    if plan.mode == "budget" and budget is not None and cost > budget:
        takes, available = duration_words(cost), duration_words(budget)
        if takes == available:  # equal after rounding: show more digits
            takes, available = (value_text(one, "s") for one in (cost, budget))
        return f"takes {takes}, more than the {available} that there are"
    if own == 0:
        return "no known defect was exposed by it, and its component has had its share of runs"
    share = f"{percent_text(own / WEIGHT)} of defects"
    if gain == 0:
        return f"exposes {share}, all of them exposed by what was chosen as well"
    if plan.mode == "budget":
        more = f"{percent_text(gain / WEIGHT)} more of defects in {duration_words(cost)}"
        return f"would expose {more}, but the budget is better spent on what was chosen"
    before = percent_text(plan.residual_risk)
    after = percent_text(max(0.0, plan.residual_risk - less))
    lower = f"lower the risk from {before} to {after}"
    if before == after:
        lower = f"hardly lower the risk of {before}"
    would = f"would {lower} in {duration_words(cost)}"
    if plan.mode == "cost":
        return f"{would}: dearer than the incidents that this would spare"
    return f"{would}; the accepted risk is met without it, for less"


def duration_words(seconds: float) -> str:
    """Return a duration as text: ``<1 s``, ``50 s``, ``4 min 05 s``, ``2 h 10 min``."""
    if seconds < 0.95:
        return "<1 s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"
