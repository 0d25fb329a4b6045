"""The choice of benchmarks as a weighted set cover: runs with costs, patterns of defects with weights.

`greedy` solves it approximately, as the paper does, and `drop_superfluous` improves that; `milp` is exact.

All figures are whole numbers (milliseconds; parts of ten million), so that equal inputs give equal answers
and no bound depends on rounding.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pytest_anubis.selector.choice.coverage import Candidate, Coverage, exposures, grouped

WEIGHT = 10_000_000  # parts into which all defects are divided

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class CoverProblem:
    """Runs to choose from, and the patterns of defects that they expose.

    Attributes:
        names: The g benchmark ids, sorted, a run for each.
        costs: Shape (g,): milliseconds of each run.
        pinned: Shape (g,): runs that are always made.
        rows: Pattern of each exposure, ascending.
        columns: Run of each exposure.
        weights: Shape (patterns,): parts of `WEIGHT`; the rest of it is what no run exposes.
    """

    names: tuple[str, ...]
    costs: Ints
    pinned: npt.NDArray[np.bool_]
    rows: Ints
    columns: Ints
    weights: Ints

    def covered(self, chosen: npt.NDArray[np.bool_]) -> int:
        """Return the weight that a choice, shape (g,), exposes."""
        return int(self.weights[self.patterns_of(chosen)].sum())

    def patterns_of(self, chosen: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Return which patterns, shape (patterns,), a choice exposes."""
        hit = np.zeros(len(self.weights), dtype=np.bool_)
        hit[self.rows[chosen[self.columns]]] = True
        return hit

    def gains(self, covered: npt.NDArray[np.bool_]) -> Ints:
        """Return the weight that each run would add to the patterns covered already, shape (g,)."""
        left = np.where(covered, 0, self.weights)
        found = np.bincount(
            self.columns, weights=left[self.rows].astype(np.float64), minlength=len(self.names)
        )
        return found.astype(np.int64)  # sums stay below 2**53: exact

    def cost(self, chosen: npt.NDArray[np.bool_]) -> int:
        """Return the milliseconds of a choice."""
        return int(self.costs[chosen].sum())


def make_problem(candidates: Sequence[Candidate], coverage: Coverage) -> CoverProblem:
    """Turn candidates, ordered by id, and coverage into a problem; equal patterns become one."""
    place = {candidate.benchmark: i for i, candidate in enumerate(candidates)}
    run_of = [place.get(name, -1) for name in coverage.benchmarks]
    merged: dict[tuple[int, ...], int] = {}
    for pattern, part in zip(coverage.patterns(), _parts(coverage).tolist(), strict=True):
        key = tuple(sorted({run_of[one] for one in pattern} - {-1}))
        if key and part:
            merged[key] = merged.get(key, 0) + part
    patterns = sorted(merged)
    rows, columns = exposures(patterns)
    return CoverProblem(
        names=tuple(one.benchmark for one in candidates),
        costs=np.array([round(one.cost_seconds * 1000) for one in candidates], dtype=np.int64),
        pinned=np.array([one.pinned for one in candidates], dtype=np.bool_),
        rows=rows,
        columns=columns,
        weights=np.array([merged[pattern] for pattern in patterns], dtype=np.int64),
    )


def _parts(coverage: Coverage) -> Ints:
    """Return the patterns' weights in parts of `WEIGHT`, rounded by largest remainder."""
    shares = np.append(coverage.weights, coverage.unseen) / coverage.total * WEIGHT
    whole = np.floor(shares)
    missing = round(WEIGHT - float(whole.sum()))
    order = np.argsort(-(shares - whole), kind="stable")
    whole[order[:missing]] += 1
    return whole[:-1].astype(np.int64)


def greedy(
    problem: CoverProblem, *, need: int = WEIGHT, budget: int | None = None, price: float = 0.0
) -> npt.NDArray[np.bool_]:
    """Choose by weight gained per millisecond, as the paper does; ties: cheaper first, then by id.

    It returns which runs are chosen, shape (g,), the pinned ones always. It stops when the weight `need` is
    exposed, or when a run gains less than the weight `price` per millisecond; runs that do not fit into the
    `budget` of milliseconds are passed over.
    """
    chosen = problem.pinned.copy()
    covered = problem.patterns_of(chosen)
    spent = problem.cost(chosen)
    gains, costs = problem.gains(covered).tolist(), problem.costs.tolist()
    runs_of = grouped(problem.rows, problem.columns, len(problem.weights))
    patterns_of = _by_run(problem)
    reached = int(problem.weights[covered].sum())
    # Gains only shrink, so a run at the head of the heap with its present rate is the best.
    heap = [
        (-_rate(gains[run], costs[run]), costs[run], run)
        for run in np.flatnonzero(~chosen).tolist()
        if gains[run] > 0
    ]
    heapq.heapify(heap)
    while reached < need and heap:
        known, cost, run = heapq.heappop(heap)
        if gains[run] <= 0 or (budget is not None and cost > budget - spent):
            continue  # neither changes later
        rate = _rate(gains[run], cost)
        if -known != rate:
            heapq.heappush(heap, (-rate, cost, run))
            continue
        if rate < price:
            break
        chosen[run] = True
        spent += cost
        reached += gains[run]
        for row in patterns_of[run]:
            if not covered[row]:
                covered[row] = True
                for other in runs_of[row]:
                    gains[other] -= int(problem.weights[row])
    return chosen


def _rate(gain: int, cost: int) -> float:
    """Return weight per millisecond; a free run comes first, with a finite rate."""
    return gain / max(cost, 1e-3)


def _by_run(problem: CoverProblem) -> list[list[int]]:
    """Return the patterns of each run."""
    order = np.argsort(problem.columns, kind="stable")
    return grouped(problem.columns[order], problem.rows[order], len(problem.names))


def drop_superfluous(
    problem: CoverProblem, chosen: npt.NDArray[np.bool_], need: int
) -> npt.NDArray[np.bool_]:
    """Drop runs without which the need is still met, dearest first."""
    kept = chosen.copy()
    patterns_of = _by_run(problem)
    rows = problem.rows[kept[problem.columns]]
    often = np.bincount(rows, minlength=len(problem.weights)).tolist()
    weights = problem.weights.tolist()
    reached = problem.covered(kept)
    for run in np.argsort(-problem.costs, kind="stable").tolist():
        if not kept[run] or problem.pinned[run]:
            continue
        alone = sum(weights[row] for row in patterns_of[run] if often[row] == 1)
        if reached - alone < need:
            continue
        kept[run] = False
        reached -= alone
        for row in patterns_of[run]:
            often[row] -= 1
    return kept
