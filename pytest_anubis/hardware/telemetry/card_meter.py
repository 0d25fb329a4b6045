"""Read clock, power and energy of one NVIDIA card for a benchmark while the card works.

Like all telemetry, the readings are taken in a separate thread: a card that hangs in its driver costs the
measurement one deadline and is not read again. `device_parameters` uses it.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from functools import cache
from typing import Any

from pytest_anubis.hardware.inventory.nvml import Nvml

DEADLINE = 5.0
"""Seconds within which the card must answer; it usually takes a millisecond, and longer to open the
library."""

_CLOCK_SM = 1
_FIELD_POWER_INSTANT = 186


class CardMeter:
    """A meter of one card.

    Args:
        uuid: The card's UUID, without NVML's ``GPU-``.
        module: NVML bindings; default ``pynvml``.
        deadline: Seconds to wait for an answer.
    """

    def __init__(self, uuid: str, module: Any = None, *, deadline: float = DEADLINE) -> None:
        self._uuid = uuid
        self._nvml = Nvml(module)
        self._deadline = deadline
        self._handle: Any = None
        self._dead = False
        self._requests: queue.SimpleQueue[Callable[[], Any]] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        threading.Thread(target=self._serve, name="anubis-card-meter", daemon=True).start()

    def energy(self) -> float | None:
        """Return the joules that the card has used since its driver was loaded; None if not counted."""
        found = self._asked(lambda: self._ask("nvmlDeviceGetTotalEnergyConsumption"))
        return None if found is None else float(found) / 1e3

    def load(self) -> tuple[float, float] | None:
        """Return the present clock (MHz) and power (W); None if one of them cannot be read."""
        found = self._asked(lambda: (self._ask("nvmlDeviceGetClockInfo", _CLOCK_SM), self._power()))
        return None if found is None or None in found else (float(found[0]), float(found[1]) / 1e3)

    def _power(self) -> Any:
        """Return the present power in mW; on older cards the average of the last second."""
        (instant,) = self._nvml.fields(self._handle, [(_FIELD_POWER_INSTANT, 0)])
        return self._ask("nvmlDeviceGetPowerUsage") if instant is None else instant

    def _ask(self, call: str, *arguments: Any) -> Any:
        return self._nvml.ask(call, [], call, self._handle, *arguments)

    def _asked(self, question: Callable[[], Any]) -> Any:
        if self._dead:
            return None
        self._requests.put(question)
        try:
            return self._answers.get(timeout=self._deadline)
        except queue.Empty:
            self._dead = True
            return None

    def _serve(self) -> None:
        try:
            self._nvml.__enter__()
            if self._nvml.present:
                by_name = "nvmlDeviceGetHandleByUUID"
                self._handle = self._nvml.ask("card", [], by_name, f"GPU-{self._uuid}")
        except Exception:  # vendor libraries raise anything; without a handle all readings are None
            self._handle = None
        while True:
            question = self._requests.get()
            try:
                self._answers.put(None if self._handle is None else question())
            except Exception:  # as above
                self._answers.put(None)


@cache
def meter_of(uuid: str) -> CardMeter:
    """Return this process's meter of a card."""
    return CardMeter(uuid)
