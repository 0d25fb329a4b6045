"""Tails of healthy distances, and the order statistics that turn them into one stated error rate."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from pytest_anubis.core.sample import FloatArray, IntArray
from pytest_anubis.validator.similarity.usable_rows import BoolArray

SHARE, LEAST_EXCESSES = 0.1, 10
"""The largest tenth of a metric's distances is its tail; of few distances ten, or half of them."""
FLOOR = 2e-4
"""Least scale of a tail that is taken as found: differences of a hundredth of a percent mean nothing."""
SHRINK, SHAPE = 40.0, 0.1
"""A fitted shape counts as its excesses, beside forty that say .1, slightly heavier than exponential: with a
hundred nodes of eight devices (80 excesses) the data have two thirds of the weight, with twenty nodes (16)
under a third. `benchmarks/validator_thresholds.py` prints the rates and the power that follow."""
LIGHTEST, HEAVIEST = -0.5, 0.6
"""Range of a fitted shape before it is shrunk: the estimator has a finite variance below .5 (Hosking and
Wallis 1987), and at .6 its error is as large as what it says. What is below 0 after shrinking counts as 0: a
tail that ends would promise too much."""
PLOTTING = 0.35
"""Plotting position (rank - .35) / n of the probability-weighted moments (Hosking and Wallis 1987)."""
MOST_REFITTED = 1000
"""Excesses up to which a tail is fitted anew without each node: time and memory grow with the square; of
more, one node's few hardly bend the shape."""
LOOSEST = 0.35
"""No learned threshold lets a larger loss pass, whatever the noise: one that misses a third of the
performance protects nobody."""
STRAY = 10.0
"""A unit is a stray when the tail of the others expects one such distance in `STRAY` fleets; over all metrics
together, since a healthy node that is called a stray anywhere is missing among the worst."""

ROUNDING = 1e-9
"""Whole numbers of nodes that are missed by less are meant: 1 / .01 - 1 is 99 but for rounding."""


class Tail(NamedTuple):
    """A generalised Pareto tail of one metric's healthy distances.

    Attributes:
        start: Distance where the tail begins.
        level: -log of the share of distances beyond it.
        scale: Scale of the excesses.
        shape: 0 for an exponential tail, positive for a heavier one.
    """

    start: float
    level: float
    scale: float
    shape: float

    def rarity(self, distance: FloatArray) -> FloatArray:
        """Return -log of the chance that a healthy distance is this large; linear in the body."""
        excess = np.maximum(distance - self.start, 0.0) / self.scale
        far = excess if self.shape == 0 else np.log1p(self.shape * excess) / self.shape
        body = self.level * np.minimum(distance / max(self.start, FLOOR), 1.0)
        return np.where(distance > self.start, self.level + far, body)

    def rarity_without(self, distance: FloatArray, owner: IntArray) -> FloatArray:
        """Return the rarities of the very distances that the tail was fitted to, each owner's own left out.

        An extreme value stretches the scale and bends the shape that it is measured by; the next node's
        extreme will not.

        Args:
            distance: Shape (n,), what the tail was fitted to.
            owner: Shape (n,), code of the node of each distance.
        """
        beyond = distance > self.start
        excess = distance[beyond] - self.start
        holders = owner[beyond]
        out = self.rarity(distance)
        if not len(excess):
            return out
        order = np.argsort(excess, kind="stable")
        excess, holders = excess[order], holders[order]
        scale = np.full(len(excess), self.scale)
        shape = np.full(len(excess), self.shape)
        if len(excess) <= MOST_REFITTED:
            _, which = np.unique(holders, return_inverse=True)
            kept = which[None, :] != np.arange(which.max() + 1)[:, None]
            scales, shapes = _scale_and_shape(excess, kept[kept.any(axis=1)])
            if len(scales) > 1:
                scale, shape = scales[which], shapes[which]
        else:  # one owner's excesses are too few to bend the tail; its scale is easily taken out
            total = np.bincount(holders, excess)
            count = np.bincount(holders)
            others = np.maximum(len(excess) - count, 1)
            scale = np.maximum((excess.sum() - total) / others * (1 - self.shape), FLOOR)[holders]
        far = excess / scale
        heavy = shape > 0
        far[heavy] = np.log1p(shape[heavy] * far[heavy]) / shape[heavy]
        out[np.flatnonzero(beyond)[order]] = self.level + far
        return out

    def distance(self, rarity: float) -> float:
        """Return the distance of a rarity: the inverse of :meth:`rarity` beyond the body."""
        more = max(rarity - self.level, 0.0)
        far = more if self.shape == 0 else math.expm1(self.shape * more) / self.shape
        return self.start + self.scale * far


def fit_tail(distances: FloatArray) -> Tail:
    """Fit the tail of healthy distances by probability-weighted moments.

    With b0 the mean of the excesses and b1 their mean weighted by 1 - rank/n, the shape is
    ``2 - b0 / (b0 - 2 b1)`` and the scale ``2 b0 b1 / (b0 - 2 b1)`` (Hosking and Wallis 1987,
    doi:10.1080/00401706.1987.10488243). A shape from few excesses is shrunk towards a light tail.

    Args:
        distances: Shape (n,), one-sided distances in [0, 1], n >= 2.
    """
    ordered = np.sort(distances)
    n = len(ordered)
    count = min(max(int(n * SHARE), min(LEAST_EXCESSES, n // 2)), n - 1)
    start = float(ordered[n - count - 1])
    excess = ordered[n - count :] - start
    scale, shape = (
        float(x[0]) for x in _scale_and_shape(excess, np.ones((1, count), dtype=np.bool_))
    )
    return Tail(start, -math.log(count / n), scale, shape)


def _scale_and_shape(excess: FloatArray, kept: BoolArray) -> tuple[FloatArray, FloatArray]:
    """Return scales and shapes (k,) of tails from the excesses (n,), ascending, that are kept (k, n)."""
    count = kept.sum(axis=1)
    mean = kept @ excess / count
    rank = (np.cumsum(kept, axis=1) - PLOTTING) / count[:, None]
    lower = (kept * (1 - rank)) @ excess / count
    room = mean - 2 * lower
    shape = np.where(room > 0, 2 - mean / np.where(room > 0, room, 1.0), HEAVIEST)
    shape = (count * np.clip(shape, LIGHTEST, HEAVIEST) + SHRINK * SHAPE) / (count + SHRINK)
    shape = np.maximum(shape, 0.0)
    return np.maximum(mean * (1 - shape), FLOOR), shape


def in_healthy_tail(
    losses: FloatArray, inside: BoolArray, usable: BoolArray, criteria: int = 1
) -> BoolArray:
    """Return the units that belong to the healthy ones' own tail, those within the practical threshold first.

    Units beyond it are taken back as long as the tail of those inside makes such a distance likely; what
    a gap separates stays out.

    Args:
        losses: Shape (n,), one-sided distances to the centre.
        inside: Shape (n,), units within the practical threshold; at least two.
        usable: Shape (n,), units with a sample.
        criteria: How many criteria are learned together.
    """
    rarest = math.log(STRAY * criteria * max(int(usable.sum()), 1))
    outside = usable & ~inside
    while outside.any():
        reach = fit_tail(losses[inside]).distance(rarest)
        back = outside & (losses <= min(reach, LOOSEST))
        if not back.any():
            break
        inside = inside | back
        outside = outside & ~back
    return inside


def nodes_needed(rate: float, confidence: float | None) -> int:
    """Return how many nodes a threshold at this rate needs: on average (None) or with a confidence.

    The largest of n healthy values is exceeded by the next one with chance 1 / (n + 1), and it lies
    beyond the 1 - rate quantile with chance 1 - (1 - rate)^n.
    """
    if confidence is None:
        return math.ceil(1 / rate - 1 - ROUNDING)
    return math.ceil(math.log1p(-confidence) / math.log1p(-rate) - ROUNDING)


def tolerance_limit(values: FloatArray, rate: float, confidence: float | None) -> float | None:
    """Return the order statistic that a next healthy value exceeds with chance `rate` at most.

    Args:
        values: Shape (n,), one per healthy node.
        rate: Stated chance.
        confidence: Of the statement as a tolerance limit; None for "on average".

    Returns:
        None when there are too few values.
    """
    from scipy.special import bdtrc

    n = len(values)
    if n < nodes_needed(rate, confidence):
        return None
    ordered = np.sort(values)[::-1]
    if confidence is None:
        return float(ordered[max(math.floor(rate * (n + 1) + ROUNDING), 1) - 1])
    place = 1
    # P(at least r of n exceed the true quantile) must stay at or above the confidence.
    while place < n and float(bdtrc(place, n, rate)) >= confidence:
        place += 1
    return float(ordered[place - 1])
