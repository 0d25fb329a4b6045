"""Screen runs for changes cheaply: only runs in which a short stretch is worse than another are searched."""

from __future__ import annotations

import numpy as np

from pytest_anubis.core.metric import Direction
from pytest_anubis.core.sample import FloatArray
from pytest_anubis.validator.changes.segments import AGE
from pytest_anubis.validator.similarity.distance import TINY
from pytest_anubis.validator.similarity.usable_rows import BoolArray

WIDTH, STRIDE = AGE, AGE // 2
"""Length and distance of the stretches: as short as the shortest segment, each overlapping the next by
half."""
SCREENED = 0.8
"""Share of the least change from which a run is searched, since stretches are not aligned with segments."""
DISTINCT_STEPS = 0.9
"""Share of different neighbours from which ordered values count as sorted; a rising counter has fewer."""


def largest_drops(series: FloatArray, better: Direction) -> FloatArray:
    """Return how much a stretch of each series (k, n) is worse than the best one before it, relative, (k,).

    It is 0 for unusable and sorted series; n is at least `WIDTH`.
    """
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
    """Return which rows are sorted: never a step back, and nearly all neighbours differ."""
    steps = np.diff(series, axis=1)
    differ = (steps != 0).mean(axis=1) > DISTINCT_STEPS
    return np.asarray(differ & ((steps >= 0).all(axis=1) | (steps <= 0).all(axis=1)))
