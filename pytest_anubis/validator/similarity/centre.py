"""The middle of a population of samples, and how well its members agree."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from pytest_anubis.core.baseline import Method as Method
from pytest_anubis.core.sample import FloatArray, IntArray
from pytest_anubis.validator.similarity.usable_rows import BoolArray, Rows

FEWEST = 3
"""Fewest units that have a middle: of two that differ nobody can say which is the odd one."""
AT_ONCE = 1 << 19
"""Up to this many elements all pairs are one array (4 MiB of doubles); beyond, one unit at a time."""
PAIRS = 1 << 25
"""Up to this many elements every pair is compared (a fraction of a second); beyond, means over pairs by
prefix sums, whose time grows with the units instead of their square (`benchmarks/validator/speed.py`)."""
MOST_STEPS = 8192
"""Most steps of an exact quantile function: 32 sizes of 256 values each without a common divisor."""
GRID_STEPS = 1024
"""Steps where exact ones would be too many: a step is a tenth of a percent of a sample's values."""
ROUNDING = 1e-12
"""Sums that differ by less, relative, are equal but for rounding (doubles: 2e-16 an operation)."""


def median_centre(columns: FloatArray, members: BoolArray) -> FloatArray:
    """Return the pointwise median of the members' quantile functions.

    In one dimension it is the distribution with the least total Wasserstein distance to all of them.
    O(N g) by partition; the order of the members does not matter.

    Args:
        columns: Shape (g, N), quantile functions as columns.
        members: Shape (N,), which units count; at least one.

    Returns:
        Shape (g,), ascending, float64.
    """
    count = int(members.sum())
    low, high = (count - 1) // 2, count // 2
    every = count == columns.shape[1]
    out = np.empty(len(columns))
    for place, column in enumerate(columns):
        part = np.partition(column if every else column[members], (low, high))
        out[place] = (float(part[low]) + float(part[high])) / 2
    return out


def total_distances(columns: FloatArray, weights: FloatArray) -> FloatArray:
    """Return every unit's summed Wasserstein distance to all others, exactly, in O(g N log N).

    Per quantile the column is sorted once; prefix sums then give each value's total absolute
    difference to all the others.

    Args:
        columns: Shape (g, N).
        weights: Shape (g,), the width of each quantile step.
    """
    n = columns.shape[1]
    total = np.zeros(n)
    place = np.arange(n)
    for column, weight in zip(columns, weights, strict=True):
        order = np.argsort(column, kind="stable")
        ascending = column[order].astype(np.float64)
        below = np.concatenate([[0.0], np.cumsum(ascending)])
        away = ascending * (2 * place - n) - 2 * below[:-1] + below[-1]
        total[order] += weight * away
    return total


def exact_columns(
    rows: Rows, members: BoolArray, most: int = MOST_STEPS
) -> tuple[FloatArray, FloatArray]:
    """Return the members' quantile functions on steps fine enough to lose nothing, with step widths.

    The steps are the union of the multiples of 1/n over all sample sizes n; if that is more than
    ``most`` of them, a plain grid of `GRID_STEPS` quantiles is used instead.

    Returns:
        Arrays of shape (g, members) and (g,).
    """
    sizes = sorted({block.values.shape[1] for block in rows.blocks if members[block.index].any()})
    # Each size has its own multiples, so beyond four times as many the union need not be tried.
    if sum(sizes) > 4 * most:
        edges = np.arange(GRID_STEPS + 1) / GRID_STEPS
    else:
        edges = np.unique(np.concatenate([np.arange(n + 1) / n for n in sizes]))
        if len(edges) > most:
            edges = np.arange(GRID_STEPS + 1) / GRID_STEPS
    middle = (edges[1:] + edges[:-1]) / 2
    out = np.empty((len(middle), rows.total))
    for block in rows.blocks:
        n = block.values.shape[1]
        index = np.minimum((middle * n).astype(np.int64), n - 1)
        out[:, block.index] = block.values[:, index].T
    return out[:, members], np.diff(edges)


def total_unlikeness(columns: FloatArray, weights: FloatArray) -> FloatArray:
    """Return every unit's summed distance (1 - similarity) to all others, comparing every pair.

    Args:
        columns: Shape (g, N).
        weights: Shape (g,), the width of each quantile step.
    """
    n = columns.shape[1]
    mean = weights @ columns
    table = np.zeros((n, n))
    for i in range(n - 1):
        apart = weights @ np.abs(columns[:, i + 1 :] - columns[:, i : i + 1])
        union = (mean[i + 1 :] + mean[i] + apart) / 2
        share = np.divide(apart, union, out=np.zeros_like(apart), where=union > 0)
        table[i, i + 1 :] = table[i + 1 :, i] = share
    table.sort(axis=1)  # sums in one order, whatever the order of the units
    return np.asarray(table.sum(axis=1))


def medoid_row(rows: Rows, members: BoolArray) -> int:
    """Return the row that is most like all members: the paper's centroid.

    While every pair can be compared, that is the highest total similarity; beyond, the least total
    Wasserstein distance, exactly, by prefix sums. Ties go to the sample that is smaller in dictionary
    order, so that the order of input is no matter.
    """
    columns, weights = exact_columns(rows, members)
    g, n = columns.shape
    if g * n * n <= PAIRS:
        total = total_unlikeness(columns, weights)
        rounding = ROUNDING * n
    else:
        total = total_distances(columns, weights)
        rounding = ROUNDING * float(columns.max()) * n
    best = np.flatnonzero(total <= total.min() + rounding)
    if len(best) > 1:
        best = best[np.lexsort(columns[::-1, best])]
    return int(np.flatnonzero(members)[best[0]])


def repeatability(columns: FloatArray, members: BoolArray) -> float | None:
    """Return the mean pairwise two-sided similarity of the members, None with fewer than two.

    Exact for few units (every pair) and for units of one value (prefix sums). Otherwise one minus the
    ratio of the mean distance over pairs to the mean union over pairs, in O(g N log N); the two differ
    in the second order of the spread.

    Args:
        columns: Shape (g, N), equally weighted quantiles.
        members: Shape (N,).
    """
    g, n = len(columns), int(members.sum())
    if n < 2:
        return None
    scale = float(max(column[members].max() for column in columns))
    if scale == 0.0:
        return 1.0
    if g == 1:
        return _constants(np.sort(columns[0, members].astype(np.float64)) / scale)
    if n * n * g <= PAIRS:
        return _all_pairs(columns[:, members].astype(np.float64) / scale)
    rank = 2.0 * np.arange(n) - (n - 1)
    apart = mean = 0.0
    for (
        column
    ) in columns:  # only sums over pairs per quantile are needed, so each may be sorted alone
        ascending = np.sort(column[members]).astype(np.float64)
        apart += float(ascending @ rank) / scale * 2 / (n * (n - 1)) / g
        mean += float(ascending.mean()) / scale / g
    return 1.0 - apart / (mean + apart / 2)


def _constants(values: FloatArray) -> float:
    n = len(values)
    zeros = int(np.searchsorted(values, 0.0, side="right"))
    before = np.cumsum(values)[:-1]
    later = values[1:]
    ratio = np.divide(before, later, out=np.zeros(n - 1), where=later > 0)
    alike = float(ratio.sum()) + zeros * (zeros - 1) / 2
    return min(1.0, 2 * alike / (n * (n - 1)))


@lru_cache(maxsize=4)  # metrics of one fleet have as many units
def _pairs(n: int) -> tuple[IntArray, IntArray]:
    return np.triu_indices(n, 1)


def _all_pairs(chosen: FloatArray) -> float:
    g, n = chosen.shape
    mean = chosen.mean(axis=0)
    if g * n * n <= AT_ONCE:
        first, second = _pairs(n)
        apart = np.take(chosen, first, axis=1)
        apart -= np.take(chosen, second, axis=1)
        apart = np.abs(apart, out=apart).mean(axis=0)
        union = (mean[first] + mean[second] + apart) / 2
        share = np.divide(apart, union, out=np.zeros_like(apart), where=union > 0)
        return float(1 - np.sort(share).mean())
    pieces = []
    for i in range(n - 1):
        apart = np.abs(chosen[:, i + 1 :] - chosen[:, i : i + 1]).mean(axis=0)
        union = (mean[i + 1 :] + mean[i] + apart) / 2
        pieces.append(1 - np.divide(apart, union, out=np.zeros_like(apart), where=union > 0))
    return float(np.sort(np.concatenate(pieces)).mean())
