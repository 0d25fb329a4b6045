"""Test the disturbances found during tests that take their values themselves, even short ones."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pytest_anubis.hardware.load import ambient_load, disturbance
from pytest_anubis.hardware.load.ambient_load import FRESH, MAX_AGE, MIN_SPAN, AmbientLoad
from pytest_anubis.hardware.load.host_load import Load


class Machine:
    """A clock, and others who use so many CPUs from a moment on."""

    def __init__(self) -> None:
        self.now, self.others, self.busy = 100.0, 0.0, 50.0
        self.reads: list[float] = []
        self.quota = None

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.busy += self.others * seconds

    def read(self) -> Load:
        self.reads.append(self.now)
        return Load(when=self.now, busy=self.busy, steal=0.0, own=10.0, stalls={})


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine()
    clock = SimpleNamespace(monotonic=lambda: machine.now, sleep=machine.sleep)
    monkeypatch.setattr(ambient_load, "time", clock)
    monkeypatch.setattr(ambient_load, "LoadReader", lambda root: machine)
    monkeypatch.setattr(disturbance, "usable_cpus", lambda: 2)
    return machine


BUSY = ("other processes used 1.8 of 2 cores",)


def test_early_value_is_compared_with_the_time_before(machine: Machine) -> None:
    """Without this, an early value counted as quiet and could reject a healthy node."""
    ambient = AmbientLoad()
    ambient.begin()
    machine.others = 2.0
    machine.sleep(2 * FRESH)
    begin = ambient.begin()
    machine.sleep(0.01)
    (found,) = ambient.since(begin)
    assert found.startswith("other processes used ")
    assert machine.now == 100.0 + 2 * FRESH + 0.01  # nothing was waited for


@pytest.mark.parametrize("before", [0.0, 10 * MAX_AGE])
def test_without_an_earlier_reading_it_waits(machine: Machine, before: float) -> None:
    ambient = AmbientLoad()
    if before:
        ambient.begin()
        machine.sleep(before)
    machine.others = 2.0
    begin = ambient.begin()
    machine.sleep(0.01)
    assert ambient.since(begin) == BUSY
    assert machine.now == pytest.approx(100.0 + before + MIN_SPAN)


def test_many_metrics_recorded_at_once_are_one_reading(machine: Machine) -> None:
    ambient = AmbientLoad()
    begin = ambient.begin()
    machine.sleep(2 * MIN_SPAN)
    for _ in range(20):
        assert ambient.since(begin) == ()
    assert len(machine.reads) == 2
    machine.others = 2.0
    machine.sleep(2 * MIN_SPAN)
    assert ambient.since(begin) != ()


def test_a_clock_that_stands_still_is_not_waited_for(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    ambient = AmbientLoad()
    begin = ambient.begin()
    waited: list[float] = []
    monkeypatch.setattr(
        ambient_load, "time", SimpleNamespace(monotonic=lambda: -1e9, sleep=waited.append)
    )
    ambient.since(begin)
    assert waited == [MIN_SPAN]
