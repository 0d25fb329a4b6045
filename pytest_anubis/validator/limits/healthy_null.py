"""Fit the healthy part of a metric's losses: a null distribution that sick units cannot widen.

The losses of a fleet come from two groups: healthy units, whose losses fall off on both sides of the centre,
and sick units, whose losses lie anywhere (`_sick`). The bulk determines the distribution of the healthy
units, an *empirical null* (Efron 2004, doi:10.1198/016214504000000089): half a Student-t on the bad side of
the centre. Its scale is within a factor of that of the good side, where faults have no effect. Its degrees
of freedom are bounded from below, so that no tail is heavier than noise. EM fits both together with the share
of the sick. The chance of a unit to be healthy is one less its local false discovery rate, and
`HealthyNull.clear_of` sets the loss from which a unit is looked at again.

A few hundred single values hardly distinguish a heavy healthy tail from a few sick units. But the metrics of
one fleet have similar noise, so the frequency of each degree of freedom over all metrics is the prior of each
metric (empirical Bayes: Efron and Morris 1973, doi:10.1080/01621459.1973.10481350). The good side says
nothing of the degrees of freedom: noise delays a measurement and does not speed it up, so the bad tail may be
the heavier one. With the good side included, more than 2 % of the sound machines were rejected in two of
twenty splits of real cloud machines (`docs/decisions.md`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from pytest_anubis.core.sample import FloatArray
from pytest_anubis.validator.similarity.usable_rows import BoolArray

DEGREES = np.array([3.0, 4.0, 6.0, 10.0, 30.0])
"""Degrees of freedom that are tried: below three a tail has no variance, thirty are nearly normal."""
QUARTILES = np.array([0.7649, 0.7407, 0.7176, 0.6998, 0.6828])
"""Third quartile of Student's t for each of `DEGREES`: the median of its absolute value."""
ASYMMETRY = 3.0
"""Largest ratio of the scales of both sides. In an exponential distribution, as skewed as noise gets, the
quartiles are 1.7 times as far from the median on one side as on the other, and scales of a few dozen units
also differ by chance."""
POOLED, PRIOR_METRICS = 10, 3.0
"""Steps of EM for the prior over degrees of freedom, and the number of metrics that its uniform start counts
as. A heavy tail among light ones then needs odds of at most a dozen metrics to three, which its own few
hundred values give."""
SMALL, IN_NOISE = 0.01, 4.0
"""Loss below which the density of sick units no longer rises, and the same in median distances of the good
side: faults within the noise cannot be recognised."""
MIN_SICK, POOLED_UNITS = 0.005, 50.0
"""Smallest share of the bad side that counts as sick when a limit is set, and the weight of the fleet's share
in units of a metric: a metric without sick units so far may have some later."""
FLOOR = 2e-4
"""Smallest scale: differences of a hundredth of a percent mean nothing."""
STILL = 1e-3
"""Differences below it show rounding and steps, not the shape of noise."""
STEPS = 25
"""Steps of EM; twice as many change the share of the sick by less than a tenth."""
MAX_SICK_OF_BAD_SIDE = 0.7
"""Largest share of the bad side that may be sick: half of it is sick if a third of all units are, and beyond
this either group may be the healthy one."""
HALF = 0.5
"""Chance to be healthy from which a unit counts as healthy."""
UNITS_PER_STEP = 4
"""Average number of units per distinct value from which values come in steps; measured values hardly
repeat."""
TOGETHER = 16
"""Metrics that are fitted together, so that their arrays stay in the processor's cache."""
EXACT, BINS = 64, 64
"""Number of largest losses that are used as they are, and of quantiles that replace all others."""

_LOG = np.array(
    [
        math.lgamma((v + 1) / 2) - math.lgamma(v / 2) - 0.5 * math.log(v * math.pi) + math.log(2)
        for v in DEGREES.tolist()
    ]
)


class HealthyNull(NamedTuple):
    """The distribution of the losses of one metric's healthy units."""

    middle: float  # signed loss of a typical unit, near 0
    scale: float  # scale on the bad side
    degrees: float  # degrees of freedom of the Student-t
    sick_share: float  # share of the bad side that is sick
    normal: float = 0.0  # chance that the noise is nearly normal, by all metrics
    shrunk_sick_share: float = MIN_SICK  # `sick_share`, shrunk towards that of all metrics
    # Relative standard error of `scale`, 1 / sqrt(nodes / 2); set by `healthy_tails`, else 0.
    doubt: float = 0.0
    small: float = SMALL  # loss below which sick units are no more numerous than at it
    by_degrees: tuple[FloatArray, FloatArray] | None = (
        None  # scale and chance for each of `DEGREES`
    )

    def clear_of(self, chance: float) -> float:
        """Return the loss from which a unit is healthy with at most this chance.

        The chance is the local false discovery rate (Efron 2004): the density of the healthy units as a part
        of that of all units.
        """
        odds = chance / (1 - chance) * self.shrunk_sick_share / (1 - self.shrunk_sick_share)
        low, high = 0.0, 1.0
        for _ in range(40):  # halves the interval each time
            loss = (low + high) / 2
            if self._density(loss) > odds * float(_sick(loss, self.small)):
                low = loss
            else:
                high = loss
        return self.middle + high

    def _density(self, loss: float) -> float:
        """Return the density of healthy units at a loss, over all possible degrees of freedom."""
        scales, chances = self.by_degrees or (
            np.full(len(DEGREES), self.scale),
            np.where(self.degrees == DEGREES, 1.0, 0.0),
        )
        scales = scales * math.exp(self.doubt)
        kernel = np.log1p((loss / scales) ** 2 / DEGREES)
        return float(chances @ np.exp(_LOG - np.log(scales) - (DEGREES + 1) / 2 * kernel))

    def healthy(self, signed: FloatArray) -> FloatArray:
        """Return the chance of each unit (n,) to be healthy; 0 for NaN."""
        away = signed - self.middle
        chance = np.where(np.isnan(away), 0.0, 1.0)
        bad = away > 0
        if not self.sick_share:
            return chance
        log = _LOG[self.degrees == DEGREES][0]
        kernel = np.log1p((away[bad] / self.scale) ** 2 / self.degrees)
        dense = (1 - self.sick_share) * np.exp(log - (self.degrees + 1) / 2 * kernel) / self.scale
        chance[bad] = dense / (dense + self.sick_share * _sick(away[bad], self.small))
        return chance


def _sick(loss: FloatArray | float, small: FloatArray | float) -> FloatArray:
    """Return the density of the sick units' losses: about 1 / loss, and flatter below a small loss.

    Small losses are more frequent than large ones: half a link's width costs a half, one throttled card of
    eight costs a few percent.
    """
    return np.asarray(1 / ((loss + small) * np.log1p(1 / small)))


def _small(inner: FloatArray | float) -> FloatArray:
    return np.asarray(np.maximum(SMALL, IN_NOISE * inner))


_Candidates = tuple[FloatArray, FloatArray, FloatArray]
"""Scale, share of the sick and log likelihood for each of `DEGREES`."""


class _Bad(NamedTuple):
    """The bad side of one metric: points (k,), their weights (k,), and the bounds of the fit."""

    points: FloatArray
    weight: FloatArray
    inner: float
    floor: float


def healthy_null(signed: FloatArray, bulk: BoolArray, floor: float = FLOOR) -> HealthyNull:
    """Fit the healthy part of the signed losses of one metric.

    Signed losses (n,) are loss less gain against the centre, in [-1, 1]; NaN is ignored. The bulk (n,) are
    the units close to the centre, at least one. The floor of the scale is larger if values come in steps
    (`step_of`).
    """
    return healthy_nulls([(signed, bulk, floor)])[0]


def healthy_nulls(metrics: Iterable[tuple[FloatArray, BoolArray, float]]) -> list[HealthyNull]:
    """Fit the healthy parts of all metrics of one fleet, each given as to `healthy_null`, in any order.

    Together they take a third of the time, and each learns from the others how heavy tails are. Only points
    that represent its losses stay in memory, so `metrics` may be a generator.
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
    order.sort(key=lambda place: len(asked[place].points))  # arrays of one size together
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
    pooled = sum(fits[place].sick_share * counts[place] for place in fits) / max(units, 1.0)
    nulls = []
    for place, (middle, one, count) in enumerate(zip(middles, asked, counts, strict=True)):
        # A metric may have nothing on the bad side.
        fit = fits.get(place, HealthyNull(0.0, one.floor, float(DEGREES[-1]), sick_share=0.0))
        shrunk = (fit.sick_share * count + pooled * POOLED_UNITS) / (count + POOLED_UNITS)
        nulls.append(
            fit._replace(
                middle=middle,
                shrunk_sick_share=max(shrunk, MIN_SICK),
                small=float(_small(one.inner)),
            )
        )
    return nulls


def _sides(signed: FloatArray, bulk: BoolArray) -> tuple[float, FloatArray]:
    """Return the middle, and every known unit's distance from it, positive on the bad side."""
    known = ~np.isnan(signed)
    within = signed[bulk & known]
    middle = float(np.median(within)) if len(within) else float(np.median(signed[known]))
    return middle, signed[known] - middle


def step_of(values: FloatArray) -> float:
    """Return the quantisation step of values (n,), one per unit, relative to their median; 0 without steps.

    A clock of whole microseconds shows 8 or 9 instead of 8.5, so one step is no loss.
    """
    distinct = np.unique(values)
    middle = float(np.median(values))
    if len(distinct) < 2 or len(distinct) * UNITS_PER_STEP > len(values) or middle <= 0:
        return 0.0
    return float(np.diff(distinct).min()) / middle


def _compressed(ordered: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return points and weights that represent ascending losses; the largest losses are unchanged."""
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
    """Return for each metric scale, share of the sick and log likelihood for each of `DEGREES`, by EM.

    Every step reuses the same arrays (metrics, degrees, points), since a wide table has thousands of metrics
    and creating small arrays would take most of the time.
    """
    longest = max(len(one.points) for one in metrics)
    squares, weight = np.zeros((len(metrics), longest)), np.zeros((len(metrics), longest))
    for place, one in enumerate(metrics):  # padding has no weight
        squares[place, : len(one.points)] = one.points**2
        weight[place, : len(one.points)] = one.weight
    inner, floor = (np.array(column)[:, None] for column in list(zip(*metrics, strict=True))[2:])
    total = weight.sum(axis=1, keepdims=True)
    reference = np.maximum(inner / QUARTILES, floor)
    low, high = np.maximum(reference / ASYMMETRY, floor), reference * ASYMMETRY
    scale, share = reference.copy(), np.full_like(reference, 0.05)  # an arbitrary start
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
        share = np.clip(1 - mass / total, 0.0, MAX_SICK_OF_BAD_SIDE)
    likely = (np.log(own + share[:, :, None] * sick + 1e-300) @ counts)[:, :, 0]
    return list(zip(scale, share, likely, strict=True))


def _chosen(fits: Sequence[_Candidates], noisy: BoolArray) -> list[HealthyNull]:
    """Return the likeliest null of each metric, about a middle of 0.

    The prior over degrees of freedom is learned from all noisy metrics. The shape of other metrics, whose
    units hardly differ, is unknown.
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
        HealthyNull(
            middle=0.0,
            scale=float(scale[one]),
            degrees=float(DEGREES[one]),
            sick_share=float(share[one]),
            normal=chance,
            by_degrees=(scale, each),
        )
        for (scale, share, _), one, chance, each in zip(fits, best, normal, chances, strict=True)
    ]


def _chances(likely: FloatArray, prior: FloatArray) -> FloatArray:
    """Return the chance of each of `DEGREES` (metrics, degrees) from log likelihoods and their prior."""
    chance = np.exp(likely - likely.max(axis=1, keepdims=True)) * prior
    return np.asarray(chance / chance.sum(axis=1, keepdims=True))
