"""Solve the choice of runs exactly, as a mixed-integer linear program, by HiGHS through scipy.

Weighted partial set cover: a binary x per run, and for each pattern that several runs expose a y that is at
most the sum of their x. Weights are positive, so y would be integral anyway; it is declared so because HiGHS
is then faster.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pytest_anubis.selector.choice.cover_problem import CoverProblem
from pytest_anubis.selector.choice.coverage import exposures
from pytest_anubis.selector.choice.solver_output import suppress_solver_output

TIME_LIMIT = 5.0
"""Seconds of the solver for one problem; it then returns its best choice so far."""
_MAX_TIE_RUNS = 200  # with more runs, the share of a millisecond that breaks ties is too small


@dataclass(frozen=True, slots=True, eq=False)
class MilpSolution:
    """The solver's result."""

    # Shape (g,): whether each run is made; None if it found nothing in time
    chosen: npt.NDArray[np.bool_] | None
    proven: bool  # whether the choice is proven to be optimal
    bound: float | None  # proven bound of the objective, in its own unit; None if there is none


@dataclass(frozen=True, slots=True, eq=False)
class _Reduced:
    """A problem without the runs and patterns that cannot change the choice."""

    runs: npt.NDArray[np.int64]  # index in the original problem of each kept run
    costs: npt.NDArray[np.int64]  # their milliseconds
    own: npt.NDArray[np.int64]  # weight that only this run exposes
    # Pattern of each exposure, of the patterns that several kept runs expose
    rows: npt.NDArray[np.int64]
    columns: npt.NDArray[np.int64]  # run of each such exposure, as a place in `runs`
    weights: npt.NDArray[np.int64]  # weights of those patterns
    base: int  # weight that the pinned runs expose
    spent: int  # milliseconds of the pinned runs


def cheapest(problem: CoverProblem, need: int) -> MilpSolution:
    """Find the cheapest runs that expose at least the needed weight, which all runs together must expose.

    Its bound is in milliseconds, with the pinned runs.
    """
    small = _reduced(problem)
    missing = need - small.base
    if missing <= 0 or not len(small.runs):
        return MilpSolution(
            chosen=problem.pinned.copy(), proven=missing <= 0, bound=float(small.spent)
        )
    shares = _tie_shares(len(small.runs), 0.4)
    objective = np.concatenate([small.costs + shares, np.zeros(len(small.weights))])
    all_weights = np.concatenate([small.own, small.weights]).astype(np.float64)
    solution = MilpSolution(chosen=None, proven=False, bound=None)
    for extra in (0, 1, 100, 10_000):
        # Weights are whole, so half a part below the need is the same bound, safe from rounding. If the
        # solver's tolerances add up to more than that, require a little more.
        row = (all_weights, missing - 0.5 + extra, np.inf)
        solution = _solve(problem, small, objective, row)
        if solution.chosen is None or problem.covered(solution.chosen) >= need:
            break
    if solution.chosen is not None and problem.covered(solution.chosen) < need:
        return MilpSolution(chosen=None, proven=False, bound=None)
    bound = None if solution.bound is None else float(np.ceil(solution.bound - 0.5)) + small.spent
    return MilpSolution(chosen=solution.chosen, proven=solution.proven, bound=bound)


def widest(problem: CoverProblem, budget: int) -> MilpSolution:
    """Find the runs within a budget of milliseconds that expose most, and of these the cheapest.

    Pinned runs count and may exceed the budget. Its bound is a weight.
    """
    small = _reduced(problem)
    left = budget - small.spent
    if left < 0 or not len(small.runs):
        return MilpSolution(chosen=problem.pinned.copy(), proven=True, bound=float(small.base))
    fits = (small.costs <= left).astype(np.float64)
    tie = 0.4 / max(1.0, float(small.costs.sum()))
    objective = np.concatenate([tie * small.costs - small.own, -small.weights.astype(np.float64)])
    row = (np.concatenate([small.costs, np.zeros(len(small.weights))]), -np.inf, left + 0.5)
    solution = _solve(problem, small, objective, row, upper=fits)
    if solution.chosen is not None and problem.cost(solution.chosen) > budget:
        return MilpSolution(chosen=None, proven=False, bound=None)
    bound = None if solution.bound is None else float(np.floor(0.5 - solution.bound)) + small.base
    return MilpSolution(chosen=solution.chosen, proven=solution.proven, bound=bound)


def least_total(problem: CoverProblem, price: float) -> MilpSolution:
    """Find the runs with the least sum of cost and price of the weight that they do not expose.

    `price` is in milliseconds per part of weight. Its bound is in milliseconds, without what no run exposes.
    """
    small = _reduced(problem)
    worth = int(problem.weights.sum()) - small.base
    if not len(small.runs):
        return MilpSolution(chosen=problem.pinned.copy(), proven=True, bound=float(small.spent))
    shares = _tie_shares(len(small.runs), 0.01)
    objective = np.concatenate([small.costs + shares - price * small.own, -price * small.weights])
    solution = _solve(problem, small, objective, None)
    bound = None if solution.bound is None else solution.bound + price * worth + small.spent
    return MilpSolution(chosen=solution.chosen, proven=solution.proven, bound=bound)


def _tie_shares(count: int, total: float) -> npt.NDArray[np.float64]:
    """Return shares of a millisecond that, among equal costs, prefer fewer runs, then smaller ids."""
    if count > _MAX_TIE_RUNS:
        return np.zeros(count)
    ranks = np.arange(count, dtype=np.float64)
    return total * (1 + ranks / (count * 2)) / (1.5 * count)


def _solve(
    problem: CoverProblem,
    small: _Reduced,
    objective: npt.NDArray[np.float64],
    extra: tuple[npt.NDArray[np.float64], float, float] | None,
    upper: npt.NDArray[np.float64] | None = None,
) -> MilpSolution:
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import coo_array, csr_array

    runs, patterns = len(small.runs), len(small.weights)
    ones = np.ones(len(small.rows))
    links = coo_array(
        (
            np.concatenate([np.ones(patterns), -ones]),
            (
                np.concatenate([np.arange(patterns), small.rows]),
                np.concatenate([runs + np.arange(patterns), small.columns]),
            ),
        ),
        shape=(patterns, runs + patterns),
    )
    constraints = [LinearConstraint(csr_array(links), -np.inf, 0)] if patterns else []
    if extra is not None:
        constraints.append(LinearConstraint(extra[0][None, :], extra[1], extra[2]))
    highs = np.ones(runs + patterns)
    if upper is not None:
        highs[:runs] = upper
    with suppress_solver_output():
        result = milp(
            objective,
            integrality=np.ones(runs + patterns),
            bounds=Bounds(0, highs),
            constraints=constraints,
            options={"time_limit": TIME_LIMIT, "mip_rel_gap": 0.0},
        )
    bound = getattr(result, "mip_dual_bound", None)
    chosen = None
    if result.x is not None:
        chosen = problem.pinned.copy()
        chosen[small.runs[result.x[:runs] > 0.5]] = True
    finite = None if bound is None or not np.isfinite(bound) else float(bound)
    return MilpSolution(chosen=chosen, proven=result.status == 0, bound=finite)


def _reduced(problem: CoverProblem) -> _Reduced:
    """Remove pinned runs with all they expose, runs without gain, and runs that another dominates."""
    covered = problem.patterns_of(problem.pinned)
    keep = ~covered[problem.rows] & ~problem.pinned[problem.columns]
    exposes: dict[int, list[int]] = {}
    for row, run in zip(problem.rows[keep].tolist(), problem.columns[keep].tolist(), strict=True):
        exposes.setdefault(run, []).append(row)
    # Among runs that expose the same, only the cheapest (then the smallest id) can be in the best choice.
    best: dict[tuple[int, ...], int] = {}
    for run in sorted(exposes):
        key = tuple(exposes[run])
        if key not in best or problem.costs[run] < problem.costs[best[key]]:
            best[key] = run
    runs = np.array(sorted(best.values()), dtype=np.int64)
    place = {int(run): i for i, run in enumerate(runs)}
    patterns: dict[tuple[int, ...], int] = {}
    members: dict[int, list[int]] = {}
    for run in runs.tolist():
        for row in exposes[run]:
            members.setdefault(row, []).append(place[run])
    for row, who in members.items():
        patterns[tuple(who)] = patterns.get(tuple(who), 0) + int(problem.weights[row])
    own = np.zeros(len(runs), dtype=np.int64)
    several = sorted(who for who in patterns if len(who) > 1)
    for together, weight in patterns.items():
        if len(together) == 1:
            own[together[0]] += weight
    rows, columns = exposures(several)
    return _Reduced(
        runs=runs,
        costs=problem.costs[runs],
        own=own,
        rows=rows,
        columns=columns,
        weights=np.array([patterns[who] for who in several], dtype=np.int64),
        base=int(problem.weights[covered].sum()),
        spent=problem.cost(problem.pinned),
    )
