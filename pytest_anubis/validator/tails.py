"""Tails of healthy distances, and the order statistics that turn them into one stated error rate."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from pytest_anubis.core.sample import FloatArray, IntArray
from pytest_anubis.validator.rows import BoolArray

SHARE = 0.1
"""The largest tenth of a metric's distances is its tail."""
FLOOR = 2e-4
"""Least believable scale of a tail: differences of a hundredth of a percent mean nothing."""
SHRINK = 40.0
SHAPE = 0.1
HEAVIEST = 0.6
LOOSEST = 0.35
"""No learned limit lets a larger loss pass, whatever the noise."""
STRAY = 10.0
"""A unit is a stray when the tail of the others expects one such distance in `STRAY` fleets; over all
metrics together, since a healthy node that is called a stray anywhere is missing among the worst."""


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

        An extreme value stretches the scale that it is measured by; the next node's extreme will not.
        The scale is the mean excess times ``1 - shape``, so that the owner's part is easily taken out.

        Args:
            distance: Shape (n,), what the tail was fitted to.
            owner: Shape (n,), code of the node of each distance.
        """
        beyond = distance > self.start
        excess = np.where(beyond, distance - self.start, 0.0)
        size = int(owner.max()) + 1
        total = np.bincount(owner, excess, size)
        count = np.bincount(owner, beyond, size)
        others = np.maximum(count.sum() - count, 1.0)
        scale = np.maximum((total.sum() - total) / others * (1 - self.shape), FLOOR)[owner]
        far = excess / scale
        if self.shape > 0:
            far = np.log1p(self.shape * far) / self.shape
        return np.where(beyond, self.level + far, self.rarity(distance))

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
    count = min(max(int(n * SHARE), min(10, n // 2)), n - 1)
    start = float(ordered[n - count - 1])
    excess = ordered[n - count :] - start
    mean = float(excess.mean())
    rank = (np.arange(1, count + 1) - 0.35) / count
    lower = float((excess * (1 - rank)).mean())
    shape = 2 - mean / (mean - 2 * lower) if mean > 2 * lower else HEAVIEST
    shape = (count * min(max(shape, -0.5), HEAVIEST) + SHRINK * SHAPE) / (count + SHRINK)
    shape = max(shape, 0.0)
    scale = max(mean * (1 - shape), FLOOR)
    return Tail(start, -math.log(count / n), scale, shape)


def believed(
    losses: FloatArray, inside: BoolArray, usable: BoolArray, criteria: int = 1
) -> BoolArray:
    """Return the units that belong to the healthy ones' own tail, those within the practical limit first.

    Units beyond it are taken back as long as the tail of those inside makes such a distance likely; what
    a gap separates stays out.

    Args:
        losses: Shape (n,), one-sided distances to the centre.
        inside: Shape (n,), units within the practical limit; at least two.
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
    """Return how many nodes a limit at this rate needs: on average (None) or with a confidence.

    The largest of n healthy values is exceeded by the next one with chance 1 / (n + 1), and it lies
    beyond the 1 - rate quantile with chance 1 - (1 - rate)^n.
    """
    if confidence is None:
        return math.ceil(1 / rate - 1 - 1e-9)
    return math.ceil(math.log1p(-confidence) / math.log1p(-rate) - 1e-9)


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
        return float(ordered[max(math.floor(rate * (n + 1) + 1e-9), 1) - 1])
    place = 1
    # P(at least r of n exceed the true quantile) must stay at or above the confidence.
    while place < n and float(bdtrc(place, n, rate)) >= confidence:
        place += 1
    return float(ordered[place - 1])
