"""Test marks of test bodies: thousands of trivial tests share the readings of the sensors."""

from __future__ import annotations

import threading

import pytest

from pytest_anubis.hardware.telemetry import telemetry_sampler as telemetry
from pytest_anubis.hardware.telemetry.host_sensors import Asked, Reading
from pytest_anubis.hardware.telemetry.telemetry_sampler import Telemetry


class Counted:
    """A source that counts how often it is asked for its counters."""

    def __init__(self) -> None:
        self.asked = 0
        self.sampled = threading.Event()

    def open(self) -> None:
        """Nothing to open."""

    def read(self, counters: Asked) -> Reading:
        """Count."""
        if counters:
            self.asked += 1
            return Reading(counters={"card": {"errors": self.asked}})
        self.sampled.set()
        return Reading(values={"card": {"power": 1.0}})

    def close(self) -> None:
        """Nothing to close."""


@pytest.fixture(autouse=True)
def no_counters_between(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read the counters for marks and requests alone."""
    monkeypatch.setattr(telemetry, "COUNTERS_EVERY", 1 << 30)


def test_tests_in_quick_succession_share_one_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telemetry, "FRESH", 1e6)
    source = Counted()
    with Telemetry([source], interval=0.001, log=None) as watch:
        for _ in range(200):
            watch.mark()
            watch.unmark()
        watch.since(watch.mark())
    assert source.asked == 2  # at the first mark, and when something was asked


def test_a_test_after_a_pause_has_a_reading_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telemetry, "FRESH", 0.0)
    source = Counted()
    with Telemetry([source], interval=0.001, log=None) as watch:
        for _ in range(5):
            watch.mark()
            watch.unmark()
        watch.since(watch.mark())
    assert source.asked == 7


def test_body_with_a_shared_reading_is_sampled() -> None:
    assert telemetry.LINGER > telemetry.FRESH
    source = Counted()
    with Telemetry([source], interval=0.001, log=None) as watch:
        watch.mark()
        watch.unmark()
        mark = watch.mark()
        for _ in range(2):  # the reading at the mark may not be stored yet
            source.sampled.clear()
            assert source.sampled.wait(30)
        assert watch.since(mark).series
