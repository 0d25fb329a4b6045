"""Changes within the runs of a whole population: a cheap screen first, the full search where it is needed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pytest_anubis.core.baseline import Baseline
from pytest_anubis.core.metric import Direction
from pytest_anubis.core.sample import FloatArray, IntArray
from pytest_anubis.core.verdict import Reason
from pytest_anubis.validator.changes.least_change import hazard_of, least_change
from pytest_anubis.validator.changes.segments import FEWEST, Segments, segments
from pytest_anubis.validator.changes.stretches import SCREENED, largest_drops
from pytest_anubis.validator.judging.column_judging import JudgedColumns
from pytest_anubis.validator.judging.current_segment import PROFILE, judge_current
from pytest_anubis.validator.judging.verdict_table import MARGINAL, PASS
from pytest_anubis.validator.similarity.usable_rows import BLOCK

MOST = 500
"""At most this many samples of a population are searched, those with the largest difference first; how many
more there are is said. A search takes milliseconds (a tenth of a second for a thousand values), and more
suspects than that are a matter of the class."""


def find_changes(judged: JudgedColumns, baseline: Baseline | None = None) -> JudgedColumns:
    """Search every unit's values, in time order, for a change for the worse within the run.

    A unit that passes as a whole but changed for good becomes MARGINAL; a disturbed one keeps its verdict.
    What was sorted by somebody is not in time order and has no changes. In a soak the current segment is
    judged next to the whole run (`current_segment`).

    Args:
        judged: Verdicts on the units of a population (not on pooled nodes, which have no time order).
        baseline: What they rest on; None if that is no baseline.

    Returns:
        The verdicts with the changes that were found, and how many suspects were too many to search.
    """
    population, better = judged.population, judged.population.metric.better
    pooled = judged.criterion is not None and judged.criterion.scope == "node"
    if better == "equal" or pooled:
        return judged
    found: dict[int, Segments] = {}
    least, hazard = least_change(judged.criterion), hazard_of(judged.criterion)
    suspects = _suspects(judged, least, better)
    for row in sorted(suspects[:MOST]):
        seen = segments(population.sample(row), better, hazard=hazard, least_change=least)
        if seen.change is not None:
            found[row] = seen
    unsearched = max(0, len(suspects) - MOST)
    if not found:
        return replace(judged, unsearched=unsearched) if unsearched else judged
    lasting = [
        row
        for row, seen in found.items()
        if seen.change is not None and seen.change.lasting and row not in population.problems
    ]
    rows = [row for row in lasting if judged.outcome[row] == PASS]
    told = judged.marked(rows, MARGINAL, Reason.CHANGE_POINT, changes=found, unsearched=unsearched)
    soak = baseline is not None and baseline.attributes.get("profile") == PROFILE
    return _with_current(told, baseline) if soak and judged.criterion is not None else told


def _with_current(judged: JudgedColumns, baseline: Baseline | None) -> JudgedColumns:
    value, current = judged.value.copy(), {}
    for row, found in judged.changes.items():
        whole = judged.verdict(row, baseline)
        values = judged.population.sample(row)
        one = judge_current(whole, values, judged.criterion, baseline, found)
        if one is not whole:
            current[row], value[row] = one, one.value
    return judged.with_verdicts(current, value=value, current=current)


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
            largest = largest_drops(_matrix(population.values, offsets, part, size), better)
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
