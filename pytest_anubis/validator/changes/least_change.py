"""Changes within one measurement that matter: how large one must be, given the metric's own noise."""

from __future__ import annotations

from pytest_anubis.core.baseline import ALPHA, Criterion
from pytest_anubis.core.measurement import Measurement
from pytest_anubis.validator.changes.segments import HAZARD, Segments, segments

COSTLY = round(1 - ALPHA, 9)
"""Smallest change that makes a test MARGINAL: as large as the loss that matters. Below it, correlated noise
of a shared machine looks like changes."""


def least_change(criterion: Criterion | None) -> float:
    """Return the smallest change that counts: one that matters, and is beyond the metric's own noise."""
    if criterion is None:
        return COSTLY
    wide = min(criterion.learned or 1.0, criterion.unconfirmed or 1.0)
    return max(COSTLY, 1 - wide)


def hazard_of(criterion: Criterion | None) -> float:
    """Return the chance per value that a segment ends: as learned from the class's healthy units."""
    rate = criterion.change_rate if criterion is not None else None
    return HAZARD if rate is None else rate


def changes_of(measurement: Measurement, criterion: Criterion | None = None) -> Segments:
    """Search a measurement, in time order, for a change that matters and is no noise of the metric.

    Args:
        measurement: What was recorded.
        criterion: The metric's criterion, which knows its noise; None without one.
    """
    better = measurement.metric.better
    return segments(
        measurement.values,
        better,
        hazard=hazard_of(criterion),
        least_change=least_change(criterion),
    )
