"""Statistical power: the loss that a threshold detects in 95 % of cases, and the threshold for a given loss.

Learning states the first in each criterion (`Criterion.detectable`), and needs the second for `--promise`.
"""

from __future__ import annotations

import math

import numpy as np

from pytest_anubis.core.metric import Direction
from pytest_anubis.core.sample import FloatArray
from pytest_anubis.validator.limits.tails import student_quantile
from pytest_anubis.validator.similarity.distance import uniformly_worse

POWER = 0.95
"""Chance to find a loss that is stated as detectable: the usual complement of a 5 % risk."""
MAX_ALIKE = 1 - 2e-4
"""Highest threshold of a promise: a hundredth of a percent is no difference."""


def luck(signed: FloatArray, healthy: FloatArray) -> float:
    """Return the gain over typical that one healthy unit in twenty exceeds: a fault first uses it up.

    Signed losses (n,) are loss less gain, NaN is ignored; `healthy` (n,) are the chances to be healthy.
    """
    known = ~np.isnan(signed) & (healthy > 0)
    order = np.argsort(signed[known], kind="stable")
    reached = np.cumsum(healthy[known][order])
    if not len(reached):
        return 0.0
    place = min(int((reached < (1 - POWER) * reached[-1]).sum()), len(reached) - 1)
    return max(-float(signed[known][order][place]), 0.0)


def next_luck(deviation: float, nodes: int) -> float:
    """Return the gain over typical that one in twenty of the *next* units exceeds, from few nodes.

    `deviation` is the standard deviation of the signed losses of healthy units from `nodes` nodes.
    """
    return student_quantile(max(nodes - 1, 1), POWER) * deviation * math.sqrt(1 + 1 / nodes)


def detectable(better: Direction, threshold: float, lucky: float = 0.0) -> float:
    """Return the smallest uniform loss that fails in 95 % of cases, as a fraction of the value.

    A unit that was better than typical by `lucky` (`luck`) and then loses x is ``(1 + lucky) (1 - x)`` times
    as good as typical; one in twenty units is better still. The verdict is FAIL below `threshold`.
    """
    return abs(uniformly_worse(1.0, threshold / (1 + lucky), better) - 1)


def promised_threshold(better: Direction, promise: float, lucky: float) -> float:
    """Return the threshold that finds a promised loss: `detectable`, inverted."""
    alike = 1 - promise if better == "higher" else 1 / (1 + promise)
    return min(max(alike * (1 + lucky), 0.0), MAX_ALIKE)
