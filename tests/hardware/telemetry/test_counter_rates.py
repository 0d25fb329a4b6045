"""Counters during a measurement: how fast they rose, and since when."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from pytest_anubis.core.onset import Onset, SensorMove
from pytest_anubis.hardware.telemetry import telemetry_sampler
from pytest_anubis.hardware.telemetry.host_sensors import HOST, Asked, Reading
from pytest_anubis.hardware.telemetry.measurement_envelope import make_envelope
from pytest_anubis.hardware.telemetry.nvidia_sensors import NvidiaSource
from pytest_anubis.hardware.telemetry.recorded_node import RecordedSource
from pytest_anubis.hardware.telemetry.telemetry_sampler import Telemetry
from pytest_anubis.session.measuring.conditions import joined, recorded
from pytest_anubis.validator.changes.onset_sensors import Moment, moved_at
from tests.hardware.fake_nvml import FakeNvml

REPLAYS, HEAT = 94, 269  # NVML's fields
SECONDS, EVERY = 20.0, 0.4


class Clock:
    """A clock that only the reader of a card moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


def counted(name: str, count: Callable[[float], float], part: str = "GPU 3") -> list[Reading]:
    steps = round(SECONDS / EVERY) + 1
    return [Reading(counters={part: {name: int(count(i * EVERY))}}) for i in range(steps)]


def series_of(readings: list[Reading]) -> dict[str, tuple[float, ...]]:
    samples = [(i * EVERY, one) for i, one in enumerate(readings)][1:-1]
    for i in range(1, len(samples)):  # with samples of the sensors alone in between
        samples.insert(2 * i - 1, (samples[2 * i - 2][0] + EVERY / 2, Reading()))
    first, last = readings[0], readings[-1]
    found = make_envelope(first, samples, last, seconds=SECONDS, counted=("GPU 3",))
    return dict(found.series)


def onset(series: dict[str, tuple[float, ...]]) -> Onset | None:
    return moved_at(
        series.items(), Moment(begin=0, onset=0.5, end=1), number=22, count=42, size=0.1
    )


def test_a_counter_that_rises_from_half_way_on_is_named() -> None:
    series = series_of(counted("PCIe replays", lambda t: 41 * max(0.0, t - SECONDS / 2)))
    assert [*series] == ["GPU 3 PCIe replays (/s)"]
    found = onset(series)
    assert found is not None
    assert found.sensor is not None
    assert (found.sensor.part, found.sensor.quantity, found.sensor.unit, found.sensor.before) == (
        *("GPU 3", "PCIe replays", "/s", 0.0),
    )
    assert found.sensor.after == pytest.approx(41, rel=0.05)


OTHERS: dict[str, Callable[[float], float]] = {
    "rises throughout": lambda t: 41 * t,
    "rises ever faster": lambda t: 4 * t * t,
    "one burst is no rate": lambda t: 900 * (t > SECONDS / 2),
    "slow work has fewer errors": lambda t: 41 * min(t, SECONDS / 2),
    "rises earlier": lambda t: 41 * max(0.0, t - SECONDS / 4),
    "did not change": lambda _: 7,
}


@pytest.mark.parametrize("how", OTHERS)
def test_any_other_counter_is_not(how: str) -> None:
    found = onset(series_of(counted("PCIe replays", OTHERS[how])))
    assert found is not None
    assert (found.compared, found.sensor) == (1, None)


def test_nanoseconds_and_cycles_are_shares_of_the_time() -> None:
    ns = series_of(counted("power brake (ns)", lambda t: 3e8 * max(0.0, t - SECONDS / 2)))
    found = onset(ns)
    assert found is not None
    assert found.sensor == SensorMove(
        part="GPU 3", quantity="power brake", unit="% of the time", before=0, after=30
    )
    cycles = [
        Reading(counters={"GPU 3": {"firmware (cycles)": 50 * i, "socket (cycles)": 20 * i}})
        for i in range(51)
    ]
    (values,) = series_of(cycles).values()
    assert values == pytest.approx([40.0] * 50)


def test_a_reset_the_host_and_energy_have_no_rate() -> None:
    reset = series_of(counted("replays", lambda t: 500 if t < SECONDS / 2 else 0))
    assert [*map(any, reset.values())] == [False]
    assert series_of(counted("errors", lambda t: t, HOST)) == {}
    assert not any("/s" in name for name in series_of(counted("energy (mJ)", lambda t: t)))


def test_late_readings_do_not_change_a_rate() -> None:
    times = [0.0, 0.4, 0.8, 2.0, 2.4, 2.8, 3.9, 4.0]
    read = [(t, Reading(counters={"GPU 3": {"replays": round(100 * t)}})) for t in times]
    first, last = read[0][1], read[-1][1]
    found = make_envelope(first, read[1:-1], last, seconds=4.0, counted=("GPU 3",))
    ((_, values),) = found.series
    assert values == pytest.approx([100.0] * 10)


def test_only_what_changed_is_recorded_and_looks_keep_its_place() -> None:
    still, moved = ("GPU 3 replays (/s)", (0.0, 0.0)), ("GPU 3 replays (/s)", (0.0, 9.0))
    idle = ("GPU 3 utilisation (%)", (0.0, 0.0))
    assert recorded((still, idle)) == (idle,)
    assert recorded(joined([(still, idle), (moved, idle)])) == (
        ("GPU 3 replays (/s)", (0.0, 0.0, 0.0, 9.0)),
        ("GPU 3 utilisation (%)", (0.0,) * 4),
    )


def sampled(
    monkeypatch: pytest.MonkeyPatch, counts: dict[int, Callable[[float], float]]
) -> dict[str, tuple[float, ...]]:
    """Sample a card of a stand-in for NVML for ten of its seconds, however slow this machine is."""
    clock, fake = Clock(), FakeNvml(1, links=0)
    begun, enough = threading.Event(), threading.Event()
    monkeypatch.setattr(telemetry_sampler, "time", clock)
    # A reading takes all the time there is.
    monkeypatch.setattr(telemetry_sampler, "COST_SHARE", 1e9)

    class Card(NvidiaSource):
        def read(self, counters: Asked) -> Reading:
            if begun.is_set() and clock.now < 10:
                clock.now += 0.2
            fake.fields |= {field: int(count(clock.now)) for field, count in counts.items()}
            if clock.now >= 10:
                enough.set()
            return super().read(counters)

    with Telemetry([Card(module=fake)], interval=0.001, log=None) as telemetry:
        with telemetry.around() as around:
            begun.set()
            assert enough.wait(30)
        return dict(around.envelope.series)


def test_counters_of_a_card_are_read_during_a_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    found = onset(sampled(monkeypatch, {REPLAYS: lambda t: 200 * max(0.0, t - 5)}))
    assert found is not None
    assert found.sensor is not None
    assert (found.sensor.quantity, found.sensor.before) == ("PCIe replays", 0)
    even = onset(sampled(monkeypatch, {REPLAYS: lambda t: 200 * t, HEAT: lambda t: 1e8 * t}))
    assert even is not None
    assert even.sensor is None


@pytest.mark.parametrize("wanted", [(), ("GPU 1",), ("GPU 9",)])
def test_only_counters_of_the_cards_under_test_are_read_meanwhile(
    wanted: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(telemetry_sampler, "COST_SHARE", 1e9)
    seen: list[Asked] = []
    enough = threading.Event()

    class Node(RecordedSource):
        def read(self, counters: Asked) -> Reading:
            seen.append(counters)
            if len(seen) == 20:
                enough.set()
            return Reading(counters={part: {"errors": 7} for part in (HOST, "GPU 0", "GPU 1")})

    with Telemetry([Node(())], interval=0.01, log=None) as telemetry:
        telemetry.counted = wanted
        with telemetry.around() as around:
            assert enough.wait(30)
    cards = {"GPU 1"} if wanted == ("GPU 1",) else {"GPU 0", "GPU 1"}
    assert seen[0] is True
    assert {*map(tuple, filter(None, map(sorted_parts, seen[1:20])))} == {tuple(sorted(cards))}
    assert {name.partition(" errors")[0] for name, _ in around.envelope.series} == cards


def sorted_parts(counters: Asked) -> list[str]:
    return [] if isinstance(counters, bool) else sorted(counters)


def test_counters_that_are_slow_to_read_are_read_less_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, enough = Clock(), threading.Event()
    asked: list[Asked] = []
    monkeypatch.setattr(telemetry_sampler, "time", clock)

    class Slow(NvidiaSource):
        def read(self, counters: Asked) -> Reading:
            clock.now += 0.001 if counters else 0.0
            asked.append(counters)
            if len(asked) == 100:
                enough.set()
            return Reading(counters={"GPU 0": {"errors": 7}})

    source = Slow(module=FakeNvml(1))
    with Telemetry([source], interval=0.001, log=None) as telemetry, telemetry.around():
        assert enough.wait(30)
    assert sum(map(bool, asked[:100])) == 1 + 4  # a twentieth of the time
