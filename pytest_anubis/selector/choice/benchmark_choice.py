"""Choose the benchmarks that are worth their time on nodes with a known risk.

With p_i the probability of an incident on node i and C(B) the share of defects that a set B exposes,
the risk that is left after B passed is ``P_B = 1 - prod(1 - p_i (1 - C(B)))`` (anubis, section on
the Selector). Nothing runs if P is within the target already; else the cheapest B with P_B within
it, or the B that exposes most within a time budget, or the B with the least expected total cost.
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
    Problem,
    greedy,
    make_problem,
    tidied,
)
from pytest_anubis.selector.choice.coverage import Candidate, Coverage, mixed, ordered
from pytest_anubis.selector.choice.milp import Solution, cheapest, least_total, widest
from pytest_anubis.selector.risk.node_status import NodeRisk
from pytest_anubis.selector.selector_error import SelectorError

Choice = npt.NDArray[np.bool_]

EXACT_RUNS = 2_000  # beyond this many runs the greedy choice is made, and says so


@dataclass(frozen=True, slots=True)
class _Made:
    """A choice, how it was found, and what no choice can beat."""

    chosen: Choice
    method: Method
    optimal: bool
    bound: float | None = None
    greedy: Choice | None = None


def joint_risk(probabilities: Sequence[float]) -> float:
    """Return the probability of an incident on at least one node, ``1 - prod(1 - p)``."""
    return 0.0 - math.expm1(-math.fsum(map(_hazard, probabilities)))  # never -0


def _hazard(probability: float) -> float:
    return -math.log1p(-min(probability, 1 - 1e-12))  # of 1 it is infinite


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
    exact: bool = True,
    time_limit: float = 5.0,
    exposed: Callable[[Collection[str]], int] | None = None,
) -> Plan:
    """Choose benchmarks.

    The result depends on the arguments alone, not on their order, unless the time limit strikes;
    processes that must agree should therefore share one plan.

    Args:
        candidates: The benchmarks to choose from.
        coverage: What they expose; or node -> coverage where the nodes' pasts differ, which is then
            weighed by the nodes' risks (an upper bound of the residual risk, close for small risks).
        risks: The nodes to be validated, at least one.
        mode: ``risk``: cheapest set that meets `p0`. ``budget``: largest coverage in
            `budget_seconds`. ``cost``: least validation time of all nodes plus expected incidents
            times `incident_seconds`. ``all``: everything.
        p0: Accepted joint risk; None: the choice is made however small the risk is.
        budget_seconds: Wall time for validation; needed for ``budget``.
        incident_seconds: Node seconds that one incident costs; for ``cost``.
        explore: Share of what would be pruned that runs nevertheless, by chance, so that coverage
            can still be learned. Under a budget it is this share of the budget, taken off first.
        seed: Seed of that chance; the same benchmark falls the same way for the same seed.
        exact: Solve exactly; otherwise greedily.
        time_limit: Seconds for the exact solution; then the best choice so far, or greedy, is taken.
        exposed: Returns how many known defects some benchmarks exposed, as reasons say; None: nobody counted.

    Raises:
        SelectorError: An argument makes no sense, or no node or candidate is given.
    """
    _check(mode, p0, budget_seconds, incident_seconds, explore, time_limit)
    problem, question = _question(candidates, coverage, risks, mode)
    count = len(problem.names)
    before = question.residual(0)
    if mode == "all" or (question.defects == 0 and mode != "budget"):
        made = _Made(np.ones(count, dtype=np.bool_), "everything", optimal=mode == "all")
        explored: Choice = np.zeros(count, dtype=np.bool_)
    elif p0 is not None and before <= p0:
        made = _Made(problem.pinned.copy(), "nothing", optimal=True)
        explored = np.zeros(count, dtype=np.bool_)
    else:
        limit = None if budget_seconds is None or mode != "budget" else int(budget_seconds * 1000)
        first = _explored(problem, explore, seed, limit) if limit is not None else None
        asked = problem if first is None else replace(problem, pinned=problem.pinned | first)
        made = _choose(asked, question, mode, p0, limit, incident_seconds, exact, time_limit)
        explored = first if first is not None else _explored(problem, explore, seed, None)
        explored = explored & ~problem.pinned & (True if first is not None else ~made.chosen)
    budget = budget_seconds if mode == "budget" else None
    return _plan(problem, question, made, explored, mode, p0, budget, exposed)


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked about a problem.

    Attributes:
        nodes: How many nodes there are.
        expected: Expected number of nodes with an incident, without validation.
        defects: Known defects behind the coverage.
        residual: Weight that is exposed -> joint risk that is left.
    """

    nodes: int
    expected: float
    defects: int
    residual: Callable[[int], float]


def _question(
    candidates: Sequence[Candidate],
    coverage: Coverage | Mapping[str, Coverage],
    risks: Sequence[NodeRisk],
    mode: Mode,
) -> tuple[Problem, Question]:
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
    if isinstance(coverage, Coverage):
        shared, residual = coverage, _alike(probabilities)
    else:
        missing = [risk.node for risk in risks if risk.node not in coverage]
        if missing:
            raise SelectorError(f"node {missing[0]!r} has no coverage; give one for every node")
        hazards = [_hazard(p) for p in probabilities]
        shares = probabilities if mode == "cost" else hazards
        coverages = [coverage[risk.node] for risk in risks]
        shared = coverages[0] if len(risks) == 1 else mixed(coverages, shares)
        residual = _bounded(math.fsum(hazards)) if len(risks) > 1 else _alike(probabilities)
    return make_problem(ordered(candidates), shared), Question(
        nodes=len(risks),
        expected=math.fsum(probabilities),
        defects=shared.defects,
        residual=residual,
    )


def _alike(probabilities: Sequence[float]) -> Callable[[int], float]:
    """Return the joint risk left by an exposed weight, where all nodes share one coverage."""
    return lambda weight: joint_risk([p * (1 - weight / WEIGHT) for p in probabilities])


def _bounded(hazard: float) -> Callable[[int], float]:
    """Return a bound of the joint risk, where coverages differ and are weighed by hazard.

    ``-log(1 - p (1 - c))`` is convex in c and 0 at c = 1, so it is at most ``(1 - c) (-log(1 - p))``.
    """
    return lambda weight: -math.expm1(-hazard * (1 - weight / WEIGHT))


def _choose(
    problem: Problem,
    question: Question,
    mode: Mode,
    p0: float | None,
    budget: int | None,
    incident_seconds: float,
    exact: bool,
    time_limit: float,
) -> _Made:
    exact = exact and len(problem.names) <= EXACT_RUNS
    if mode == "budget" and budget is not None:
        by_greed = greedy(problem, budget=max(budget, problem.cost(problem.pinned)))
        solution = widest(problem, budget, time_limit=time_limit) if exact else None
        return _better(solution, by_greed, problem.covered, most=True)
    if mode == "cost":
        price = incident_seconds * 1000 * question.expected / (WEIGHT * question.nodes)
        by_greed = greedy(problem, price=1 / price if price > 0 else math.inf)
        solution = least_total(problem, price, time_limit=time_limit) if exact else None
        return _better(
            solution,
            by_greed,
            lambda choice: problem.cost(choice) - price * problem.covered(choice),
            most=False,
        )
    need = _need(problem, question, 0.0 if p0 is None else p0)
    by_greed = greedy(problem, need=need)
    solution = cheapest(problem, need, time_limit=time_limit) if exact else None
    made = _better(solution, tidied(problem, by_greed, need), problem.cost, most=False)
    return replace(made, greedy=by_greed)


def _need(problem: Problem, question: Question, p0: float) -> int:
    """Return the least weight whose residual risk is within p0, or all that can be exposed."""
    reach = int(problem.weights.sum())
    if question.residual(reach) > p0:
        return reach
    low, high = -1, reach  # residual(low) > p0 >= residual(high)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if question.residual(middle) <= p0 else (middle, high)
    return high


def _better(
    solution: Solution | None,
    by_greed: Choice,
    value: Callable[[Choice], float],
    *,
    most: bool,
) -> _Made:
    """Take the solver's choice unless it has none or, stopped by the clock, a worse one."""
    if solution is None or solution.chosen is None:
        bound = None if solution is None else solution.bound
        return _Made(by_greed, "greedy", optimal=False, bound=bound, greedy=by_greed)
    ahead = value(by_greed) - value(solution.chosen)
    if not solution.proven and (ahead > 0 if most else ahead < 0):
        return _Made(by_greed, "greedy", optimal=False, bound=solution.bound, greedy=by_greed)
    return _Made(solution.chosen, "exact", solution.proven, solution.bound, by_greed)


def _explored(problem: Problem, share: float, seed: int, budget: int | None) -> Choice:
    """Draw runs by chance, each from its own name, so that one does not depend on the others.

    Under a budget every run is drawn with such a probability that the share of the budget is spent
    on average, and only what fits next to the pinned runs is taken.
    """
    drawn = np.zeros(len(problem.names), dtype=np.bool_)
    if budget is not None:
        share *= min(1.0, budget / max(1, int(problem.costs.sum())))
        budget -= problem.cost(problem.pinned)
    lots = [_lot(seed, name) for name in problem.names]
    for run in np.argsort(lots, kind="stable").tolist():
        cost = int(problem.costs[run])
        if lots[run] >= share:
            break
        if budget is None or cost <= budget:
            drawn[run] = True
            budget = None if budget is None else budget - cost
    return drawn


def _lot(seed: int, name: str) -> float:
    """Return a number in [0, 1) that looks random and depends on seed and name alone."""
    digest = hashlib.sha256(f"{seed}:{name}".encode()).digest()
    return int.from_bytes(digest[:7]) / 2**56


def _plan(
    problem: Problem,
    question: Question,
    made: _Made,
    explored: Choice,
    mode: Mode,
    p0: float | None,
    budget: float | None,
    exposed: Callable[[Collection[str]], int] | None,
) -> Plan:
    final = made.chosen | explored
    covered = problem.covered(final)
    residual = question.residual(covered)
    parts = WEIGHT if mode == "budget" else 1000  # of defects, or of a second
    plan = Plan(
        chosen=tuple(problem.names[run] for run in np.flatnonzero(final).tolist()),
        pruned=(),
        explored=tuple(problem.names[run] for run in np.flatnonzero(explored).tolist()),
        mode=mode,
        method=made.method,
        optimal=made.optimal,
        cost=problem.cost(final) / 1000,
        full_cost=int(problem.costs.sum()) / 1000,
        risk_before=question.residual(0),
        residual_risk=residual,
        full_risk=question.residual(int(problem.weights.sum())),
        coverage=covered / WEIGHT,
        target=p0,
        reached=p0 is None or residual <= p0,
        greedy_cost=None if made.greedy is None else problem.cost(made.greedy) / 1000,
        bound=None if made.bound is None else made.bound / parts,
        defects=question.defects,
    )
    left_out = explain(problem, final, plan, question.residual, budget)
    plan = replace(plan, pruned=left_out)
    return replace(plan, picked=picked(problem, final, exposed))


def _check(
    mode: str,
    p0: float | None,
    budget: float | None,
    incident: float,
    explore: float,
    time_limit: float,
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
    if not time_limit > 0:
        raise SelectorError(f"the time limit is {time_limit!r} s; give a positive one")
