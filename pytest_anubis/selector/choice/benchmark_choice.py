"""Choose the benchmarks that are worth their time on nodes with a known risk.

With p_i the probability of an incident on node i and C(B) the share of defects that a set B exposes, the
risk that is left after B passed is ``P_B = 1 - prod(1 - p_i (1 - C(B)))`` (anubis, section on the Selector).
Nothing runs if P is within the target already. Otherwise it is the cheapest B with P_B within the target, or
the B that exposes most within a time budget, or the B with the least expected total cost.

`choice_inputs` uses it.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from pytest_anubis.selector.choice.choice_plan import MODES, Method, Mode, Plan
from pytest_anubis.selector.choice.choice_reasons import explain, picked
from pytest_anubis.selector.choice.cover_problem import (
    WEIGHT,
    CoverProblem,
    drop_superfluous,
    greedy,
    make_problem,
)
from pytest_anubis.selector.choice.coverage import Candidate, Coverage, mixed, ordered
from pytest_anubis.selector.choice.milp import MilpSolution, cheapest, least_total, widest
from pytest_anubis.selector.risk.survival_rows import NodeRisk
from pytest_anubis.selector.selector_error import SelectorError

Mask = npt.NDArray[np.bool_]

MAX_EXACT_RUNS = 2_000
"""Runs up to which the choice is solved exactly; beyond, it is greedy and says so."""


@dataclass(frozen=True, slots=True)
class _Made:
    """A choice, how it was found, a bound on every choice, and the greedy one."""

    chosen: Mask
    method: Method
    optimal: bool
    bound: float | None = None
    greedy: Mask | None = None


Residual = Callable[[int], float]
"""Exposed weight -> residual joint risk of the nodes."""


def joint_risk(probabilities: Sequence[float]) -> float:
    """Return the probability of an incident on at least one node, ``1 - prod(1 - p)``."""
    return 0.0 - math.expm1(-math.fsum(map(_hazard, probabilities)))  # never -0


def _hazard(probability: float) -> float:
    return -math.log1p(-min(probability, 1 - 1e-12))  # finite also for 1


def make_plan(
    candidates: Sequence[Candidate],
    coverage: Coverage | Mapping[str, Coverage],
    risks: Sequence[NodeRisk],
    *,
    mode: Mode = "risk",
    p0: float | None = 0.01,
    budget_seconds: float | None = None,
    incident_seconds: float = 24 * 3600.0,
    explore: float = 0.02,
    seed: int = 0,
    exposed: Callable[[Collection[str]], int] | None = None,
) -> Plan:
    """Choose benchmarks.

    The result depends on the arguments alone, not on their order, unless the solver's time limit strikes;
    processes that must agree should therefore share one plan.

    Args:
        candidates: The benchmarks to choose from.
        coverage: What they expose; or node -> coverage where the nodes' pasts differ, which is then weighed
            by the nodes' risks (an upper bound of the residual risk, close for small risks).
        risks: The nodes to be validated, at least one.
        mode: ``risk``: cheapest set that meets `p0`. ``budget``: largest coverage in `budget_seconds`.
            ``cost``: least validation time of all nodes plus expected incidents times `incident_seconds`.
            ``all``: everything.
        p0: Accepted joint risk; None: choose however small the risk is.
        budget_seconds: Wall time for validation; needed for ``budget``.
        incident_seconds: Node seconds that one incident costs; for ``cost``.
        explore: Share of what would be pruned that runs by chance, so that coverage can still be learned.
            Under a budget it is this share of the budget, taken off first.
        seed: Seed of that chance; the same seed draws the same benchmarks.
        exposed: Counts the known defects that some benchmarks exposed, for reasons; None: no count is known.

    Raises:
        SelectorError: An argument is invalid, or no node or candidate is given.
    """
    _check(mode, p0, budget_seconds, incident_seconds, explore)
    problem, defects, residual = _problem(candidates, coverage, risks, mode)
    explored: Mask = np.zeros(len(problem.names), dtype=np.bool_)
    if mode == "all" or (defects == 0 and mode != "budget"):
        made = _Made(~explored, "everything", optimal=mode == "all")
    elif p0 is not None and residual(0) <= p0:
        made = _Made(problem.pinned.copy(), "nothing", optimal=True)
    elif mode == "budget" and budget_seconds is not None:
        limit = int(budget_seconds * 1000)
        drawn = _drawn(problem, explore, seed, limit)
        made = _most_in(replace(problem, pinned=problem.pinned | drawn), limit)
        explored = drawn & ~problem.pinned
    else:
        if mode == "cost":
            expected = math.fsum(risk.probability for risk in risks)
            price = incident_seconds * 1000 * expected / (WEIGHT * len(risks))
            made = _least_cost(problem, price)
        else:
            made = _cheapest(problem, _need(problem, residual, 0.0 if p0 is None else p0))
        explored = _drawn(problem, explore, seed, None) & ~problem.pinned & ~made.chosen
    budget = budget_seconds if mode == "budget" else None
    return _plan(problem, defects, residual, made, explored, mode, p0, budget, exposed)


def _problem(
    candidates: Sequence[Candidate],
    coverage: Coverage | Mapping[str, Coverage],
    risks: Sequence[NodeRisk],
    mode: Mode,
) -> tuple[CoverProblem, int, Residual]:
    """Return the cover problem, how many known defects it comes from, and the risk that a choice leaves."""
    if not candidates:
        raise SelectorError("there is no benchmark to choose from; give at least one candidate")
    if not risks:
        raise SelectorError("there is no node to choose for; give at least one with its risk")
    for risk in risks:
        if not 0 <= risk.probability < 1:
            raise SelectorError(
                f"node {risk.node!r} has the incident probability {risk.probability!r}; "
                "give one of at least 0 and below 1"
            )
    probabilities = [risk.probability for risk in risks]

    def exact(weight: int) -> float:
        return joint_risk([p * (1 - weight / WEIGHT) for p in probabilities])

    residual = exact
    if isinstance(coverage, Coverage):
        shared = coverage
    else:
        missing = [risk.node for risk in risks if risk.node not in coverage]
        if missing:
            raise SelectorError(f"node {missing[0]!r} has no coverage; give one for every node")
        coverages = [coverage[risk.node] for risk in risks]
        shared = coverages[0]
        if len(risks) > 1:
            hazards = [_hazard(p) for p in probabilities]
            shared = mixed(coverages, probabilities if mode == "cost" else hazards)
            hazard = math.fsum(hazards)

            def residual(weight: int) -> float:
                # ``-log(1 - p (1 - c))`` is convex in c and 0 at c = 1, so it is at most
                # ``(1 - c) (-log(1 - p))``: a bound where coverages differ and are weighed by hazard.
                return -math.expm1(-hazard * (1 - weight / WEIGHT))

    return make_problem(ordered(candidates), shared), shared.defects, residual


def _most_in(problem: CoverProblem, budget: int) -> _Made:
    """Choose the runs that expose most within milliseconds."""
    by_greed = greedy(problem, budget=max(budget, problem.cost(problem.pinned)))
    solution = widest(problem, budget) if _small(problem) else None
    return _better(solution, by_greed, lambda choice: -problem.covered(choice))


def _least_cost(problem: CoverProblem, price: float) -> _Made:
    """Choose the runs of least milliseconds, at a price in milliseconds per part of weight not exposed."""
    by_greed = greedy(problem, price=1 / price if price > 0 else math.inf)
    solution = least_total(problem, price) if _small(problem) else None
    return _better(
        solution,
        by_greed,
        lambda choice: problem.cost(choice) - price * problem.covered(choice),
    )


def _cheapest(problem: CoverProblem, need: int) -> _Made:
    """Choose the cheapest runs that expose a weight."""
    by_greed = greedy(problem, need=need)
    solution = cheapest(problem, need) if _small(problem) else None
    made = _better(solution, drop_superfluous(problem, by_greed, need), problem.cost)
    return replace(made, greedy=by_greed)


def _small(problem: CoverProblem) -> bool:
    return len(problem.names) <= MAX_EXACT_RUNS


def _need(problem: CoverProblem, residual: Residual, p0: float) -> int:
    """Return the least weight whose residual risk is within p0, or all that can be exposed."""
    reach = int(problem.weights.sum())
    if residual(reach) > p0:
        return reach
    low, high = -1, reach  # residual(low) > p0 >= residual(high)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if residual(middle) <= p0 else (middle, high)
    return high


def _better(
    solution: MilpSolution | None, by_greed: Mask, objective: Callable[[Mask], float]
) -> _Made:
    """Take the solver's choice, unless it has none or, stopped by the time limit, a worse one than greedy."""
    if solution is None:
        return _Made(by_greed, "greedy", optimal=False, greedy=by_greed)
    chosen = solution.chosen
    if chosen is None or (not solution.proven and objective(by_greed) < objective(chosen)):
        return _Made(by_greed, "greedy", optimal=False, bound=solution.bound, greedy=by_greed)
    return _Made(chosen, "exact", solution.proven, solution.bound, by_greed)


def _drawn(problem: CoverProblem, share: float, seed: int, budget: int | None) -> Mask:
    """Draw runs by chance, each from its own name, so that one does not depend on the others.

    Under a budget every run is drawn with such a probability that the share of the budget is spent on
    average, and only what fits next to the pinned runs is taken.
    """
    drawn = np.zeros(len(problem.names), dtype=np.bool_)
    if budget is not None:
        share *= min(1.0, budget / max(1, int(problem.costs.sum())))
        budget -= problem.cost(problem.pinned)
    numbers = [_random_number(seed, name) for name in problem.names]
    for run in np.argsort(numbers, kind="stable").tolist():
        cost = int(problem.costs[run])
        if numbers[run] >= share:
            break
        if budget is None or cost <= budget:
            drawn[run] = True
            budget = None if budget is None else budget - cost
    return drawn


def _random_number(seed: int, name: str) -> float:
    """Return a pseudo-random number in [0, 1) that depends on seed and name alone."""
    digest = hashlib.sha256(f"{seed}:{name}".encode()).digest()
    return int.from_bytes(digest[:7]) / 2**56


def _plan(
    problem: CoverProblem,
    defects: int,
    residual: Residual,
    made: _Made,
    explored: Mask,
    mode: Mode,
    p0: float | None,
    budget: float | None,
    exposed: Callable[[Collection[str]], int] | None,
) -> Plan:
    final = made.chosen | explored
    covered = problem.covered(final)
    left = residual(covered)
    parts = WEIGHT if mode == "budget" else 1000  # of defects, or of a second
    plan = Plan(
        chosen=tuple(problem.names[run] for run in np.flatnonzero(final).tolist()),
        pruned=(),
        picked=picked(problem, final, exposed),
        explored=tuple(problem.names[run] for run in np.flatnonzero(explored).tolist()),
        mode=mode,
        method=made.method,
        optimal=made.optimal,
        cost=problem.cost(final) / 1000,
        full_cost=int(problem.costs.sum()) / 1000,
        risk_before=residual(0),
        residual_risk=left,
        full_risk=residual(int(problem.weights.sum())),
        coverage=covered / WEIGHT,
        target=p0,
        reached=p0 is None or left <= p0,
        greedy_cost=None if made.greedy is None else problem.cost(made.greedy) / 1000,
        bound=None if made.bound is None else made.bound / parts,
        defects=defects,
    )
    return replace(plan, pruned=explain(problem, final, plan, residual, budget))


def _check(
    mode: str, p0: float | None, budget: float | None, incident: float, explore: float
) -> None:
    if mode not in MODES:
        raise SelectorError(f"selection {mode!r} is none of {', '.join(MODES)}")
    if p0 is not None and not 0 <= p0 < 1:
        raise SelectorError(f"the accepted risk is {p0!r}; give one of at least 0 and below 1")
    if mode == "risk" and p0 is None:
        raise SelectorError("selection by risk needs the accepted risk p0, e.g. 0.01")
    if mode == "budget" and (budget is None or not math.isfinite(budget) or budget < 0):
        raise SelectorError(f"selection by budget needs seconds of 0 or more, not {budget!r}")
    if not math.isfinite(incident) or incident < 0:
        raise SelectorError(f"an incident costs {incident!r} s; give 0 or more seconds")
    if not 0 <= explore <= 1:
        raise SelectorError(f"the explored share is {explore!r}; give one from 0 to 1")
