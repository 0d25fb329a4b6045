"""A cheap screen for changes within runs: what no pair of short stretches shows need not be searched."""

from __future__ import annotations

import numpy as np

from pytest_anubis.core.metric import Direction
from pytest_anubis.core.sample import FloatArray
from pytest_anubis.validator.changes.segments import AGE
from pytest_anubis.validator.similarity.distance import TINY
from pytest_anubis.validator.similarity.usable_rows import BoolArray

WIDTH, STRIDE = AGE, AGE // 2
"""Stretches that are screened: as short as a segment that counts, each beginning in the middle of another."""
SCREENED = 0.8
"""Share of the least change that makes a suspect: the stretches are not aligned with the segment."""
DISTINCT_STEPS = 0.9
"""Share of steps that must differ in values that somebody has sorted; a counter that only rises has fewer."""


def largest_drops(series: FloatArray, better: Direction) -> FloatArray:
    """Return by how much a stretch is worse than the best one before it, relative, 0 if unusable.

    Args:
        series: Shape (k, n), each row in time order, n of at least `WIDTH`.
        better: ``higher`` or ``lower``.

    Returns:
        Shape (k,).
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
    """Say which rows somebody has sorted: never a step back, and nearly all values differ."""
    steps = np.diff(series, axis=1)
    differ = (steps != 0).mean(axis=1) > DISTINCT_STEPS
    return np.asarray(
        differ & ((steps >= 0).all(axis=1) | (steps <= 0).all(axis=1)), dtype=np.bool_
    )
