"""The choice of benchmarks as a weighted set cover: runs with costs, patterns of defects with weights.

`greedy` solves it approximately, as the paper does, and `drop_superfluous` improves that; `milp` is exact.

All figures are whole numbers (milliseconds; parts of ten million), so that equal inputs give equal answers
and no bound depends on rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pytest_anubis.selector.choice.coverage import Candidate, Coverage, exposures

WEIGHT = 10_000_000  # parts into which all defects are divided

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class CoverProblem:
    """Runs to choose from, and the patterns of defects that they expose."""

    names: tuple[str, ...]  # the g benchmark ids, sorted, a run for each
    costs: Ints  # shape (g,): milliseconds of each run
    pinned: npt.NDArray[np.bool_]  # shape (g,): runs that are always made
    rows: Ints  # pattern of each exposure, ascending
    columns: Ints  # run of each exposure
    weights: Ints  # shape (patterns,): parts of `WEIGHT`; the rest of it is what no run exposes

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
    costs = problem.costs
    while problem.covered(chosen) < need:
        gains = problem.gains(problem.patterns_of(chosen))
        useful = gains > 0
        if budget is not None:
            useful &= costs <= budget - problem.cost(chosen)
        runs = np.flatnonzero(useful)
        rates = gains[runs] / np.maximum(costs[runs], 1e-3)  # a free run comes first
        if not len(runs) or rates.max() < price:
            break
        chosen[runs[np.lexsort((costs[runs], -rates))[0]]] = True
    return chosen


def drop_superfluous(
    problem: CoverProblem, chosen: npt.NDArray[np.bool_], need: int
) -> npt.NDArray[np.bool_]:
    """Drop runs without which the need is still met, dearest first."""
    kept = chosen.copy()
    often = np.bincount(problem.rows[kept[problem.columns]], minlength=len(problem.weights))
    reached = problem.covered(kept)
    for run in np.argsort(-problem.costs, kind="stable").tolist():
        if not kept[run] or problem.pinned[run]:
            continue
        own = problem.rows[problem.columns == run]
        alone = int(problem.weights[own[often[own] == 1]].sum())
        if reached - alone >= need:
            kept[run] = False
            reached -= alone
            often[own] -= 1
    return kept
