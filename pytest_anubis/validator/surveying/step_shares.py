"""Attribute the loss of a duration, such as a training step's, to its measured parts (`Metric.part_of`).

It adds shares to FAIL and MARGINAL verdicts, in the test's call phase and in `anubis judge`, and changes no
outcome. The slowdown of a part is a factor that all parts share, times one of its own. The logarithm of the
common factor is a least-squares estimate, weighted by each part's noise; a factor is added only if that gains
more log likelihood than its price (`PRICE`). A short part has much noise, since it hardly slows the whole.
The intervals are of the bootstrap (Efron, "Bootstrap methods: another look at the jackknife", 1979) over the
rounds, those of whole and parts together, with the healthy spread of the criteria added. They take the set of
factors as given. `call_phase` and `collected_judging` use it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from pytest_anubis.core.baseline import Baseline, Criterion
from pytest_anubis.core.loss_shares import LossShare, StepShares
from pytest_anubis.core.measurement import Measurement
from pytest_anubis.core.sample import FloatArray, IntArray, Population
from pytest_anubis.core.verdict import MetricVerdict, Outcome
from pytest_anubis.validator.similarity.usable_rows import BoolArray

MATRIX, MEMORY, DISPATCH = "compute.matrix", "memory.bandwidth", "compute.dispatch"
COMPONENTS = {
    "time_matrix": MATRIX,
    "time_convolution": MATRIX,
    "time_pointwise": MEMORY,
    "time_normalisation": MEMORY,
    "time_embedding": MEMORY,
    "time_copy": MEMORY,
    "time_between": DISPATCH,
}
"""Part of a step -> the component that limits operations of its kind."""

PRICE = 4.5
"""Least price of a factor, in log likelihood: 3**2 / 2, so it must exceed three standard deviations."""
QUICKER = 3 * PRICE
"""The same of a part's own factor below 1, which is rarer: what slows all parts spares none."""
USUAL = 0.3
"""Scale of the Laplace prior of log factors, added to the price: one common factor costs less than many."""
FLOOR = 0.002
"""Share of the expected whole below which the change of a part is noise."""
DRAWS = 400
SEED = 41
MOST_ROUNDS = 500
"""Most rounds that the bootstrap draws from: every second, third and so on of more."""


_BAD = (Outcome.FAIL, Outcome.MARGINAL)

Unit = tuple[str, str]
"""A node and its hardware class."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedPart:
    """A time and what is expected of it."""

    name: str  # the metric
    values: Sequence[float]  # in the unit of the whole, in the order of the rounds
    expected: float  # median of a healthy unit
    spread: float = 0.0  # standard deviation of the logarithm of healthy units' medians


def with_step_shares(
    verdicts: Sequence[MetricVerdict],
    measurements: Iterable[Measurement],
    baseline: Baseline | None,
) -> list[MetricVerdict]:
    """Return the verdicts of one test, those on losses of wholes with the shares of their parts.

    Without a baseline nothing is explained.
    """
    measurements = list(measurements)
    return [_explained(one, measurements, baseline) for one in verdicts]


def with_collected_shares(
    verdicts: Mapping[Unit, Sequence[MetricVerdict]],
    populations: Iterable[Population],
    baselines: Mapping[str, Baseline],
) -> dict[Unit, tuple[MetricVerdict, ...]]:
    """Return the verdicts on collected nodes, as `with_step_shares` of each run; baselines are by class."""
    populations = list(populations)
    related: dict[tuple[str, str, str], list[Population]] = {}
    for one in populations:
        if whole := one.metric.part_of:
            related.setdefault((one.hardware_class, one.benchmark, whole), []).append(one)
    for one in populations:
        key = one.hardware_class, one.benchmark, one.metric.name
        if key in related:
            related[key].append(one)
    places = {
        key: [
            (
                one,
                {here: row for row, here in enumerate(one.units())},
            )
            for one in those
        ]
        for key, those in related.items()
    }
    found = {}
    for (node, of), own in verdicts.items():
        changed = list(own)
        for number, verdict in enumerate(own):
            unit = node, verdict.device, verdict.run
            samples = [
                one.measurement(rows[unit])
                for one, rows in places.get((of, verdict.benchmark, verdict.metric), ())
                if verdict.outcome in _BAD and unit in rows
            ]
            changed[number] = _explained(verdict, samples, baselines.get(of))
        found[node, of] = tuple(changed)
    return found


def _explained(
    verdict: MetricVerdict, measurements: Sequence[Measurement], baseline: Baseline | None
) -> MetricVerdict:
    """Return a verdict with the shares of the measured parts, if it is one on a loss and has parts."""
    if verdict.outcome not in _BAD or baseline is None:
        return verdict
    name = verdict.metric
    timed = {
        one.metric.name: _timed(one, baseline)
        for one in measurements
        if one.device == verdict.device and name in (one.metric.name, one.metric.part_of)
    }
    whole = timed.pop(name, None)
    if whole is None:
        return verdict
    found = step_shares(whole, filter(None, timed.values()))
    if found is None:
        return verdict
    return replace(verdict, shares=replace(found, left_out=len(timed) - len(found.parts)))


def _timed(measurement: Measurement, baseline: Baseline) -> TimedPart | None:
    """Return a measurement with its criterion; None without one of its variant."""
    name = measurement.metric.name
    criterion = baseline.find(measurement.benchmark, name, group=measurement.group)
    if criterion is None or criterion.metric.variant != measurement.metric.variant:
        return None
    return TimedPart(
        name=name,
        values=measurement.values,
        expected=criterion.typical,
        spread=_spread(criterion),
    )


def _spread(criterion: Criterion) -> float:
    """Return the spread of healthy medians; of too few, that of the criterion."""
    medians = np.array([one for one in criterion.medians if one > 0])
    return float(np.log(medians).std(ddof=1)) if len(medians) > 2 else criterion.spread


def step_shares(
    whole: TimedPart, parts: Iterable[TimedPart], components: Mapping[str, str] = COMPONENTS
) -> StepShares | None:
    """Return which parts carry the loss of a time; None if it is no longer than expected, or has no parts.

    A part that cannot be compared (no value, none above 0) is left out. `components` maps a part to the
    component that it points at.
    """
    parts = sorted((one for one in parts if _comparable(one)), key=lambda one: one.name)
    if not (parts and _comparable(whole) and np.median(whole.values) > whole.expected):
        return None
    every = [whole, *parts]
    expected = np.array([one.expected for one in every])
    spread = np.array([one.spread for one in every])
    level = np.array([math.log(np.median(one.values) / one.expected) for one in every])
    generator = np.random.default_rng(SEED)
    drawn = _drawn_levels(every, generator)
    floor = FLOOR * whole.expected / expected
    between = np.maximum(spread**2 - drawn.var(axis=0), 0)  # healthy medians scatter by rounds, too
    noise = np.sqrt(drawn.var(axis=0) + between + floor**2)
    # What the whole of a healthy unit deviates, all of its parts do.
    drawn += np.sqrt(between[0]) * generator.standard_normal((DRAWS, 1))
    own = np.sqrt(np.maximum(between - between[0], 0))
    drawn += own * generator.standard_normal(drawn.shape)

    factors = _factors_of(level[1:], noise[1:])
    commons = _commons(np.vstack([level, drawn])[:, 1:], noise[1:], factors)
    extra = _extra(np.vstack([level, drawn]), expected, commons, factors.own)
    shares = extra[0] / (expected[0] * math.expm1(level[0]))
    ordered = np.sort(_of_whole(extra[1:], drawn[:, 0], expected[0]), axis=0)
    low, high = ordered[DRAWS // 40], ordered[-1 - DRAWS // 40]
    common = commons[0]
    sizes = np.exp([common, *np.where(factors.own, level[1:] - common, 0.0)])
    found = [
        LossShare(
            metric=name,
            component=components.get(name, ""),
            factor=float(sizes[n]),
            share=float(shares[n]),
            low=float(low[n]),
            high=float(high[n]),
        )
        for n, name in enumerate(["", *(one.name for one in parts)])
    ]
    return StepShares(
        common=found[0],
        parts=tuple(sorted(found[1:], key=lambda one: -one.share)),
        lost=math.expm1(level[0]),
    )


def _comparable(one: TimedPart) -> bool:
    known = len(one.values) > 0 and math.isfinite(one.spread) and 0 < one.expected < math.inf
    return bool(known and np.isfinite(one.values).all() and np.median(one.values) > 0)


def _drawn_levels(every: Sequence[TimedPart], generator: np.random.Generator) -> FloatArray:
    """Return log(median / expected) of each time in rounds drawn with repetition, shape (draws, times)."""
    rounds: dict[int, IntArray] = {}
    levels = []
    for one in every:
        values = np.asarray(one.values, dtype=float)
        values = values[:: math.ceil(len(values) / MOST_ROUNDS)]
        if len(values) not in rounds:
            rounds[len(values)] = generator.integers(len(values), size=(DRAWS, len(values)))
        middles = np.median(values[rounds[len(values)]], axis=1)
        levels.append(np.log(np.maximum(middles / one.expected, 1e-6)))
    return np.column_stack(levels)


class _Factors(NamedTuple):
    """Whether all parts have a factor in common, and which have one of their own, shape (parts,)."""

    common: bool
    own: BoolArray


def _factors_of(level: FloatArray, noise: FloatArray) -> _Factors:
    """Return the factors that are worth their price; the common one is tried at each part's level."""
    candidates = np.array([0.0, *level])
    own = level - candidates[:, None]
    squares = (own / noise) ** 2 / 2
    prices = np.where(own < 0, QUICKER, PRICE) + np.abs(own) / USUAL
    costs = np.minimum(squares, prices).sum(axis=1)
    costs[1:] += PRICE + np.abs(candidates[1:]) / USUAL
    best = int(costs.argmin())
    return _Factors(best > 0, squares[best] > prices[best])


def _commons(levels: FloatArray, noise: FloatArray, factors: _Factors) -> FloatArray:
    """Return the logarithm of each row's common factor: the mean of the parts that have none of their own."""
    if not factors.common:
        return np.zeros(len(levels))
    weights = np.where(factors.own, 0.0, 1 / noise**2)
    return np.asarray(levels @ weights / weights.sum())


def _extra(
    levels: FloatArray, expected: FloatArray, commons: FloatArray, has_own: BoolArray
) -> FloatArray:
    """Return the extra times by the common factor and by each part's own, one row a row of levels."""
    whole, levels, expected = expected[0], levels[:, 1:], expected[1:]
    own = np.where(has_own, expected * (np.exp(levels) - np.exp(commons)[:, None]), 0.0)
    found = np.column_stack([expected.sum() * np.expm1(commons), own])
    # Parts that are waited for one by one may take longer together than the whole.
    return np.asarray(found * min(1.0, whole / expected.sum()))


def _of_whole(extra: FloatArray, level: FloatArray, expected: float) -> FloatArray:
    """Return extra times as shares of the whole's; they are infinite where the whole has lost nothing."""
    lost = np.maximum(expected * np.expm1(level), 0.0)
    with np.errstate(divide="ignore"):
        return np.divide(extra, lost[:, None], out=np.zeros_like(extra), where=extra != 0)
