"""Values that are better than anything learned explains: a unit that slipped, or work that was not done.

A healthy unit may be somewhat better than its class: a new driver, a cooler room. Of the GPUs of two clusters
none was better than typical by more than 6 %, judged by what half of their nodes taught. A virtual machine
beside noisy neighbours is another thing: its latency of memory was five times as good in a quiet hour as when
it learned. So what is too good lies beyond a factor and beyond several times the spread, and the runs of one
machine get more of both.
It is a question, never an answer: such a value accepts nothing and rejects nothing.
"""

from __future__ import annotations

import math

import numpy as np

from pytest_anubis.core.baseline import Criterion
from pytest_anubis.core.metric import Metric, slip_of
from pytest_anubis.core.sample import FloatArray
from pytest_anubis.validator.similarity.distance import TINY
from pytest_anubis.validator.similarity.usable_rows import BoolArray, Rows

FACTOR, LIMITS = 1.5, 2.0
"""How many times as good as typical a unit must be at the least, and which power of the tolerated loss lies
between the best unit that was learned from and one that is too good."""
FACTOR_OF_RUNS, LIMITS_OF_RUNS = 2.0, 4.0
"""The same of a baseline of one machine."""
LEAST_SLIP = 7.5
"""How many times as good as typical a unit must be to be left out of learning: the least slip of a unit is 8,
and a group of units that is less far away may be as healthy."""
SPREADS = 10.0
"""The same in standard deviations of the units' medians, where no limit is learned yet."""
MIN_SLIP_OF_GROUPS = 10.0
"""Ratio of two groups' medians from which one is no other kind of healthy hardware: a benchmark of caches
is four times as fast on one half of a fleet of cloud machines, a link of 16 lanes eight times one of two."""
FEW = 0.35
"""Share of the units beyond which they are a population of their own (`criterion_learning.EVEN`)."""


def _can_be_too_good(metric: Metric) -> bool:
    """Return whether less than so much cannot be: of drops, watts and degrees less is only better."""
    return metric.better == "higher" or metric.is_duration


def lowest_likeness(criterion: Criterion) -> float:
    """Return the similarity to the centre below which a sample that is better is too good; 0: none is."""
    metric, typical = criterion.metric, criterion.typical
    if not _can_be_too_good(metric) or typical <= 0:
        return 0.0
    learned = criterion.alpha if criterion.learned is None else criterion.learned
    spread = min(learned, learned if criterion.unconfirmed is None else criterion.unconfirmed)
    best = typical
    if criterion.medians:
        best = criterion.medians[-1] if metric.better == "higher" else criterion.medians[0]
    low, high = sorted((typical, best))
    one_machine = criterion.nodes == 1
    factor, power = (FACTOR_OF_RUNS, LIMITS_OF_RUNS) if one_machine else (FACTOR, LIMITS)
    return min(1 / factor, float(spread**power) * (low / high))


def strange_rows(rows: Rows, metric: Metric) -> dict[int, float]:
    """Return the units of a population to learn from that are too good, or whose unit slipped.

    Args:
        rows: Of the population.
        metric: What they are of.

    Returns:
        Row -> how many times as good as typical it is, below 1 where the unit slipped the other way. Empty
        where they are too many to be an exception.
    """
    medians = rows.medians()
    typical = float(np.median(medians[rows.usable])) if rows.usable.any() else 0.0
    if not _can_be_too_good(metric) or typical <= 0:
        return {}
    better: FloatArray = np.log(np.maximum(medians, TINY) / typical)
    if metric.better == "higher":  # a few values of a sample may be strange as well
        better = np.maximum(better, np.log(np.maximum(rows.means(), TINY) / typical))
    else:
        better = -better
    spread = 1.4826 * float(np.median(np.abs(better[rows.usable])))
    limit = max(math.log(LEAST_SLIP), SPREADS * spread)
    far: BoolArray = rows.usable & (np.abs(np.nan_to_num(better)) > limit)
    found = {
        row: math.exp(min(float(better[row]), 700.0))
        for row in np.flatnonzero(far).tolist()
        if better[row] > 0 or slip_of(math.exp(-better[row]))
    }
    return found if len(found) < FEW * int(rows.usable.sum()) else {}


def slip_between(rows: Rows, slower: BoolArray) -> str:
    """Return the factor between two units if a group and the others differ by it: ``1000``; else empty.

    A factor below `MIN_SLIP_OF_GROUPS` may also be two kinds of healthy hardware.

    Args:
        rows: Of the population.
        slower: Shape (n,), units of the group.
    """
    medians = rows.medians()
    low, high = sorted(float(np.median(medians[of])) for of in (slower, rows.usable & ~slower))
    return slip_of(high / low) if low > 0 and high / low >= MIN_SLIP_OF_GROUPS else ""
