"""Compute the centre of a population of samples (pointwise median or medoid), and its repeatability."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from pytest_anubis.core.baseline import Method as Method
from pytest_anubis.core.sample import FloatArray, IntArray
from pytest_anubis.validator.similarity.usable_rows import BoolArray, UsableRows

MIN_UNITS = 3
"""Fewest units that have a centre: if two differ, either may be wrong."""
AT_ONCE = 1 << 19
"""Up to this many elements, all pairs are compared in one array (4 MiB of doubles); beyond, unit by unit."""
PAIRS = 1 << 25
"""Up to this many elements every pair is compared (a fraction of a second). Beyond, prefix sums give the
means over pairs, in a time that grows with the units instead of their square
(`benchmarks/validator/speed.py`)."""
MAX_STEPS = 8192
"""Most steps of an exact quantile function, as 32 sizes of 256 values without a common divisor need."""
GRID_STEPS = 1024
"""Steps if the exact ones are too many: a step is a tenth of a percent of a sample's values."""
ROUNDING = 1e-12
"""Relative difference below which sums are equal (rounding of doubles: 2e-16 per operation)."""


def median_centre(columns: FloatArray, members: BoolArray) -> FloatArray:
    """Return the pointwise median of the members' quantile functions.

    In one dimension it is the distribution with the least total Wasserstein distance to all of them. Columns
    have shape (g, N), members (N,) with at least one, the centre (g,), ascending.
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

    Each of the g columns (N,) is sorted once; prefix sums then give each value's total absolute difference to
    all the others. Weights (g,) are the widths of the quantile steps.
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


def exact_columns(rows: UsableRows, members: BoolArray) -> tuple[FloatArray, FloatArray]:
    """Return the members' quantile functions (g, members) without loss, and the step widths (g,).

    The steps are the union of the multiples of 1/n over all sample sizes n; if there are more than
    `MAX_STEPS`, they are a plain grid of `GRID_STEPS` quantiles.
    """
    sizes = sorted({block.values.shape[1] for block in rows.blocks if members[block.index].any()})
    edges = np.arange(GRID_STEPS + 1) / GRID_STEPS
    if sum(sizes) <= 4 * MAX_STEPS:  # beyond, the union surely has too many steps
        exact = np.unique(np.concatenate([np.arange(n + 1) / n for n in sizes]))
        edges = exact if len(exact) <= MAX_STEPS else edges
    middle = (edges[1:] + edges[:-1]) / 2
    out = np.empty((len(middle), rows.total))
    for block in rows.blocks:
        n = block.values.shape[1]
        index = np.minimum((middle * n).astype(np.int64), n - 1)
        out[:, block.index] = block.values[:, index].T
    return out[:, members], np.diff(edges)


def total_unlikeness(columns: FloatArray, weights: FloatArray) -> FloatArray:
    """Return every unit's summed distance (1 - similarity) to all others, by comparing every pair.

    Columns have shape (g, N), the widths of the quantile steps (g,).
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


def medoid_row(rows: UsableRows, members: BoolArray) -> int:
    """Return the row that is most like all members: the paper's centroid.

    It has the highest total similarity if every pair can be compared; beyond `PAIRS`, the least total
    Wasserstein distance. Ties go to the sample that is smaller in dictionary order, whatever the order of
    input.
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

    It is exact for few units (every pair) and for units of one value (prefix sums). Otherwise it is one minus
    the ratio of the mean distance over pairs to the mean union over pairs, in O(g N log N); the two differ in
    the second order of the spread. Columns (g, N) are equally weighted quantiles.
    """
    g, n = len(columns), int(members.sum())
    if n < 2:
        return None
    scale = float(max(column[members].max() for column in columns))
    if scale == 0.0:
        return 1.0
    if g == 1:
        return _repeatability_of_constants(np.sort(columns[0, members].astype(np.float64)) / scale)
    if n * n * g <= PAIRS:
        return _repeatability_by_pairs(columns[:, members].astype(np.float64) / scale)
    rank = 2.0 * np.arange(n) - (n - 1)
    apart = mean = 0.0
    for column in columns:  # sums over pairs need each quantile's order alone
        ascending = np.sort(column[members]).astype(np.float64)
        apart += float(ascending @ rank) / scale * 2 / (n * (n - 1)) / g
        mean += float(ascending.mean()) / scale / g
    return 1.0 - apart / (mean + apart / 2)


def _repeatability_of_constants(values: FloatArray) -> float:
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


def _repeatability_by_pairs(chosen: FloatArray) -> float:
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
