"""Find which sensor or counter stepped, and which clock limit came on, when a metric became worse.

It explains a change within a run, or between the cycles of a soak, and decides nothing. A slow ramp has no
such moment. A sensor moved at the moment if

1. its own strongest change (rank statistic, Pettitt 1979) is near it,
2. the step exceeds the noise on both sides, and fits better than a straight line,
3. a hypergeometric test is significant after a Bonferroni correction over all sensors.

A counter moved if it rises faster from then on. `cycle_steps`, `run_comparisons` and `sample_verdicts` use
it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pytest_anubis.core.measurement import Measurement
from pytest_anubis.core.metric import Metric
from pytest_anubis.core.onset import (
    CLOCK_REASONS,
    COUNTED,
    HW_SLOWDOWN,
    HW_THERMAL,
    POWER_BRAKE,
    SW_POWER_CAP,
    SW_THERMAL,
    ClockLimit,
    Onset,
    RaisedLimit,
    SensorMove,
    series_words,
)
from pytest_anubis.core.sample import FloatArray
from pytest_anubis.validator.changes.segments import MAX_VALUES, Segments
from pytest_anubis.validator.similarity.rank_tests import hypergeometric_tail, mean_ranks

MIN_SAMPLES = 12
"""Fewest readings that are compared: with fewer, perfect order is no surprise among several sensors."""
MIN_SIDE = 4
"""Fewest readings on either side of the moment: their median withstands one outlier."""
NEAR = 0.1
"""Largest distance between the moment and a sensor's step, as a share of the readings. Values have no times:
they are placed by their share of the duration, which pauses and dropped values shift a little."""
MIN_NEAR = 2
"""The same in readings, since a reading shows a clock up to 0.2 s late."""
CLEAR = 4.0
"""A step must exceed this many standard deviations of either side's readings. A steady ramp gives 3.2."""
LINE = 0.5
"""Largest share of a straight line's squared residuals that a step may leave. A step of `CLEAR` in the middle
of the readings leaves just this."""
NOISE_FLOOR = 0.01
"""Smallest noise of a sensor, relative to its readings: a step of less than 4 % explains no loss of 5 %."""
PERCENT_FLOOR = 1.0
"""The same of a sensor in percent, whose readings may be 0, in points."""
CHANCE = 0.05
"""Chance that any sensor is named where none has to do with the change; it only informs."""
DECILES = 2.563
"""Standard deviations of normal values between their first and last decile."""
MAX_COUNTED = 32
"""Most intervals into which a counter's time is divided. Events come irregularly, so a few long intervals
show smaller changes of their rate; even half as many place the change in time well enough."""
RARE, OFTEN = 0.1, 0.5
"""A limit came on if at most this share of the readings had it before, and at least that share since."""

_LIMITS = (
    (ClockLimit.POWER_LIMIT, SW_POWER_CAP, 0),
    (ClockLimit.HEAT, SW_THERMAL | HW_THERMAL, 0),
    (ClockLimit.POWER_BRAKE, POWER_BRAKE, 0),
    (ClockLimit.HARDWARE, HW_SLOWDOWN, SW_THERMAL | HW_THERMAL | POWER_BRAKE),
)
"""Limit, its bits, bits that explain it otherwise."""

Series = Iterable[tuple[str, Sequence[float]]]
"""Names and readings of sensors, such as `Measurement.telemetry`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """The place of a change, as shares of the duration: what is searched, and where the change begins."""

    begin: float
    onset: float
    end: float


@dataclass(frozen=True, slots=True)
class _Step:
    before: float
    after: float
    size: float  # in standard deviations of its noise
    chance: float


def onset_of(measurement: Measurement, found: Segments) -> Onset | None:
    """Return the begin of the abrupt change that was found in a measurement, joined to its sensors.

    It is None for a ramp, which has no moment, and if no sensor was read often enough.
    """
    change = found.change
    if change is None or change.kind != "step":
        return None
    # Neither values nor readings carry times. Readings are taken at equal intervals, so the share of the
    # readings is the share of the time; a value's share of the time follows from its rate.
    ends = _ends(measurement.metric, np.asarray(measurement.values, dtype=np.float64))
    moment = Moment(
        begin=float(ends[found.warmup]),
        onset=float(ends[change.onset]),
        end=float(ends[change.until]),
    )
    onset = moved_at(
        measurement.telemetry,
        moment,
        number=change.onset + 1,
        count=found.count,
        size=change.size,
    )
    if onset is None or change.until >= found.count:
        return onset
    return replace(onset, until=change.until)


def _ends(metric: Metric, values: FloatArray) -> FloatArray:
    """Return the share of the time that had passed before each value, and 1 after the last, shape (n + 1,).

    Rounds have equal work, so a slower one takes longer; values of other kinds count as equally long.
    """
    seconds = np.ones(len(values))
    if metric.is_duration and values.min() > 0:
        seconds = values
    elif metric.is_rate and values.min() > 0:
        seconds = 1 / values
    return np.concatenate([[0.0], np.cumsum(seconds) / seconds.sum()])


def moved_at(
    telemetry: Series, moment: Moment, *, number: int, count: int, size: float
) -> Onset | None:
    """Return what moved at a moment; None if no sensor was read often enough.

    Readings of sensors and rates of counters are in equal intervals over the whole duration. Number, count
    and size are those of the `Onset`.
    """
    sensors: list[tuple[SensorMove, _Step]] = []
    limits: list[tuple[RaisedLimit, _Step]] = []
    compared = trials = 0
    for name, readings in telemetry:
        part, quantity, unit = series_words(name)
        cut = _cut(readings, moment, unit)
        if cut is None:
            continue
        compared += 1
        for kind, series in _columns(quantity, cut[0]):
            if series.min() == series.max():
                continue
            trials += 1
            step = _step(series, cut[1], unit)
            if step is None:
                continue
            if kind is None:
                move = SensorMove(
                    part=part, quantity=quantity, unit=unit, before=step.before, after=step.after
                )
                sensors.append((move, step))
            elif step.before <= RARE and step.after >= OFTEN:
                limits.append((RaisedLimit(part=part, limit=kind), step))
    if not compared:
        return None
    on = tuple(one for one, step in limits if step.chance * trials <= CHANCE)
    sure = [
        (move, step.size)
        for move, step in sensors
        if step.chance * trials <= CHANCE and not _is_limit(move, on)
    ]
    return Onset(
        number=number,
        count=count,
        size=size,
        compared=compared,
        sensor=max(sure, key=lambda pair: pair[1])[0] if sure else None,
        limits=on,
    )


def _is_limit(move: SensorMove, limits: Iterable[RaisedLimit]) -> bool:
    """Return whether a counter shows only how long one of the limits was on."""
    return move.unit in COUNTED and any(
        move.part == one.part and move.quantity.startswith(one.limit) for one in limits
    )


def _cut(readings: Sequence[float], moment: Moment, unit: str) -> tuple[FloatArray, float] | None:
    """Return the readings of the searched time and the moment's place in them; None if they are too few."""
    series = np.asarray(readings, dtype=np.float64)
    first = math.floor(moment.begin * len(series))
    last = math.ceil(moment.end * len(series))
    at, series = moment.onset * len(series) - first, series[first:last]
    if len(series) < MIN_SAMPLES or not np.isfinite(series).all():
        return None
    if min(at, len(series) - at) < MIN_SIDE - MIN_NEAR:
        return None
    most, middle = (MAX_COUNTED, np.mean) if unit in COUNTED else (MAX_VALUES, np.median)
    width = -(-len(series) // most)
    whole = len(series) // width * width
    return np.asarray(middle(series[:whole].reshape(-1, width), axis=1)), at / width


def _columns(quantity: str, series: FloatArray) -> Iterator[tuple[ClockLimit | None, FloatArray]]:
    """Yield the readings themselves; of the limits of a clock, whether each of them was on."""
    if quantity != CLOCK_REASONS:
        yield None, series
        return
    bits = np.clip(series, 0, 2**53).astype(np.int64)
    for limit, own, others in _LIMITS:
        yield limit, (((bits & own) != 0) & ((bits & others) == 0)).astype(np.float64)


def _step(series: FloatArray, at: float, unit: str) -> _Step | None:
    """Return the step of a sensor at a place; None if it moves elsewhere, gradually, or hardly at all.

    A counter explains a loss only if it rises faster: slow work has fewer errors a second, too.
    """
    count = len(series)
    near = max(MIN_NEAR, math.ceil(NEAR * count))
    places = np.arange(MIN_SIDE, count - MIN_SIDE + 1)
    excess = np.cumsum(mean_ranks(series))[places - 1] - places * (count + 1) / 2
    split = int(places[np.argmax(np.abs(excess) / np.sqrt(places * (count - places)))])
    if abs(split - at) > near:
        return None
    sides = series[:split], series[split:]
    before, after = (float(np.median(side)) for side in sides)
    if series.max() <= 1 and series.min() >= 0 and not unit:  # on or off
        before, after = (float(side.mean()) for side in sides)
        noise = NOISE_FLOOR
    else:
        spread = max(float(np.ptp(np.quantile(side, (0.1, 0.9)))) / DECILES for side in sides)
        floor = NOISE_FLOOR * max(abs(before), abs(after))
        noise = max(spread, PERCENT_FLOOR if unit.startswith("%") else floor)
    if unit in COUNTED and after < before:
        return None
    if noise <= 0 or abs(after - before) <= CLEAR * noise or _rises_evenly(series, split):
        return None
    higher = series > (before + after) / 2
    if after < before:
        higher = ~higher
    tail = hypergeometric_tail(int(higher[split:].sum()), count, int(higher.sum()), count - split)
    chance = tail * 2 * (2 * near + 1)  # either direction, every place that is near
    return _Step(before, after, abs(after - before) / noise, chance)


def _rises_evenly(series: FloatArray, split: int) -> bool:
    """Return whether a straight line leaves less than twice as much unexplained as a step."""
    time = np.arange(len(series), dtype=np.float64)
    time -= time.mean()
    level = series - series.mean()
    slope = float(time @ level) / float(time @ time)
    step = sum(float(side.var()) * len(side) for side in (series[:split], series[split:]))
    return step > LINE * float(((level - slope * time) ** 2).sum())
