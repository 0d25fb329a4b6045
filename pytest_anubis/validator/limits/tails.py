"""Fit generalised Pareto tails to healthy losses, and find limits that a next healthy node rarely exceeds.

`prediction_bound` limits the losses of few units; `robust_limit`, an order statistic of the nodes' scores,
keeps a stated error rate. `healthy_tails` and `fleet_thresholds` use them.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from pytest_anubis.core.sample import FloatArray, IntArray

SHARE, MIN_EXCESSES = 0.1, 10
"""The tail is the largest tenth of a metric's distances; of few distances it is ten, or half of them."""
FLOOR = 2e-4
"""Smallest scale of a tail: differences of a hundredth of a percent mean nothing."""
SHRINK, SHAPE = 40.0, 0.1
"""A fitted shape has the weight of its excesses, and the shape .1, slightly heavier than exponential, that of
forty excesses. With a hundred nodes of eight devices (80 excesses) the data have two thirds of the weight,
with twenty nodes (16) less than a third. `benchmarks/validator/dirty.py` prints the resulting rates and
power."""
LIGHTEST, HEAVIEST = -0.5, 0.6
"""Range of a fitted shape before it is shrunk: the estimator has a finite variance below .5 (Hosking and
Wallis 1987), and at .6 its error is as large as the shape."""
AS_NORMAL = -0.18
"""Smallest shape of a tail after shrinking: that of normal noise beyond its tenth."""
DRIFT, DRIFT_WIDTH = 0.04, 0.1
"""Increase of a shape far out. By its moments the largest tenth of Student's t with three to ten degrees
looks .03 to .05 lighter than the tail a thousand times farther out. That of normal noise (-.18) does not, so
the drift begins at -.1 and is full at 0."""
PLOTTING = 0.35
"""Plotting position (rank - .35) / n of the probability-weighted moments (Hosking and Wallis 1987)."""
MAX_REFITTED = 1000
"""Excesses up to which a tail is fitted anew without each node, since time and memory grow with the square.
Among more excesses, those of one node hardly change the shape."""
MAX_RARITY = 700.0
"""Smaller chances than e^-700 are 0 in floating point."""
MAX_DISTANCE = 1e12
"""Bound of the search for a distance; the largest loss is 1."""
BOUND_DEGREES, BOUNDED = 4.0, 400.0
"""Degrees of freedom of the bound for few units, and the most units that have one: of four hundred units
forty are the tail, the weight of the prior shape (`SHRINK`). With five degrees losses of 20 % are missed less
often, but more healthy nodes of heavy-tailed metrics are rejected than stated."""
ROBUST, MIN_ROBUST_NODES = 0.05, 5.0
"""Share of the nodes, and fewest nodes, whose scores determine where the rarest one in a hundred begins.
Otherwise one sick node that counts as healthy would set the limits of all metrics."""
ONE_IN_TWENTY = 1.645
"""Standard deviations beyond which one normal value in twenty lies, on one side."""
ROUNDING = 1e-9
"""Rounding of whole numbers of nodes: 1 / .01 - 1 is meant to be 99."""


class Tail(NamedTuple):
    """A generalised Pareto tail of one metric's healthy distances, with the uncertainty of its shape.

    A tail lighter than exponential would end somewhere, which promises too much. It is replaced by two: one
    of the same moments whose hazard rises evenly (`_bends`), as that of normal noise nearly does, weighted
    by the chance that the noise is nearly normal, and an exponential one.
    """

    start: float  # distance where the tail begins
    level: float  # -log of the share of distances beyond it
    mean: float  # mean of the excesses
    shape: float  # 0 for an exponential tail, above for a heavier one, below for a lighter one
    error: float = 0.0  # standard error of the shape
    doubt: float = 0.0  # relative standard error of the mean
    normal: float = 0.0  # chance that the noise is nearly normal; else exponential at least

    @property
    def scale(self) -> float:
        """Scale of the excesses."""
        return max(self.mean * _bend(self.shape)[1], FLOOR)

    def rarity(self, distance: FloatArray) -> FloatArray:
        """Return -log of the chance that a healthy distance is this large; linear in the body.

        Beyond the start it is the chance of a *next* distance: the mean over the shapes that the data allow.
        """
        beyond = distance > self.start
        out = self._body(distance)
        excess = distance[beyond] - self.start
        mean, shape = np.full(1, self.mean), np.full(1, self.shape)
        out[beyond] = self.level + self._rarities_beyond(excess, mean, shape)
        return out

    def at_least_exponential(self) -> Tail:
        """Return the same tail, or an exponential one of the same mean if it is lighter."""
        return self._replace(shape=max(self.shape, 0.0), normal=0.0)

    def chance_if_heavier(self, distance: float) -> float:
        """Return the chance of a distance if shape and mean are each a standard error larger."""
        if distance <= self.start:
            return math.exp(-float(self._body(np.array([distance]))[0]))
        bend, share = _bend(max(self.shape + self.error, 0.0))
        scale = max(self.mean * math.exp(self.doubt) * share, FLOOR)
        return math.exp(-self.level - _rarity_beyond(distance - self.start, [(1.0, bend, scale)]))

    def _body(self, distance: FloatArray) -> FloatArray:
        return np.asarray(self.level * np.minimum(distance / max(self.start, FLOOR), 1.0))

    def rarity_without(
        self, distance: FloatArray, owner: IntArray, weight: FloatArray, prior: float = SHAPE
    ) -> FloatArray:
        """Return the rarities of the fitted distances, each by a tail without its owner's distances.

        An extreme value changes scale and shape of its own tail; the extreme of a next node will not. All
        arrays have shape (n,); the weight is the chance of a distance to be a healthy one.
        """
        beyond = distance > self.start
        excess = distance[beyond] - self.start
        holders = owner[beyond]
        out = self._body(distance)
        if not len(excess):
            return out
        order = np.argsort(excess, kind="stable")
        excess, holders = excess[order], holders[order]
        heavy = weight[beyond][order]
        mean = np.full(len(excess), self.mean)
        shape = np.full(len(excess), self.shape)
        if len(excess) <= MAX_REFITTED:
            _, which = np.unique(holders, return_inverse=True)
            kept = (which[None, :] != np.arange(which.max() + 1)[:, None]) * heavy
            if len(kept) > 1:
                means, shapes = _mean_and_shape(excess, kept, prior)
                mean, shape = means[which], shapes[which]
        else:  # one owner's excesses hardly change the shape; only the mean is corrected
            total = np.bincount(holders, excess * heavy)
            count = np.bincount(holders, heavy)
            others = np.maximum(heavy.sum() - count, 1)
            mean = np.maximum(((excess @ heavy) - total) / others, FLOOR)[holders]
        far = self._rarities_beyond(excess, mean, shape)
        out[np.flatnonzero(beyond)[order]] = self.level + far
        return out

    def distance(self, rarity: float) -> float:
        """Return the distance of a rarity: the inverse of `rarity` beyond the body."""
        if rarity <= self.level:
            return self.start * max(rarity / self.level, 0.0) if self.level else self.start
        more = rarity - self.level
        cases = self._quadrature()
        low = high = 0.0
        while _rarity_beyond(high, cases) < more and high < MAX_DISTANCE:
            low, high = high, 2 * high + FLOOR
        for _ in range(30):  # halves the interval each time: to a billionth of it
            middle = (low + high) / 2
            if _rarity_beyond(middle, cases) < more:
                low = middle
            else:
                high = middle
        return self.start + high

    def _quadrature(self) -> list[tuple[float, float, float]]:
        """Return weights, bends and scales at quadrature points of the shape's and the mean's error."""
        found = []
        for least, chance in self._min_shapes():
            for place, share in PLACES:
                bend, part_of_mean = _bend(max(self.shape + place * self.error, least))
                for other, part in PLACES:
                    mean = self.mean * math.exp(other * self.doubt)
                    scale = max(mean * part_of_mean, FLOOR)
                    found.append((chance * share * part, bend, scale))
        return found

    def _min_shapes(self) -> list[tuple[float, float]]:
        """Return the smallest shapes that the tail may have, with their chances.

        A tail is never lighter than it was found, only heavier.
        """
        least = min(self.shape, 0.0)
        return [(0.0, 1.0)] if least == 0.0 else [(least, self.normal), (0.0, 1 - self.normal)]

    def _rarities_beyond(
        self, excess: FloatArray, mean: FloatArray, shape: FloatArray
    ) -> FloatArray:
        """Return -log of the mean chance of an excess (n,) over the shapes and means (n,) or (1,) allowed."""
        chance: FloatArray = np.zeros(len(excess))
        for least, share in self._min_shapes():
            chance += share * self._chance(excess, mean, shape, least)
        return np.asarray(-np.log(np.maximum(chance, 1e-300)))

    def _chance(
        self, excess: FloatArray, mean: FloatArray, shape: FloatArray, least: float
    ) -> FloatArray:
        """Return the mean chance of an excess over means and shapes, these of at least `least`."""
        bends, shares = _bends(np.maximum(shape + _PLACE[:, None] * self.error, least))
        bend = bends[:, None]
        means = mean * np.exp(_PLACE * self.doubt)[:, None]
        x = excess / np.maximum(means * shares[:, None], FLOOR)  # (shapes, means, n)
        heavy = np.log1p(np.maximum(bend, 0.0) * x) / np.where(bend > 0, bend, 1.0)
        rare = np.where(bend > 0, heavy, x - np.minimum(bend, 0.0) * x**2 / 2)
        return np.asarray(np.tensordot(_WEIGHTS, np.exp(-rare), 2))


PLACES = ((-math.sqrt(3.0), 1 / 6), (0.0, 2 / 3), (math.sqrt(3.0), 1 / 6))
"""Places, in standard errors, and weights of the three values that represent a normal error (Gauss-Hermite
quadrature)."""
_PLACE = np.array([place for place, _ in PLACES])
_WEIGHTS = np.multiply.outer(*[[share for _, share in PLACES]] * 2)


def _bends(shapes: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the bend of a tail of each shape, and its scale as a share of the mean excess.

    With u the excess over the scale, -log of the chance is ``log1p(b u) / b`` for a bend b above 0 (Pareto)
    and ``u - b u^2 / 2`` below it: a hazard that rises evenly.
    """
    light, bend, share = _light_tails()
    xi = np.clip(shapes, AS_NORMAL, HEAVIEST)
    return (
        np.where(xi < 0, np.interp(xi, light, bend), xi),
        np.where(xi < 0, np.interp(xi, light, share), 1 - xi),
    )


def _bend(shape: float) -> tuple[float, float]:
    """Return the same for one shape."""
    bends, shares = _bends(np.full(1, shape))
    return float(bends[0]), float(shares[0])


@lru_cache(maxsize=1)
def _light_tails() -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return shapes below 0, ascending, with bend and scale of the tail of the same moments.

    A hazard of ``1 + k u`` has the mean ``M(k) = sqrt(pi / 2k) erfcx(1 / sqrt(2k))``. The smaller of two such
    excesses has the mean ``M(k/2) / 2``, so that by probability-weighted moments (`fit_tail`) the shape is
    ``2 - M(k) / (M(k) - M(k/2) / 2)``.
    """
    from scipy.special import erfcx

    def mean(rise: FloatArray) -> FloatArray:
        return np.asarray(np.sqrt(np.pi / 2 / rise) * erfcx(1 / np.sqrt(2 * rise)))

    rise = np.linspace(0.32, 1e-3, 64)  # from beyond normal noise to nearly exponential
    shape = 2 - mean(rise) / (mean(rise) - mean(rise / 2) / 2)
    return np.append(shape, 0.0), np.append(-rise, 0.0), np.append(1 / mean(rise), 1.0)


def _rarity_beyond(excess: float, cases: list[tuple[float, float, float]]) -> float:
    """Return -log of the chance of one excess, as `Tail._rarities_beyond` does for many."""
    chance = 0.0
    for weight, bend, scale in cases:
        x = excess / scale
        rare = math.log1p(bend * x) / bend if bend > 0 else x - bend * x * x / 2
        chance += weight * math.exp(-min(rare, MAX_RARITY))
    return -math.log(max(chance, 1e-300))


def fit_tail(
    distances: FloatArray,
    weight: FloatArray | None = None,
    prior: float = SHAPE,
    normal: float = 0.0,
) -> Tail:
    """Fit the tail of healthy distances by probability-weighted moments.

    With b0 the mean of the excesses and b1 their mean weighted by 1 - rank/n, the shape is
    ``2 - b0 / (b0 - 2 b1)`` and the scale ``2 b0 b1 / (b0 - 2 b1)`` (Hosking and Wallis 1987,
    doi:10.1080/00401706.1987.10488243). A shape from few excesses is shrunk towards the prior.

    Args:
        distances: Shape (n,), one-sided distances in [0, 1], n >= 2.
        weight: Shape (n,), chance of each distance to be a healthy one; None: all 1.
        prior: Prior shape.
        normal: Chance that the noise is nearly normal (`HealthyNull`).
    """
    order = np.argsort(distances, kind="stable")
    ordered = distances[order]
    share = np.ones(len(ordered)) if weight is None else weight[order]
    total = float(share.sum())
    wanted = max(total * SHARE, min(MIN_EXCESSES, total / 2))
    behind = np.cumsum(share[::-1])[::-1]
    first = min(max(int((behind > wanted).sum()), 1), len(ordered) - 1)
    start, count = float(ordered[first - 1]), float(behind[first])
    means, shapes = _mean_and_shape(ordered[first:] - start, share[None, first:], prior)
    error = (1 + float(shapes[0])) / math.sqrt(count + SHRINK)
    # That of the mean of so many exponential excesses; where nearly none is healthy, nothing overflows.
    doubt = 1 / math.sqrt(max(count, 0.01))
    level = -math.log(count / total)
    return Tail(start, level, float(means[0]), float(shapes[0]), error, doubt, normal)


def _mean_and_shape(
    excess: FloatArray, kept: FloatArray, prior: float
) -> tuple[FloatArray, FloatArray]:
    """Return means and shapes (k,) of tails from ascending excesses (n,) with weights (k, n)."""
    count = np.maximum(kept.sum(axis=1), 1e-9)
    mean = kept @ excess / count
    rank = (np.cumsum(kept, axis=1) - PLOTTING * kept) / count[:, None]
    lower = (kept * (1 - rank)) @ excess / count
    room = mean - 2 * lower
    shape = np.where(room > 0, 2 - mean / np.where(room > 0, room, 1.0), HEAVIEST)
    shape = (count * np.clip(shape, LIGHTEST, HEAVIEST) + SHRINK * prior) / (count + SHRINK)
    shape = shape + DRIFT * np.clip(1 + shape / DRIFT_WIDTH, 0.0, 1.0)
    return np.maximum(mean, FLOOR), np.maximum(shape, AS_NORMAL)


def prediction_bound(deviation: float, units: float, rarity: float) -> float:
    """Return the loss that the next healthy unit exceeds with the chance of a rarity.

    It is the bound of a Student-t with at most `BOUND_DEGREES` degrees, since the spread of a few dozen
    losses is known better than their shape. `deviation` is the standard deviation of the signed losses of
    `units` units.
    """
    degrees = min(max(units - 1, 3.0), BOUND_DEGREES)
    reach = -student_quantile(degrees, math.exp(-rarity))
    return deviation * math.sqrt(1 + 1 / max(units, 1.0)) * reach


@lru_cache(maxsize=128)  # all metrics of a fleet have as many nodes, and the same two rarities
def student_quantile(degrees: float, probability: float) -> float:
    """Return a quantile of Student's t, kept for the next metric."""
    from scipy.special import stdtrit

    return float(stdtrit(degrees, probability))


def nodes_needed(rate: float) -> int:
    """Return how many nodes a rate needs: a next value exceeds n others with chance 1 / (n + 1)."""
    return math.ceil(1 / rate - 1 - ROUNDING)


def weighted_limit(values: FloatArray, weight: FloatArray, rate: float) -> float | None:
    """Return the order statistic that a next healthy value exceeds with chance `rate`.

    Values (n,) are one per node, weights (n,) the chances of the nodes to be healthy. The result is None if
    there are too few healthy nodes.
    """
    total = float(weight.sum())
    if total < nodes_needed(rate):
        return None
    order = np.argsort(-values, kind="stable")
    above = np.cumsum(weight[order])
    place = int((above <= rate * (total + 1) + ROUNDING).sum()) - 1
    return float(values[order][max(place, 0)])


def robust_limit(rarities: FloatArray, weight: FloatArray, rate: float) -> float | None:
    """Return the rarity that a next healthy node exceeds with chance `rate`, despite a few hidden sick nodes.

    It is the order statistic (`weighted_limit`), or less if the rarest twentieth of the nodes gives less. A
    chance falls by e with every unit of rarity, so a rarity that a share k exceeds corresponds to the rate at
    log(k / rate) more, plus a margin for the one count in twenty that is too small by chance. Rarities (n,)
    are the largest of each node; the result is None if there are too few healthy nodes.
    """
    seen = weighted_limit(rarities, weight, rate)
    total = float(weight.sum())
    wider = max(ROBUST, MIN_ROBUST_NODES / (total + 1))
    if seen is None or wider <= rate:
        return seen
    order = np.argsort(-rarities, kind="stable")
    above = np.cumsum(weight[order])
    place = min(int((above < wider * total - ROUNDING).sum()), len(rarities) - 1)
    margin = math.log1p(ONE_IN_TWENTY / math.sqrt(wider * total))
    return min(seen, float(rarities[order][place]) + math.log(wider / rate) + margin)
