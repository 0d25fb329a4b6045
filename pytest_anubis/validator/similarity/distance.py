"""Compute how alike two samples are: overlap over union of the areas under their survival curves.

With survival functions S on non-negative values the similarity is the integral of the smaller over the
integral of the larger one (the Ruzicka form of the Jaccard index). In quantile space, with quantile
functions Q and means m, the numerator of the distance is the 1-Wasserstein distance
``W = integral |Q_F - Q_G| du`` and the union is ``(m_F + m_G + W) / 2``; constants 100 and 95 are .95 alike.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pytest_anubis.core.metric import Direction
from pytest_anubis.core.sample import HIGH, FloatArray, IntArray, unusable_reason

LOW = 1e-100
"""Values between it and `HIGH` are compared unscaled: products do not vanish, and sums stay finite. Other
values are first divided by the largest."""
CHUNK = 1 << 18
"""Elements handled at once: 2 MiB of doubles stay in a core's cache."""
TINY = 1e-300
"""Replaces zero in a denominator: smaller than any measured value."""
MIN_SIMILARITY = 1e-9
"""Replaces a similarity of zero in a denominator."""


class SampleError(ValueError):
    """Values that are not a sample, or samples that cannot be compared."""


def ordered(values: npt.ArrayLike) -> FloatArray:
    """Return a sample in ascending order, or raise `SampleError`; a constant sample becomes its single value.

    Replicating a sample changes no similarity, so a billion equal values cost as much as one.
    """
    array = np.asarray(values)
    problem = unusable_reason(array, most=np.inf)
    if problem is not None:
        raise SampleError(f"not a sample: {problem}")
    if array.min() == array.max():
        return np.asarray(array[:1], dtype=np.float64)
    return np.sort(array.astype(np.float64))


class Steps(NamedTuple):
    """The common steps of two quantile functions: indices into each, and the width of each step."""

    first: IntArray
    second: IntArray
    width: FloatArray


def common_steps(n: int, m: int) -> Steps:
    """Return the steps on which samples of n and of m equally weighted values are both constant.

    The edges are the multiples of 1/n and of 1/m, as integers in units of 1/(n m): there is no grid
    error, whatever the sizes. At most n + m - 1 steps.
    """
    if n == m:
        index = np.arange(n, dtype=np.int64)
        return Steps(index, index, np.full(n, 1.0 / n))
    edges = np.union1d(np.arange(n + 1, dtype=np.int64) * m, np.arange(m + 1, dtype=np.int64) * n)
    left = edges[:-1]
    return Steps(left // m, left // n, np.diff(edges) / (float(n) * float(m)))


def losses(rows: FloatArray, centre: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the one-sided distances (k,) of samples (k, n) below and above a centre (g,), exactly.

    Rows and centre are ascending. Distances are in [0, 1]; the one below is a loss if higher is better, the
    one above if lower is. Their sum is the two-sided distance.
    """
    steps = common_steps(rows.shape[1], centre.shape[0])
    top = max(float(centre[-1]), float(rows[:, -1].max()) if len(rows) else 0.0)
    if top == 0.0:
        return np.zeros(len(rows)), np.zeros(len(rows))
    scale = 1.0 if LOW < top < HIGH else top  # sums of huge values must not overflow
    weight = steps.width.astype(rows.dtype, copy=False)
    target = (centre / scale)[steps.second].astype(rows.dtype, copy=False)
    target_mean = float(target @ weight)
    below = np.empty(len(rows))
    above = np.empty(len(rows))
    size = max(1, CHUNK // len(weight))
    aligned = rows.shape[1] == len(weight)
    for start in range(0, len(rows), size):
        part = slice(start, start + size)
        block = rows[part] if aligned else rows[part][:, steps.first]
        gap = block - target if scale == 1.0 else block / scale - target
        shift = gap @ weight  # the difference of the means: above minus below
        over = np.maximum(gap, 0, out=gap) @ weight
        under = np.maximum(over - shift, 0)
        union = target_mean + over
        union[union == 0] = 1.0  # only zeros on both sides: no distance
        above[part] = over / union
        below[part] = under / union
    if centre[-1] > 0:  # a sample of zeros is not alike at all; sums of products may be a digit off
        below[rows[:, -1] == 0] = 1.0
    return np.minimum(below, 1.0, out=below), np.minimum(above, 1.0, out=above)


def worse(below: FloatArray, above: FloatArray, better: Direction) -> FloatArray:
    """Return the side that is a loss: below the centre if higher is better, above if lower, else both."""
    if better == "higher":
        return below
    return above if better == "lower" else below + above


def sides(a: npt.ArrayLike, b: npt.ArrayLike) -> tuple[float, float]:
    """Return the one-sided distances of a sample below and above another one, or raise `SampleError`."""
    first, second = ordered(a), ordered(b)
    steps = common_steps(len(first), len(second))
    scale = max(float(first[-1]), float(second[-1]))
    if scale == 0.0:
        return 0.0, 0.0
    left, right = (first / scale)[steps.first], (second / scale)[steps.second]
    below = float(np.maximum(right - left, 0) @ steps.width)
    above = float(np.maximum(left - right, 0) @ steps.width)
    union = float(np.maximum(left, right) @ steps.width)
    return min(below / union, 1.0), min(above / union, 1.0)


def uniformly_worse(value: float, alike: float, better: Direction) -> float:
    """Return the constant that has the similarity `alike`, 0 to 1, to a better constant `value`."""
    return value * alike if better == "higher" else value / max(alike, MIN_SIMILARITY)


def similarity(a: npt.ArrayLike, b: npt.ArrayLike) -> float:
    """Return how alike two samples (n,) and (m,) of one unit are, two-sided, exact for unequal sizes.

    It is 1 for equal distributions and .95 for constants 100 and 95; ``1 - similarity`` is a metric. Two
    samples of zeros are alike; zeros and other values are not. Values that are no sample raise `SampleError`.
    """
    below, above = sides(a, b)
    return max(0.0, 1.0 - (below + above))


def one_sided(sample: npt.ArrayLike, criterion_values: npt.ArrayLike, better: Direction) -> float:
    """Return how alike a sample (n,) is to a criterion's centre (g,), counting only where it is worse.

    The result is in [0, 1]. With better ``equal`` every difference counts. Values that are no sample, and
    unknown directions, raise `SampleError`.
    """
    if better not in ("higher", "lower", "equal"):
        raise SampleError(f"better={better!r} is no direction; say 'higher', 'lower' or 'equal'")
    below, above = sides(sample, criterion_values)
    loss = {"higher": below, "lower": above, "equal": below + above}[better]
    return max(0.0, 1.0 - loss)
