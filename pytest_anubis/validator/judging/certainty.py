"""How sure it is that a loss is beyond the limit that rejects, and what to measure again first.

A sample's loss is uncertain for two reasons: its values scatter, and a whole run differs from the next one.
The first is seen in the sample; the second is at most the spread of the healthy units, which was learned, and
which single values have as well. On the logarithm of the similarity both add up, for rates as for times; the
true loss lies around what was found with that error (Student's t).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from pytest_anubis.core.baseline import Criterion
from pytest_anubis.core.metric import percent_text
from pytest_anubis.core.sample import FloatArray
from pytest_anubis.core.verdict import SINGLE_VALUE
from pytest_anubis.validator.judging.sequential_test import (
    CLEAR,
    CONFIRMING_LOOKS,
    standard_error,
)
from pytest_anubis.validator.learning.machine_thresholds import LASTING
from pytest_anubis.validator.similarity.centre import FEWEST
from pytest_anubis.validator.similarity.distance import LEAST_SIMILARITY

NEAR = 0.5
"""Share of the allowed loss up to which nothing is worked out: limits are several deviations wide, so that
such a sample's true loss is beyond one in fewer than 1 of 20 cases, and nearly all of millions are there."""
SURE = 0.95
"""Probability from which a loss counts as sure: the same as that of a change within a run."""


class Certainty(NamedTuple):
    """What is known about a loss.

    Attributes:
        beyond: Probability that it is beyond the limit that rejects; None if nothing tells its error.
        retest: Why it should be measured again before it is believed, empty if it is sure; it means something
            only where the verdict is FAIL.
    """

    beyond: float | None
    retest: str


UNKNOWN = Certainty(None, "")


def certainty_of(
    values: FloatArray, alike: float, criterion: Criterion, looks: int = 1
) -> Certainty:
    """Say how sure it is that a sample's loss is beyond the limit that rejects; nothing where it is not near.

    Args:
        values: Shape (n,), n >= 1, a usable sample in time order.
        alike: Its one-sided similarity to the criterion.
        criterion: What it was compared with, as it holds for this sample (`criterion_for`).
        looks: How many looks the values come from.
    """
    metric = criterion.metric
    if metric.better == "equal" or (
        alike <= 0 and metric.better == "lower" and metric.counts_faults
    ):
        return Certainty(float(alike < 1), "")  # right or wrong, whatever the next run counts
    limit = criterion.rejects_below
    if 1 - alike < NEAR * (1 - limit):
        return UNKNOWN
    mean = float(values.mean())
    failed = alike < limit
    if mean <= 0:  # a rate of nothing is as sure as it is bad; of what should be low it is the best
        return Certainty(float(failed), SINGLE_VALUE if len(values) == 1 else "")
    loss = -math.log(max(alike, LEAST_SIMILARITY))
    allowed = -math.log(max(limit, LEAST_SIMILARITY))
    error = _error(values, mean, criterion, looks)
    beyond = error.chance(loss - allowed) if error is not None else None
    return Certainty(beyond, _retest(values, looks, loss, allowed, error) if failed else "")


class _Error(NamedTuple):
    """Standard error of the logarithm of a similarity, and its degrees of freedom."""

    deviation: float
    degrees: float

    def chance(self, distance: float) -> float:
        """Return the chance that the true value is beyond a limit that the found one exceeds by so much."""
        from scipy.special import stdtr

        if self.deviation == 0:
            return float(distance > 0)
        return float(stdtr(self.degrees, distance / self.deviation))


def _error(values: FloatArray, mean: float, criterion: Criterion, looks: int) -> _Error | None:
    within, within_degrees = 0.0, 0.0
    if len(values) > 1:
        deviation, within_degrees = standard_error([values])
        within = (deviation / mean) ** 2
    between = unit_spread(criterion.medians, criterion.spread, criterion.unconfirmed is not None)
    if between is None and len(values) == 1:
        return None
    left = LASTING if looks >= CONFIRMING_LOOKS else 1.0
    between_degrees = max(criterion.units - 1, 1)
    shared = 0.0 if between is None else between**2 * (left + 1 / max(criterion.units, 1))
    total = within + shared
    if total == 0:
        return _Error(0.0, 1.0)
    # Welch and Satterthwaite: the degrees of freedom of a sum of two variances.
    parts = (within**2 / max(within_degrees, 1.0)) + shared**2 / between_degrees
    return _Error(math.sqrt(total), total**2 / parts)


@lru_cache(maxsize=4096)  # criteria of a wide baseline
def unit_spread(medians: Sequence[float], spread: float, one_machine: bool) -> float | None:
    """Return the standard deviation of healthy units, relative; None where nothing tells it.

    Args:
        medians: Of the healthy units, in order.
        spread: Scale that the criterion states.
        one_machine: That scale is the deviation of runs of one machine, and not the scale of a tail.
    """
    known = [math.log(median) for median in medians if median > 0]
    found = float(np.std(known, ddof=1)) if len(known) >= FEWEST else None
    if spread > 0 and (one_machine or found is None):
        return max(spread, found or 0.0)
    return found


def _retest(
    values: FloatArray, looks: int, loss: float, allowed: float, error: _Error | None
) -> str:
    if len(values) == 1:
        return SINGLE_VALUE
    if error is None:
        return ""
    beyond = error.chance(loss - allowed)
    if beyond < SURE:
        return f"borderline, beyond the limit with probability {percent_text(beyond)}"
    if looks < CONFIRMING_LOOKS and error.chance(loss - CLEAR * allowed) < SURE:
        return "seen in one look only" if looks == 1 else f"seen in {looks} looks only"
    return ""
