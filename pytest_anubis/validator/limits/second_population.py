"""What somebody decides about a slower group of units."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from pytest_anubis.core.baseline import Criterion
from pytest_anubis.validator.limits.power import detectable

Decision = Literal["", "both", "faster"]
"""Nothing yet, both groups are as good, or the faster one only."""


def decided(criterion: Criterion, what: Literal["both", "faster"]) -> Criterion:
    """Return a criterion after a decision about its second population; it can be decided anew.

    Args:
        criterion: One with a second population.
        what: ``both``: the slower group is as good, so down to its own limit everything passes;
            ``faster``: it is not, so the practical threshold is that of the faster group again.
    """
    second = criterion.second
    if second is None:
        return criterion
    learned = criterion.learned if second.decided != "both" else second.before
    better, known = criterion.metric.better, criterion.detectable
    lucky = 0.0
    if known is not None:
        alike = 1 / (1 + known) if better == "lower" else 1 - known
        lucky = max(criterion.rejects_below / alike - 1, 0.0) if alike > 0 else 0.0
    low = second.threshold
    alpha, limit, before = second.alpha, learned, None
    if what == "both":
        alpha, limit, before = low, low if learned is None else min(low, learned), learned
    threshold = min(alpha, 1.0 if limit is None else limit)
    return replace(
        criterion,
        alpha=alpha,
        learned=limit,
        detectable=None if known is None else detectable(better, threshold, lucky),
        second=replace(second, decided=what, before=before),
    )
