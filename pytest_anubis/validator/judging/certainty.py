"""Compute how sure it is that a loss is beyond the limit that rejects, and whether to measure it again.

A sample's loss is uncertain for two reasons: its values scatter, and a whole run differs from the next one.
The sample shows the first error; the second is at most the learned spread of the healthy units. The variances
of both add up on the logarithm of the similarity, for rates as for times. The true loss lies around the
measured one with that error (Student's t). `sample_judging` uses it.
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
    CLEAR_FACTOR,
    CONFIRMING_LOOKS,
    standard_error,
)
from pytest_anubis.validator.learning.machine_thresholds import LASTING
from pytest_anubis.validator.similarity.centre import MIN_UNITS
from pytest_anubis.validator.similarity.distance import MIN_SIMILARITY

NEAR = 0.5
"""Share of the allowed loss below which no certainty is computed. Limits are several deviations wide, so the
true loss of such a sample is beyond the limit in fewer than 1 of 20 cases; nearly all samples are such."""
SURE = 0.95
"""Probability from which a loss counts as sure, as for a change within a run."""


class Certainty(NamedTuple):
    """How sure a loss is."""

    # Probability that it is beyond the limit that rejects; None if its error is unknown
    beyond: float | None
    retest: str  # why a FAIL should be measured again before it is believed; empty if it is sure


UNKNOWN = Certainty(None, "")


def certainty_of(
    values: FloatArray, alike: float, criterion: Criterion, looks: int = 1
) -> Certainty:
    """Return how sure it is that a sample's loss is beyond the limit that rejects; `UNKNOWN` far from it.

    Values (n,), n >= 1, are in time order; the criterion is as it applies to this sample (`criterion_for`).
    """
    metric = criterion.metric
    if metric.better == "equal" or (
        alike <= 0 and metric.better == "lower" and metric.counts_faults
    ):
        return Certainty(float(alike < 1), "")  # a fact, whatever the next run shows
    limit = criterion.rejects_below
    if 1 - alike < NEAR * (1 - limit):
        return UNKNOWN
    mean = float(values.mean())
    failed = alike < limit
    if mean <= 0:  # a rate of 0 is surely bad, a count of 0 surely good
        return Certainty(float(failed), SINGLE_VALUE if len(values) == 1 else "")
    loss = -math.log(max(alike, MIN_SIMILARITY))
    allowed = -math.log(max(limit, MIN_SIMILARITY))
    error = _error(values, mean, criterion, looks)
    beyond = error.chance(loss - allowed) if error is not None else None
    return Certainty(beyond, _retest(values, looks, loss, allowed, error) if failed else "")


class _Error(NamedTuple):
    """Standard error of the logarithm of a similarity, and its degrees of freedom."""

    deviation: float
    degrees: float

    def chance(self, distance: float) -> float:
        """Return the chance that the true value is beyond the limit if the found value exceeds it by this."""
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
    """Return the relative standard deviation of healthy units; None if it is unknown.

    Medians are ascending. The criterion's spread is the deviation of one machine's runs, or the scale of a
    tail.
    """
    known = [math.log(median) for median in medians if median > 0]
    found = float(np.std(known, ddof=1)) if len(known) >= MIN_UNITS else None
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
    if looks < CONFIRMING_LOOKS and error.chance(loss - CLEAR_FACTOR * allowed) < SURE:
        return "seen in one look only" if looks == 1 else f"seen in {looks} looks only"
    return ""
