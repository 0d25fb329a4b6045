"""The healthy part of a metric's losses: a null distribution that sick units cannot widen.

Two groups share the losses of a fleet: healthy units, whose losses fall off on both sides of the centre, and
sick ones, whose losses lie anywhere (`_sick`). The healthy ones are described by what lies in the bulk, an
*empirical null* (Efron 2004, doi:10.1198/016214504000000089): half a Student-t on the bad side of the centre,
its scale bound to that of the good side, where no fault ever lands, and its degrees of freedom bounded from
below, so that no tail is heavier than noise makes it. Both are fitted together with the share of the sick by
EM; the chance of a unit to be a healthy one is one less its local false discovery rate.

A few hundred single values hardly tell a heavy healthy tail from a few sick units. But metrics of one fleet
share their kinds of noise: how many of them have which degrees of freedom is the prior of each (empirical
Bayes: Efron and Morris 1973, doi:10.1080/01621459.1973.10481350). The good side says nothing of it: what
delays a measurement has no counterpart that speeds it up, so that bodies may be alike on both sides and the
bad tail still be the heavier one. Where the good side was heard, two of twenty splits of real cloud machines
had more than 2 % of their sound ones rejected (`docs/decisions.md`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from pytest_anubis.core.sample import FloatArray
from pytest_anubis.validator.similarity.usable_rows import BoolArray

DEGREES = np.array([3.0, 4.0, 6.0, 10.0, 30.0])
"""Degrees of freedom that are tried: below three a healthy tail has no variance, thirty are nearly normal."""
QUARTILES = np.array([0.7649, 0.7407, 0.7176, 0.6998, 0.6828])
"""Third quartile of Student's t for each of `DEGREES`: the median of its absolute value."""
ASYMMETRY = 3.0
"""The bad side's scale is at most this many times the good side's, and at least this part of it: of an
exponential distribution, as skewed as noise gets, the quartiles lie 1.7 times as far from the median on one
side as on the other, and scales of a few dozen units differ by chance too."""
POOLED, PRIOR_METRICS = 10, 3.0
"""Steps of EM of the prior over degrees of freedom, and the metrics as which knowing nothing counts: a heavy
tail among light ones then needs odds of a dozen metrics to three at most, which its own few hundred values
give where it is one."""
SMALL, IN_NOISE = 0.01, 4.0
"""Loss below which sick units are no more numerous than at it, and the same in median distances of the good
side: what is lost within the noise is no fault that anybody can tell."""
LEAST_SICK, POOLED_UNITS = 0.005, 50.0
"""Least share of the bad side that counts as sick where a limit is drawn, and the units of the whole fleet
that count beside a metric's own: that a metric had no sick units yet does not say that it never has any."""
FLOOR = 2e-4
"""Least scale: differences of a hundredth of a percent mean nothing."""
STILL = 1e-3
"""Units that differ by less tell nothing of the shape of noise: rounding and steps make what is seen."""
STEPS = 25
"""Steps of EM: twice as many move the share of the sick by less than a tenth of itself."""
MOST_SICK = 0.7
"""Largest share of the bad side that may be sick: with a third of all units sick half of it is, and beyond
this nobody can say which group is healthy."""
HALF = 0.5
"""Units are taken for healthy ones from here on: likelier healthy than not."""
FEW = 4
"""Values come in steps where each of them is shared by this many units on average: measured ones hardly
repeat."""
TOGETHER = 16
"""Metrics that are fitted together: their arrays stay in the processor's cache."""
EXACT, BINS = 64, 64
"""Losses that count one by one, the largest; as many quantiles stand for all others."""

_LOG = np.array(
    [
        math.lgamma((v + 1) / 2) - math.lgamma(v / 2) - 0.5 * math.log(v * math.pi) + math.log(2)
        for v in DEGREES.tolist()
    ]
)


class HealthyNull(NamedTuple):
    """How the losses of the healthy units of one metric are spread."""

    middle: float  # signed loss of a typical unit, near 0
    scale: float  # scale on the bad side
    degrees: float  # degrees of freedom of the Student-t
    sick: float  # share of the bad side that is sick
    normal: float = 0.0  # chance that the noise is nearly normal, by all metrics
    expected: float = LEAST_SICK  # the share of the sick, shrunk towards that of all metrics
    doubt: float = 0.0  # relative standard error of the scale, by as many nodes as there are
    small: float = SMALL  # loss below which sick units are no more numerous than at it
    open: tuple[FloatArray, FloatArray] | None = None  # scales, chances by `DEGREES`

    def clear_of(self, chance: float) -> float:
        """Return the loss from which on a unit is a healthy one with this chance at most.

        That chance is the local false discovery rate (Efron 2004): the density of the healthy ones as a part
        of that of all units, the sick ones lying anywhere.
        """
        odds = chance / (1 - chance) * self.expected / (1 - self.expected)
        low, high = 0.0, 1.0
        for _ in range(40):  # halves the interval each time
            loss = (low + high) / 2
            if self._density(loss) > odds * float(_sick(loss, self.small)):
                low = loss
            else:
                high = loss
        return self.middle + high

    def _density(self, loss: float) -> float:
        """Return the density of healthy units at a loss, over all degrees of freedom that are left open."""
        scales, chances = self.open or (
            np.full(len(DEGREES), self.scale),
            np.where(self.degrees == DEGREES, 1.0, 0.0),
        )
        scales = scales * math.exp(self.doubt)
        kernel = np.log1p((loss / scales) ** 2 / DEGREES)
        return float(chances @ np.exp(_LOG - np.log(scales) - (DEGREES + 1) / 2 * kernel))

    def healthy(self, signed: FloatArray) -> FloatArray:
        """Return the chance of each unit (n,) to be one of the healthy; 0 for those left out (NaN)."""
        away = signed - self.middle
        chance = np.where(np.isnan(away), 0.0, 1.0)
        bad = away > 0
        if not self.sick:
            return chance
        log = _LOG[self.degrees == DEGREES][0]
        kernel = np.log1p((away[bad] / self.scale) ** 2 / self.degrees)
        dense = (1 - self.sick) * np.exp(log - (self.degrees + 1) / 2 * kernel) / self.scale
        chance[bad] = dense / (dense + self.sick * _sick(away[bad], self.small))
        return chance


def _sick(loss: FloatArray | float, small: FloatArray | float) -> FloatArray:
    """Return the density of the sick units' losses: even over their logarithms from a small loss on.

    Half a link's width costs a half, one throttled card in eight a few percent: small losses are more than
    large ones.
    """
    return np.asarray(1 / ((loss + small) * np.log1p(1 / small)))


def _small(inner: FloatArray | float) -> FloatArray:
    return np.asarray(np.maximum(SMALL, IN_NOISE * inner))


_Candidates = tuple[FloatArray, FloatArray, FloatArray]
"""Scale, share of the sick and log likelihood for each of `DEGREES`."""


class _Fit(NamedTuple):
    """What is found on the bad side of one metric; see `HealthyNull`."""

    scale: float
    degrees: float
    sick: float
    normal: float
    open: tuple[FloatArray, FloatArray] | None


class _Bad(NamedTuple):
    """What of one metric is on the bad side: points (k,) that weigh so much (k,), and what binds the fit."""

    points: FloatArray
    weight: FloatArray
    inner: float
    floor: float


def healthy_null(signed: FloatArray, bulk: BoolArray, floor: float = FLOOR) -> HealthyNull:
    """Fit the healthy part of the signed losses of one metric.

    Args:
        signed: Shape (n,), loss less gain of every unit against the centre, in [-1, 1]; NaN leaves one out.
        bulk: Shape (n,), units that were close enough to the centre to make it; at least one of them is in.
        floor: Least scale; more where values come in steps (`step_of`).
    """
    return healthy_nulls([(signed, bulk, floor)])[0]


def healthy_nulls(metrics: Iterable[tuple[FloatArray, BoolArray, float]]) -> list[HealthyNull]:
    """Fit the healthy parts of all metrics of one fleet, each as `healthy_null` takes it, in any order.

    Together they cost a third, and each learns from the others how heavy tails are there. Of each only
    what represents its losses is held, so that a generator needs no memory for all of them.
    """
    middles, asked = [], []
    for signed, bulk, floor in metrics:
        middle, away = _sides(signed, bulk)
        middles.append(middle)
        asked.append(
            _Bad(
                *_compressed(np.sort(away[away > 0])),
                float(np.median(-away[away <= 0])) if (away <= 0).any() else 0.0,
                floor,
            )
        )
    order = [place for place, one in enumerate(asked) if len(one.points)]
    order.sort(key=lambda place: len(asked[place].points))  # those of a size together
    found: dict[int, _Candidates] = {}
    for start in range(0, len(order), TOGETHER):
        places = order[start : start + TOGETHER]
        found.update(zip(places, _fit([asked[place] for place in places]), strict=True))
    noisy = np.array(
        [asked[place].inner > max(asked[place].floor, STILL) for place in found], dtype=np.bool_
    )
    fits = dict(zip(found, _chosen(list(found.values()), noisy), strict=True)) if found else {}
    counts = [float(one.weight.sum()) for one in asked]
    units = sum(counts[place] for place in fits)
    pooled = sum(fits[place].sick * counts[place] for place in fits) / max(units, 1.0)
    nulls = []
    for place, (middle, one, count) in enumerate(zip(middles, asked, counts, strict=True)):
        # Of some nothing lies on the bad side.
        fit = fits.get(place, _Fit(one.floor, float(DEGREES[-1]), 0.0, 0.0, None))
        expected = (fit.sick * count + pooled * POOLED_UNITS) / (count + POOLED_UNITS)
        nulls.append(
            HealthyNull(
                middle=middle,
                scale=fit.scale,
                degrees=fit.degrees,
                sick=fit.sick,
                normal=fit.normal,
                expected=max(expected, LEAST_SICK),
                small=float(_small(one.inner)),
                open=fit.open,
            )
        )
    return nulls


def _sides(signed: FloatArray, bulk: BoolArray) -> tuple[float, FloatArray]:
    """Return the middle, and how far every known unit is on the bad side of it."""
    known = ~np.isnan(signed)
    within = signed[bulk & known]
    middle = float(np.median(within)) if len(within) else float(np.median(signed[known]))
    return middle, signed[known] - middle


def step_of(values: FloatArray) -> float:
    """Return the step in which single values come, relative to their median; 0 where they do not.

    A clock of whole microseconds shows 8 or 9 for what is 8.5: one step more or less is no loss.

    Args:
        values: Shape (n,), one value a unit.
    """
    distinct = np.unique(values)
    middle = float(np.median(values))
    if len(distinct) < 2 or len(distinct) * FEW > len(values) or middle <= 0:
        return 0.0
    return float(np.diff(distinct).min()) / middle


def _compressed(ordered: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return points and weights that stand for ascending losses: only the largest as they are."""
    if len(ordered) <= EXACT + BINS:
        return ordered, np.ones(len(ordered))
    body = ordered[:-EXACT]
    edges = np.linspace(0, len(body), BINS + 1).astype(np.int64)
    points = body[(edges[1:] + edges[:-1]) // 2]
    return (
        np.concatenate([points, ordered[-EXACT:]]),
        np.concatenate([np.diff(edges).astype(np.float64), np.ones(EXACT)]),
    )


def _fit(metrics: Sequence[_Bad]) -> list[_Candidates]:
    """Return scale and share of the sick by EM, and how likely they are, for each of `DEGREES`, one a metric.

    In every step the same arrays are filled anew, (metrics, degrees, points): a wide table has thousands of
    metrics, and making small arrays is what most of the time would go into.
    """
    longest = max(len(one.points) for one in metrics)
    squares, weight = np.zeros((len(metrics), longest)), np.zeros((len(metrics), longest))
    for place, one in enumerate(metrics):  # what is padded weighs nothing
        squares[place, : len(one.points)] = one.points**2
        weight[place, : len(one.points)] = one.weight
    inner, floor = (np.array(column)[:, None] for column in list(zip(*metrics, strict=True))[2:])
    total = weight.sum(axis=1, keepdims=True)
    reference = np.maximum(inner / QUARTILES, floor)
    low, high = np.maximum(reference / ASYMMETRY, floor), reference * ASYMMETRY
    scale, share = reference.copy(), np.full_like(reference, 0.05)  # anywhere to begin with
    kernel, own, chance = (np.empty((*reference.shape, longest)) for _ in range(3))
    power = (-(DEGREES + 1) / 2)[:, None]
    sick = _sick(np.sqrt(squares), _small(inner))[:, None, :]
    counts, heavy = weight[:, :, None], (weight * squares)[:, :, None]
    for _ in range(STEPS):
        np.multiply((1 / (DEGREES * scale**2))[:, :, None], squares[:, None, :], out=kernel)
        kernel += 1
        np.power(kernel, power, out=own)
        own *= ((1 - share) * np.exp(_LOG - np.log(scale)))[:, :, None]
        np.add(own, (share + 1e-300)[:, :, None] * sick, out=chance)
        np.divide(own, chance, out=chance)
        mass = (chance @ counts)[:, :, 0]
        chance /= kernel
        spread = (chance @ heavy)[:, :, 0] * ((DEGREES + 1) / DEGREES)
        scale = np.clip(np.sqrt(spread / np.maximum(mass, 1e-300)), low, high)
        share = np.clip(1 - mass / total, 0.0, MOST_SICK)
    likely = (np.log(own + share[:, :, None] * sick + 1e-300) @ counts)[:, :, 0]
    return list(zip(scale, share, likely, strict=True))


def _chosen(fits: Sequence[_Candidates], noisy: BoolArray) -> list[_Fit]:
    """Return the likeliest null of each metric.

    How many of the noisy metrics have which degrees of freedom is learned from all of them and is each one's
    prior; of others, whose units hardly differ, no shape is known.
    """
    likely = np.array([one[2] for one in fits])
    prior = np.full(len(DEGREES), 1 / len(DEGREES))
    for _ in range(POOLED):
        chance = _chances(likely, prior)
        prior = chance[noisy].sum(axis=0) + PRIOR_METRICS / len(DEGREES)
        prior /= prior.sum()
    best = (likely + noisy[:, None] * np.log(prior)).argmax(axis=1).tolist()
    chances = _chances(likely, prior)
    normal = np.where(noisy, chances[:, -1], 0.0).tolist()
    return [
        _Fit(float(scale[one]), float(DEGREES[one]), float(share[one]), chance, (scale, each))
        for (scale, share, _), one, chance, each in zip(fits, best, normal, chances, strict=True)
    ]


def _chances(likely: FloatArray, prior: FloatArray) -> FloatArray:
    """Return the chance of each of `DEGREES` (metrics, degrees) from log likelihoods and what is expected."""
    chance = np.exp(likely - likely.max(axis=1, keepdims=True)) * prior
    return np.asarray(chance / chance.sum(axis=1, keepdims=True))
