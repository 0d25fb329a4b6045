"""Power: which loss a threshold finds, and which threshold a promised loss needs."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from pytest_anubis.core.metric import Direction
from pytest_anubis.core.sample import FloatArray
from pytest_anubis.validator.similarity.distance import uniformly_worse

POWER = 0.95
"""Chance with which a loss that is stated as detectable is found: the usual complement of a 5 % risk."""
MOST_ALIKE = 1 - 2e-4
"""Highest threshold that a promise may ask for: a hundredth of a percent is no difference."""


def luck(signed: FloatArray, healthy: FloatArray) -> float:
    """Return how much better than typical one healthy unit in twenty is: what a fault must first eat up.

    Args:
        signed: Shape (n,), loss less gain of every unit; NaN leaves one out.
        healthy: Shape (n,), chance of each to be a healthy one.
    """
    known = ~np.isnan(signed) & (healthy > 0)
    order = np.argsort(signed[known], kind="stable")
    reached = np.cumsum(healthy[known][order])
    if not len(reached):
        return 0.0
    place = min(int((reached < (1 - POWER) * reached[-1]).sum()), len(reached) - 1)
    return max(-float(signed[known][order][place]), 0.0)


def next_luck(deviation: float, nodes: int) -> float:
    """Return what one in twenty of the *next* units is better than typical by, known from so few nodes.

    Args:
        deviation: Standard deviation of the healthy units' signed losses.
        nodes: How many nodes they come from.
    """
    return _quantile(max(nodes - 1, 1)) * deviation * math.sqrt(1 + 1 / nodes)


@lru_cache(maxsize=64)  # metrics of one fleet come from as many nodes
def _quantile(degrees: int) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(degrees, POWER))


def detectable(better: Direction, threshold: float, lucky: float = 0.0) -> float:
    """Return the smallest uniform loss that fails in 95 % of cases, as a fraction of the value.

    A unit that was better than typical by `lucky` (`luck`) and then loses x is ``(1 + lucky) (1 - x)`` as
    good as typical; of those one in twenty is better still.

    Args:
        better: Direction of the metric; for ``higher`` the fraction is what is missing, for ``lower`` what is
            too much.
        threshold: Similarity below which the verdict is FAIL.
        lucky: Of the healthy units.
    """
    return abs(uniformly_worse(1.0, threshold / (1 + lucky), better) - 1)


def promised_threshold(better: Direction, promise: float, lucky: float) -> float:
    """Return the threshold that finds a promised loss: `detectable`, inverted."""
    alike = 1 - promise if better == "higher" else 1 / (1 + promise)
    return min(max(alike * (1 + lucky), 0.0), MOST_ALIKE)
