"""What cards tell of themselves under load: clock, heat, and the power of the energy that they count."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch

from pytest_anubis.benchmarking import applicability
from suites.burn import sensors, test_cards
from suites.burn.burner import BATCH
from tests.suites.stand_in_card import CARD


def test_sensors_say_clock_heat_and_the_mean_power(monkeypatch: pytest.MonkeyPatch) -> None:
    moments = iter((0.0, 0.1, 0.5, 1.0))  # the second look comes too soon
    told = iter(
        {"clock": clock, "temperature": heat, "power": power}
        for clock, heat, power in ((1500, 50, 600), (1400, 60, 750), (1300, 58, 750))
    )
    monkeypatch.setattr(sensors, "read_card", lambda _: next(told))
    watch = sensors.Watch(torch.device("cpu"), now=lambda: next(moments))
    for _ in range(4):
        watch.look()
    assert watch.readings() == {"clock": 1400, "temperature": 60, "power": 700.0}


@pytest.mark.parametrize("phase", [0.0, 0.013, 0.031, 0.05, 0.077, 0.099])
def test_power_of_the_counted_energy_has_not_the_grain_of_the_counter(
    monkeypatch: pytest.MonkeyPatch, phase: float
) -> None:
    now, grain, watts = 0.0, 0.1, 700.0
    monkeypatch.setattr(sensors, "read_card", lambda _: {"power": 1.0})
    monkeypatch.setattr(
        sensors, "read_energy", lambda _: 1e6 + watts * grain * math.floor((now + phase) / grain)
    )
    watch = sensors.Watch(CARD, now=lambda: now)
    while now < 1.0:
        watch.look()
        now += 1.07 * BATCH
    assert watch.readings()["power"] == pytest.approx(watts, rel=0.02)


def test_counter_that_stands_still_leaves_the_power_to_its_sensor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sensors, "read_card", lambda _: {"power": 512.0})
    monkeypatch.setattr(sensors, "read_energy", lambda _: 5e5)
    watch = sensors.Watch(CARD)
    for _ in range(5):
        watch.look()
    assert watch.readings() == {"power": 512.0}


def test_card_that_tells_nothing_is_none_the_worse(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> float:
        raise RuntimeError("not supported")

    monkeypatch.setattr(torch.cuda, "clock_rate", refuse)
    monkeypatch.setattr(torch.cuda, "temperature", refuse)
    monkeypatch.setattr(torch.cuda, "power_draw", lambda _: 512_000)
    monkeypatch.setattr(sensors, "_counter", refuse)
    assert sensors.read_energy(CARD) is None
    assert sensors.read_card(CARD) == {"power": 512.0}
    monkeypatch.setattr(torch.version, "hip", "6.4")
    monkeypatch.setattr(torch.cuda, "power_draw", lambda _: 512)  # AMD's in W
    assert sensors.read_card(CARD) == {"power": 512.0}
    monkeypatch.setattr(torch.cuda, "power_draw", lambda _: 0)  # its word for "not known"
    assert sensors.read_card(CARD) == {}
    assert sensors.read_card(torch.device("cpu")) == {}


@pytest.mark.parametrize(
    ("units", "taken"),
    [
        ({"float8_e4m3fn", "int8"}, "float8_e4m3fn"),
        ({"float8_e4m3fnuz", "int8"}, "float8_e4m3fnuz"),  # MI300
        ({"int8"}, "int8"),
    ],
)
def test_burn_of_8_bits_takes_the_floats_that_the_card_has_units_for(
    monkeypatch: pytest.MonkeyPatch, units: set[str], taken: str
) -> None:
    has: Callable[[torch.device, str], bool] = lambda _, dtype: dtype in units  # noqa: E731
    monkeypatch.setattr(applicability, "supports", has)
    assert test_cards.short_type() == taken
