"""The loss that a criterion says it finds, held against its thresholds: an edit of those leaves it stale."""

from __future__ import annotations

import dataclasses

from pytest_anubis.core.baseline import LEAST_SIMILAR, Baseline, Criterion

SAME = 1 - 1e-6
"""Losses of a file have eight significant digits: less than this part of another is another one."""

ONE_IN_TWENTY = 0.05
"""So many healthy units are better than the one whose loss must show, as in what learning states."""


def with_true_losses(baseline: Baseline) -> Baseline:
    """Return a baseline none of whose criteria says that it finds a loss that its thresholds let pass.

    Args:
        baseline: As a file holds it; its digest is kept, so it must have been checked before.
    """
    criteria = tuple(map(_true, baseline.criteria))
    return dataclasses.replace(baseline, criteria=criteria)


def _true(criterion: Criterion) -> Criterion:
    least = _least(criterion)
    return dataclasses.replace(criterion, detectable=_larger(criterion.detectable, *least))


def _larger(stated: float | None, bound: float, likely: float) -> float | None:
    """Return the stated loss, or the likely one where the stated one lies within what passes."""
    return likely if stated is not None and stated < SAME * bound else stated


def _least(criterion: Criterion) -> tuple[float, float]:
    """Return the loss at which a typical unit fails, and that where one better than nineteen in twenty does.

    A unit that is better than typical by a share b and then loses x is ``(1 + b) (1 - x)`` as good as typical
    (as `validator.limits.power.detectable` has it); b is taken from the kept medians, since what learning
    knew of it is in no file.
    """
    lower = criterion.metric.better == "lower"
    learned = 1.0 if criterion.learned is None else criterion.learned
    threshold = max(min(criterion.alpha, learned), LEAST_SIMILAR)  # an edited file may say 0
    if not criterion.centre:
        return 0.0, 0.0
    typical = criterion.typical
    place = round((ONE_IN_TWENTY if lower else 1 - ONE_IN_TWENTY) * (len(criterion.medians) - 1))
    best = criterion.medians[place] if criterion.medians else typical
    better, worse = (typical, best) if lower else (best, typical)
    lucky = max(better / worse - 1, 0.0) if worse > 0 else 0.0
    return _loss(threshold, lower), _loss(threshold / (1 + lucky), lower)


def _loss(alike: float, lower: bool) -> float:
    """Return the relative loss that leaves so much alike: what is missing, of durations what is too much."""
    return float(f"{1 / alike - 1 if lower else 1 - alike:.8g}")  # as many digits as a file has
