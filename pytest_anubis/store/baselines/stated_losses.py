"""Correct the loss that a criterion says it finds, which an edit of its thresholds makes too small."""

from __future__ import annotations

import dataclasses

from pytest_anubis.core.baseline import MIN_THRESHOLD, Baseline, Criterion

_ROUNDING = 1 - 1e-6
"""Losses in a file have eight significant digits: a smaller ratio than this is a real difference."""

_BETTER_SHARE = 0.05
"""Share of healthy units that are better than the unit whose loss must show, as in learning."""


def with_true_losses(baseline: Baseline) -> Baseline:
    """Return the baseline, and its digest, with no criterion that states a loss its thresholds let pass."""
    return dataclasses.replace(baseline, criteria=tuple(map(_true, baseline.criteria)))


def _true(criterion: Criterion) -> Criterion:
    stated = criterion.detectable
    typical, lucky = _failing_losses(criterion)
    if stated is None or stated >= _ROUNDING * typical:
        return criterion
    return dataclasses.replace(criterion, detectable=lucky)


def _failing_losses(criterion: Criterion) -> tuple[float, float]:
    """Return the losses at which a typical unit fails, and one that is better than nineteen in twenty.

    A unit that is better than typical by a share b and then loses x is ``(1 + b) (1 - x)`` as good as typical
    (`validator.limits.power.detectable`). The file has no b, so it is estimated from the kept medians.
    """
    lower = criterion.metric.better == "lower"
    learned = 1.0 if criterion.learned is None else criterion.learned
    threshold = max(min(criterion.alpha, learned), MIN_THRESHOLD)  # an edited file may say 0
    if not criterion.centre:
        return 0.0, 0.0
    typical = criterion.typical
    place = round((_BETTER_SHARE if lower else 1 - _BETTER_SHARE) * (len(criterion.medians) - 1))
    best = criterion.medians[place] if criterion.medians else typical
    better, worse = (typical, best) if lower else (best, typical)
    lucky = max(better / worse - 1, 0.0) if worse > 0 else 0.0
    return _loss(threshold, lower), _loss(threshold / (1 + lucky), lower)


def _loss(similarity: float, lower: bool) -> float:
    """Return the relative loss of a unit with this similarity; a duration loses by being longer."""
    return float(f"{1 / similarity - 1 if lower else 1 - similarity:.8g}")  # as a file has it
