"""Find values that are too good to be true: recorded in another unit, or without doing the work.

A healthy unit may be somewhat better than its class: a new driver, a cooler room. In two GPU clusters, judged
by half of their nodes, no GPU was better than typical by more than 6 %. A virtual machine with noisy
neighbours varies more: in a quiet hour its memory latency was five times as good as when it learned. So a
value is too good beyond a factor and beyond several times the spread; both are larger for the runs of one
machine. Such a value neither accepts nor rejects.
"""

from __future__ import annotations

import math

import numpy as np

from pytest_anubis.core.baseline import Criterion
from pytest_anubis.core.metric import Metric, slip_of
from pytest_anubis.core.sample import FloatArray
from pytest_anubis.validator.similarity.distance import TINY
from pytest_anubis.validator.similarity.usable_rows import BoolArray, UsableRows

FACTOR, POWER = 1.5, 2.0
"""A sample is too good if it is at least FACTOR times as good as typical, and if its similarity to the centre
is below that of the best learned unit times the learned threshold to this power."""
FACTOR_OF_RUNS, POWER_OF_RUNS = 2.0, 4.0
"""The same for a baseline of one machine."""
MIN_SLIP = 7.5
"""How many times as good as typical a unit must be to be left out of learning. The smallest slip of a unit is
a factor of 8; a group of units that is less far away may be healthy."""
SPREADS = 10.0
"""The same in standard deviations of the units' medians, while no limit is learned."""
MIN_SLIP_OF_GROUPS = 10.0
"""Ratio of two groups' medians from which they are no two kinds of healthy hardware: a benchmark of caches is
four times as fast on one half of a fleet of cloud machines, a link of 16 lanes eight times one of two."""
EVEN = 0.35
"""Share of the units from which they are a population of their own: of two such groups (`Cluster.share`)
chance decides which one is larger."""


def _can_be_too_good(metric: Metric) -> bool:
    """Return whether a value can be suspiciously good; fewer drops, watts or degrees never are."""
    return metric.better == "higher" or metric.is_duration


def lowest_likeness(criterion: Criterion) -> float:
    """Return the similarity to the centre below which a better sample is too good; 0 if none is."""
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
    factor, power = (FACTOR_OF_RUNS, POWER_OF_RUNS) if one_machine else (FACTOR, POWER)
    return min(1 / factor, float(spread**power) * (low / high))


def strange_rows(rows: UsableRows, metric: Metric) -> dict[int, float]:
    """Return the rows that are too good to learn from, or were recorded in another unit.

    Returns:
        Row -> how many times as good as typical it is, below 1 if its unit slipped the other way. Empty if
        the rows are too many to be an exception.
    """
    medians = rows.medians()
    typical = float(np.median(medians[rows.usable])) if rows.usable.any() else 0.0
    if not _can_be_too_good(metric) or typical <= 0:
        return {}
    better: FloatArray = np.log(np.maximum(medians, TINY) / typical)
    if metric.better == "higher":  # a few strange values of a sample show in its mean
        better = np.maximum(better, np.log(np.maximum(rows.means(), TINY) / typical))
    else:
        better = -better
    spread = 1.4826 * float(np.median(np.abs(better[rows.usable])))
    limit = max(math.log(MIN_SLIP), SPREADS * spread)
    far: BoolArray = rows.usable & (np.abs(np.nan_to_num(better)) > limit)
    found = {
        row: math.exp(min(float(better[row]), 700.0))
        for row in np.flatnonzero(far).tolist()
        if better[row] > 0 or slip_of(math.exp(-better[row]))
    }
    return found if len(found) < EVEN * int(rows.usable.sum()) else {}


def slip_between(rows: UsableRows, slower: BoolArray) -> str:
    """Return the factor between two units by which a group (n,) and the other rows differ, or an empty text.

    A factor below `MIN_SLIP_OF_GROUPS` may also be two kinds of healthy hardware.
    """
    medians = rows.medians()
    low, high = sorted(float(np.median(medians[of])) for of in (slower, rows.usable & ~slower))
    return slip_of(high / low) if low > 0 and high / low >= MIN_SLIP_OF_GROUPS else ""
