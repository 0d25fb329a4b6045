"""Sensors of an accelerator under load: clock, power, temperature and energy."""

from __future__ import annotations

import contextlib
import importlib
import statistics
import time
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


EVERY = 0.2
"""Seconds between two readings of clock, power and temperature: one takes a millisecond."""

MOVES = 3
"""Times an energy counter has to move before power is computed: a line through two is their error."""


class Watch:
    """Reads a card's sensors now and then while it is under load, and its counter of energy at every look."""

    def __init__(self, device: torch.device, now: Callable[[], float] = time.monotonic) -> None:
        self._device, self._now = device, now
        self._counted: float | None = None
        self.begin()

    def begin(self) -> None:
        """Forget earlier readings, but not the energy counter's."""
        self._last: float | None = None
        self._readings: list[dict[str, float]] = []
        self._moved: list[tuple[float, float]] = []

    def look(self) -> None:
        """Read the counter; the other sensors too, unless that was just done."""
        moment = self._now()
        counted = read_energy(self._device)
        if counted is not None:
            if self._counted is not None and counted > self._counted:
                self._moved.append((moment, counted))
            self._counted = counted
        if self._last is None or moment - self._last >= EVERY:
            self._last = moment
            self._readings.append(read_card(self._device))

    def readings(self) -> dict[str, float]:
        """Return ``clock`` (median, MHz), ``temperature`` (highest, °C), ``power`` (mean, W), if known.

        The power is that of the counted energy where the card counts it: what drivers call the power is often
        the mean of some past second. A counter moves ten times a second, so that a reading between two moves
        is old by up to a tenth of the second under load. The moments at which a look found it moved are late
        by less than a batch each, and the line through them by far less.
        """
        found = {
            name: summary([reading[name] for reading in self._readings if name in reading])
            for name, summary in SUMMARIES.items()
            if any(name in reading for reading in self._readings)
        }
        if len(self._moved) >= MOVES:
            found["power"] = statistics.linear_regression(*zip(*self._moved, strict=True)).slope
        return found


SUMMARIES: dict[str, Callable[[list[float]], float]] = {
    "clock": statistics.median,
    "temperature": max,
    "power": statistics.fmean,
}
"""What is said of several readings of a sensor."""


def read_card(device: torch.device) -> dict[str, float]:
    """Return a card's readings: ``clock`` (MHz), ``power`` (W), ``temperature`` (°C).

    What it does not tell is left out: all of it on a device that is none of `torch.cuda`'s.
    """
    import torch

    if device.type != "cuda":
        return {}
    questions: dict[str, Callable[[], float]] = {
        "clock": lambda: torch.cuda.clock_rate(device),
        "power": lambda: _power(device),
        "temperature": lambda: torch.cuda.temperature(device),
    }
    found: dict[str, float] = {}
    for name, ask in questions.items():
        # A library that is missing, a driver that refuses, a card without the sensor: each its own error.
        with contextlib.suppress(Exception):
            found[name] = float(ask())
    return found


def _power(device: torch.device) -> float:
    """Return the watts that a card draws.

    Raises:
        ValueError: The card does not tell: torch says 0 where AMD's library has no number.
    """
    import torch

    drawn = float(torch.cuda.power_draw(device))
    if not drawn:
        raise ValueError("no power reading")
    return drawn if torch.version.hip is not None else drawn / 1e3  # AMD's is in W, NVIDIA's in mW


def read_energy(device: torch.device) -> float | None:
    """Return the joules that NVIDIA's driver has counted for a card; None where it does not count."""
    if device.type != "cuda":
        return None
    try:
        library, card = _counter(device)
        return float(library.nvmlDeviceGetTotalEnergyConsumption(card)) / 1e3  # in mJ
    except Exception:  # a library that is missing, a driver that refuses: each its own error
        return None


@cache
def _counter(device: torch.device) -> tuple[Any, Any]:
    """Return the library and its handle of a card: looked up once, as the counter is read at every look."""
    import torch

    library: Any = importlib.import_module("pynvml")
    library.nvmlInit()
    uuid: Any = torch.cuda.get_device_properties(device).uuid
    return library, library.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}")
