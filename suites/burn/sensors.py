"""What an accelerator tells of itself under load: clock, power, temperature and energy."""

from __future__ import annotations

import contextlib
import importlib
import statistics
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


EVERY = 0.2
"""Seconds between two readings: one takes a millisecond, and cards count their energy ten times a second."""


class Watch:
    """Reads a card's sensors now and then while it is under load.

    Args:
        device: The card.
        now: The clock.
    """

    def __init__(self, device: torch.device, now: Callable[[], float] = time.monotonic) -> None:
        self._device, self._now = device, now
        self._readings: list[tuple[float, dict[str, float]]] = []

    def look(self) -> None:
        """Read, unless that was just done."""
        moment = self._now()
        if not self._readings or moment - self._readings[-1][0] >= EVERY:
            self._readings.append((moment, read_card(self._device)))

    def told(self) -> dict[str, float]:
        """Return ``clock`` (median, MHz), ``temperature`` (highest, °C), ``power`` (mean, W), as far as told.

        The power is that of the counted energy where there are two readings of it: what drivers call the
        power is often the mean of some past second.
        """
        series: dict[str, list[tuple[float, float]]] = {}
        for moment, reading in self._readings:
            for name, value in reading.items():
                series.setdefault(name, []).append((moment, value))
        told = {
            name: summary([value for _, value in series[name]])
            for name, summary in SUMMARIES.items()
            if name in series
        }
        counted = series.get("energy", [])
        if len(counted) > 1 and counted[-1][1] > counted[0][1]:
            (begin, first), (end, last) = counted[0], counted[-1]
            told["power"] = (last - first) / (end - begin)
        return told


SUMMARIES: dict[str, Callable[[list[float]], float]] = {
    "clock": statistics.median,
    "temperature": max,
    "power": statistics.fmean,
}
"""What is said of several readings of a sensor."""


def read_card(device: torch.device) -> dict[str, float]:
    """Return what a card tells: ``clock`` (MHz), ``power`` (W), ``temperature`` (°C), ``energy`` (J so far).

    What it does not tell is left out: all of it on a device that is none of `torch.cuda`'s.
    """
    import torch

    if device.type != "cuda":
        return {}
    questions: dict[str, Callable[[], float]] = {
        "clock": lambda: torch.cuda.clock_rate(device),
        "power": lambda: _power(device),
        "temperature": lambda: torch.cuda.temperature(device),
        "energy": lambda: _energy(device),
    }
    told: dict[str, float] = {}
    for name, ask in questions.items():
        # A library that is missing, a driver that refuses, a card without the sensor: each its own error.
        with contextlib.suppress(Exception):
            told[name] = float(ask())
    return told


def _power(device: torch.device) -> float:
    """Return the watts that a card draws.

    Raises:
        ValueError: The card does not tell: torch says 0 where AMD's library has no number.
    """
    import torch

    drawn = float(torch.cuda.power_draw(device))
    if not drawn:
        raise ValueError("no power told")
    return drawn if torch.version.hip is not None else drawn / 1e3  # AMD's is in W, NVIDIA's in mW


def _energy(device: torch.device) -> float:
    """Return the joules that NVIDIA's driver has counted for a card."""
    import torch

    library: Any = importlib.import_module("pynvml")
    library.nvmlInit()
    uuid: Any = torch.cuda.get_device_properties(device).uuid
    card = library.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}")
    return float(library.nvmlDeviceGetTotalEnergyConsumption(card)) / 1e3  # in mJ
