"""The meter of one card: by its name, in SI units, and never longer than its deadline."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from pytest_anubis.hardware.telemetry.card_meter import CardMeter
from tests.hardware.fake_nvml import FakeNvml

UUID = "3b5f"
MILLIJOULES = 1_234_500
INSTANT = 186


def cards(**answers: Any) -> FakeNvml:
    """Return cards that know their names and energies; number 1 is the one that is asked for."""
    fake = FakeNvml()
    fake.answers |= {
        "nvmlDeviceGetHandleByUUID": lambda uuid: {f"GPU-{UUID}": 1}[uuid],
        "nvmlDeviceGetTotalEnergyConsumption": lambda card: card * MILLIJOULES,
        **answers,
    }
    return fake


def with_fields(fake: FakeNvml, fields: dict[int, int]) -> FakeNvml:
    """Let the cards have only these field values."""

    def values(card: int, wanted: list[tuple[int, int]]) -> list[Any]:
        return [
            SimpleNamespace(
                nvmlReturn=0 if one in fields else pynvml.NVML_ERROR_NOT_SUPPORTED,
                valueType=1,
                value=pynvml.c_nvmlValue_t(uiVal=fields.get(one, 0)),
            )
            for one, _ in wanted
        ]

    fake.nvmlDeviceGetFieldValues = values  # type: ignore[attr-defined]
    return fake


def test_energy_of_the_card_of_that_name_in_joules() -> None:
    assert CardMeter(UUID, cards()).energy() == MILLIJOULES / 1e3


def test_power_is_instantaneous_if_the_card_has_it() -> None:
    meter = CardMeter(UUID, with_fields(cards(), {INSTANT: 702_000}))
    assert meter.load() == (1900.0, 702.0)
    older = CardMeter(UUID, with_fields(cards(), {}))
    assert older.load() == (1900.0, 640.0)


@pytest.mark.parametrize("call", ["nvmlDeviceGetTotalEnergyConsumption", "nvmlDeviceGetClockInfo"])
def test_what_a_card_does_not_have_is_none(call: str) -> None:
    fake = cards()
    fake.failing = (call, pynvml.NVML_ERROR_NOT_SUPPORTED)
    meter = CardMeter(UUID, fake)
    assert (meter.energy() is None) is (call == "nvmlDeviceGetTotalEnergyConsumption")
    assert (meter.load() is None) is (call == "nvmlDeviceGetClockInfo")


@pytest.mark.parametrize("code", [pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, pynvml.NVML_ERROR_UNKNOWN])
def test_missing_library_or_card_gives_no_readings(code: int) -> None:
    absent = cards()
    absent.init = code
    other = cards()
    other.failing = ("nvmlDeviceGetHandleByUUID", pynvml.NVML_ERROR_NOT_FOUND)
    for fake in (absent, other):
        assert CardMeter(UUID, fake).energy() is None
    assert CardMeter("unknown", cards()).load() is None


def test_card_that_hangs_costs_one_deadline() -> None:
    never = threading.Event()
    asked: list[int] = []

    def hang(card: int) -> int:
        asked.append(card)
        never.wait()
        return 0

    meter = CardMeter(UUID, cards(nvmlDeviceGetTotalEnergyConsumption=hang), deadline=0.2)
    assert [meter.energy() for _ in range(3)] == [None, None, None]
    assert meter.load() is None
    assert asked == [1]
    never.set()
