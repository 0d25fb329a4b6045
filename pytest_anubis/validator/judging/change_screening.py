"""Changes within the runs of a whole population: a cheap screen first, the full search where it is needed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pytest_anubis.core.metric import Direction
from pytest_anubis.core.sample import FloatArray, IntArray
from pytest_anubis.core.verdict import Reason
from pytest_anubis.validator.changes.least_change import least_change
from pytest_anubis.validator.changes.segments import AGE, FEWEST, Segments, segments
from pytest_anubis.validator.judging.column_judging import JudgedColumns
from pytest_anubis.validator.judging.verdict_table import MARGINAL, PASS, REASONS
from pytest_anubis.validator.similarity.distance import TINY
from pytest_anubis.validator.similarity.usable_rows import BLOCK, BoolArray

MOST = 500
"""At most this many samples of a population are searched, those with the largest difference first; how many
more there are is said. A search takes milliseconds (a tenth of a second for a thousand values), and more
suspects than that are a matter of the class."""
WIDTH, STRIDE = AGE, AGE // 2
"""Stretches that are screened: as short as a segment that counts, each beginning in the middle of another."""
SCREENED = 0.8
"""Share of the least change that makes a suspect: the stretches are not aligned with the segment."""
DISTINCT_STEPS = 0.9
"""Share of steps that must differ in values that somebody has sorted; a counter that only rises has fewer."""


def find_changes(judged: JudgedColumns) -> JudgedColumns:
    """Search every unit's values, in time order, for a change for the worse within the run.

    A unit that passes as a whole but changed for good becomes MARGINAL; a disturbed one keeps its verdict.
    What was sorted by somebody is not in time order and has no changes.

    Args:
        judged: Verdicts on the units of a population (not on pooled nodes, which have no time order).

    Returns:
        The verdicts with the changes that were found, and how many suspects were too many to search.
    """
    population, better = judged.population, judged.population.metric.better
    pooled = judged.criterion is not None and judged.criterion.scope == "node"
    if better == "equal" or pooled:
        return judged
    found: dict[int, Segments] = {}
    least = least_change(judged.criterion)
    suspects = _suspects(judged, least, better)
    for row in sorted(suspects[:MOST]):
        seen = segments(population.sample(row), better, least_change=least)
        if seen.change is not None:
            found[row] = seen
    unsearched = max(0, len(suspects) - MOST)
    if not found:
        return replace(judged, unsearched=unsearched) if unsearched else judged
    outcome, reason = judged.outcome.copy(), judged.reason.copy()
    for row, seen in found.items():
        lasting = seen.change is not None and seen.change.lasting
        if outcome[row] == PASS and lasting and row not in population.problems:
            outcome[row], reason[row] = MARGINAL, REASONS.index(Reason.CHANGE_POINT)
    return replace(judged, outcome=outcome, reason=reason, changes=found, unsearched=unsearched)


def _suspects(judged: JudgedColumns, least: float, better: Direction) -> list[int]:
    """Return the rows in which a stretch is worse than an earlier one, the largest difference first.

    The medians of a step's two sides lie between the smallest and the largest median of short stretches,
    so what no pair of stretches shows cannot be in the sides.
    """
    population = judged.population
    offsets = np.asarray(population.offsets)
    sizes = np.diff(offsets)
    index, size_of_change = [], []
    for size in np.unique(sizes[sizes >= FEWEST]).tolist():
        rows = np.flatnonzero(sizes == size)
        if size > BLOCK:  # the search itself looks at stretches only
            index.append(rows)
            size_of_change.append(np.ones(len(rows)))
            continue
        step = max(1, BLOCK // size)
        for start in range(0, len(rows), step):
            part = rows[start : start + step]
            largest = _largest(_matrix(population.values, offsets, part, size), better)
            chosen = largest > SCREENED * least
            index.append(part[chosen])
            size_of_change.append(largest[chosen])
    if not index:
        return []
    rows, sizes_found = np.concatenate(index), np.concatenate(size_of_change)
    found: list[int] = rows[np.lexsort((rows, -sizes_found))].tolist()
    return found


def _matrix(values: FloatArray, offsets: IntArray, rows: IntArray, size: int) -> FloatArray:
    return np.asarray(values[offsets[rows][:, None] + np.arange(size)], dtype=np.float64)


def _largest(series: FloatArray, better: Direction) -> FloatArray:
    """Return by how much a stretch is worse than the best one before it, shape (k,), 0 if unusable."""
    out = np.zeros(len(series))
    sound = np.isfinite(series).all(axis=1) & (series >= 0).all(axis=1) & ~_is_sorted(series)
    if not sound.any():
        return out
    windows = np.lib.stride_tricks.sliding_window_view(series[sound], WIDTH, axis=1)[:, ::STRIDE]
    medians = np.median(windows, axis=2)
    if better == "higher":
        best = np.maximum.accumulate(medians, axis=1)
        share = medians / np.maximum(best, TINY)
    else:
        best = np.minimum.accumulate(medians, axis=1)
        share = best / np.maximum(medians, TINY)
    out[sound] = np.where(best > 0, 1 - share, 0.0).max(axis=1)
    return out


def _is_sorted(series: FloatArray) -> BoolArray:
    """Say which rows somebody has sorted: never a step back, and nearly all values differ."""
    steps = np.diff(series, axis=1)
    differ = (steps != 0).mean(axis=1) > DISTINCT_STEPS
    return np.asarray(
        differ & ((steps >= 0).all(axis=1) | (steps <= 0).all(axis=1)), dtype=np.bool_
    )
