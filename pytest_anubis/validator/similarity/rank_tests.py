"""Ranks with ties, and p-values of counts: Fisher's exact test and the binomial test.

`onset_sensors` (which sensor moved) and `trait_shifts` (which batch is worse) test with them.
"""

from __future__ import annotations

import math

import numpy as np

from pytest_anubis.core.sample import FloatArray


def mean_ranks(series: FloatArray) -> FloatArray:
    """Return the ranks of values from 1, shape (n,); equal values share their mean rank."""
    _, where, counts = np.unique(series, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts - 1) / 2)[where], dtype=np.float64)


def hypergeometric_tail(hit: int, whole: int, every: int, size: int) -> float:
    """Return P(at least `hit` of `every` marked ones are among `size` of `whole`), by Fisher's exact test."""
    total = _log_ways(whole, size)
    first, last = max(hit, size - (whole - every)), min(size, every)
    return sum(
        math.exp(_log_ways(every, k) + _log_ways(whole - every, size - k) - total)
        for k in range(first, last + 1)
    )


def binomial_tail(hit: int, every: int, share: float) -> float:
    """Return P(at least `hit` successes in `every` trials of probability `share`, above 0): binomial tail."""
    if share >= 1:
        return 1.0
    yes, no = math.log(share), math.log1p(-share)
    return sum(
        math.exp(_log_ways(every, k) + k * yes + (every - k) * no) for k in range(hit, every + 1)
    )


def _log_ways(n: int, k: int) -> float:
    """Return the logarithm of the number of ways to choose `k` of `n`."""
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
