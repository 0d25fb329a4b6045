"""What moved when a metric became worse: the sensor that stepped then, and none that did anything else."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_anubis.core.measurement import Measurement
from pytest_anubis.core.metric import Metric
from pytest_anubis.core.onset import ClockLimit, Onset, RaisedLimit, SensorMove
from pytest_anubis.core.sample import FloatArray
from pytest_anubis.validator.changes.onset_sensors import Moment, moved_at, onset_of
from pytest_anubis.validator.changes.segments import Segments, changes_of
from tests.validator.known import known

Series = dict[str, FloatArray]

RATE = Metric(name="rate", unit="GB/s", better="higher")
TIME = Metric(name="time", unit="ms", better="lower")
CLOCK, POWER, HEAT = "GPU 3 SM clock (MHz)", "GPU 3 power (W)", "GPU 3 temperature (°C)"
LIMITS = "GPU 3 throttle reasons"
HALF = Moment(begin=0, onset=0.5, end=1)
SEEDS = st.integers(0, 2**32 - 1)


def node(rng: np.random.Generator, count: int = 30, at: int = 15) -> Series:
    """Sensors of a card whose clock falls, of a host, and of a card that does nothing."""
    later = np.arange(count) >= at
    return {
        CLOCK: np.where(later, 1410.0, 1980.0) * (1 + rng.normal(0, 0.005, count)),
        POWER: np.where(later, 450.0, 700.0) * (1 + rng.normal(0, 0.04, count)),
        HEAT: 60 + 12 * (1 - np.exp(-np.arange(count) / 6)) + rng.normal(0, 0.3, count),
        LIMITS: np.where(later, 128.0 + 8, 0.0),
        "GPU 1 power (W)": rng.normal(90, 2, count),
        "host steal (%)": np.abs(rng.normal(0, 0.5, count)),
    }


def moved(series: Series, moment: Moment = HALF) -> Onset:
    telemetry = [(name, tuple(values.tolist())) for name, values in series.items()]
    return known(moved_at(telemetry, moment, number=22, count=44, size=0.12))


def measured(metric: Metric, values: FloatArray, series: Series) -> Measurement:
    telemetry = tuple((name, tuple(one.tolist())) for name, one in series.items())
    return Measurement(
        test="t",
        benchmark="b",
        component="c",
        metric=metric,
        device="cuda:3",
        values=tuple(values.tolist()),
        telemetry=telemetry,
    )


@given(SEEDS)
def test_the_clock_that_fell_is_named(seed: int) -> None:
    found = moved(node(np.random.default_rng(seed)))
    sensor = known(found.sensor)
    assert (sensor.part, sensor.quantity, sensor.unit) == ("GPU 3", "SM clock", "MHz")
    assert sensor.before == pytest.approx(1980, rel=0.02)
    assert sensor.after == pytest.approx(1410, rel=0.02)
    assert found.limits == (RaisedLimit(part="GPU 3", limit=ClockLimit.POWER_BRAKE),)


@given(SEEDS)
def test_shuffled_telemetry_names_nothing(seed: int) -> None:
    rng = np.random.default_rng(seed)
    found = moved({name: rng.permutation(values) for name, values in node(rng).items()})
    assert (found.sensor, found.limits) == (None, ())
    assert found.compared == 6


@given(SEEDS, st.sampled_from([15, 30, 200]), st.floats(0.2, 0.8), st.floats(-40, 40))
def test_a_trend_is_not_named(seed: int, count: int, onset: float, rise: float) -> None:
    rng, time = np.random.default_rng(seed), np.linspace(0, 1, count)
    even = 60 + rise * time + rng.normal(0, 0.3, count)
    slowing = 60 + rise * (1 - np.exp(-5 * time)) + rng.normal(0, 0.3, count)
    moment = Moment(begin=0, onset=onset, end=1)
    assert moved({HEAT: even}, moment).sensor is None
    assert moved({HEAT: slowing}, moment).sensor is None


@pytest.mark.parametrize("onset", [0.2, 0.75])
def test_a_step_elsewhere_is_not_named(onset: float) -> None:
    moment = Moment(begin=0, onset=onset, end=1)
    found = moved(node(np.random.default_rng(1), 40, 20), moment)
    assert (found.sensor, found.limits) == (None, ())


def test_a_limit_is_not_blamed_on_the_hardware_too() -> None:
    later = np.arange(30) >= 15
    for bits, limit in (
        *((0x40 | 0x08, ClockLimit.HEAT), (0x08, ClockLimit.HARDWARE)),
        *((0x04, ClockLimit.POWER_LIMIT), (0x80, ClockLimit.POWER_BRAKE)),
    ):
        found = moved({LIMITS: np.where(later, float(bits), 0.0)})
        assert [one.limit for one in found.limits] == [limit]
    always = moved({LIMITS: np.full(30, 128.0)})
    assert always.limits == ()


def test_a_percentage_may_begin_at_zero() -> None:
    later = np.arange(30) >= 15
    assert moved({"host steal (%)": np.where(later, 0.5, 0.0)}).sensor is None
    found = moved({"host steal (%)": np.where(later, 30.0, 0.0)})
    assert found.sensor == SensorMove(
        part="host", quantity="steal", unit="%", before=0.0, after=30.0
    )


def test_readings_that_are_too_few_are_no_fact() -> None:
    assert moved_at([(CLOCK, [1980.0] * 11)], HALF, number=1, count=9, size=0.1) is None
    assert moved_at([(CLOCK, [1980.0] * 12)], HALF, number=1, count=9, size=0.1) is not None


@pytest.mark.parametrize(("metric", "factor"), [(RATE, 0.4), (TIME, 2.5)])
def test_slow_values_take_their_share_of_time(metric: Metric, factor: float) -> None:
    rng = np.random.default_rng(5)
    values = 100 * np.exp(rng.normal(0, 0.005, 60))
    values[30:] *= factor
    # Half of the work is done after 2 of 7 parts of the time.
    sensors = node(rng, 70, 20)
    found = changes_of(one := measured(metric, values, sensors))
    onset = known(onset_of(one, found))
    assert (onset.number, onset.count) == (31, 60)
    assert known(onset.sensor).quantity == "SM clock"


def test_the_end_of_a_change_is_known() -> None:
    values = np.tile([100.0, 101.0], 60)
    values[40:80] *= 0.8
    found = changes_of(one := measured(RATE, values, node(np.random.default_rng(5), 60, 20)))
    onset = known(onset_of(one, found))
    assert onset.number == 41
    assert onset.until == pytest.approx(80, abs=2)
    values[80:] *= 0.8
    found = changes_of(one := measured(RATE, values, node(np.random.default_rng(5), 60, 20)))
    onset = known(onset_of(one, found))
    assert (onset.number, onset.until) == (41, 0)


def test_a_ramp_has_no_moment() -> None:
    rng = np.random.default_rng(7)
    values = np.linspace(100, 70, 120) * np.exp(rng.normal(0, 0.01, 120))
    one = measured(TIME, values[::-1].copy(), node(rng))
    found = changes_of(one)
    assert known(found.change).kind == "ramp"
    assert onset_of(one, found) is None
    assert onset_of(one, Segments(count=120)) is None
