"""Telemetry of AMD cards from the kernel driver's sysfs files; no vendor library is needed.

Not tried on a card yet: the file names are those that the kernel documents for amdgpu.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass

from pytest_anubis.hardware.amd_errors import block_errors
from pytest_anubis.hardware.inventory.host_inventory import pci_address
from pytest_anubis.hardware.telemetry.host_sensors import (
    CYCLES,
    MEMORY_TEMPERATURE,
    POWER,
    POWER_CYCLES,
    SM_CLOCK,
    TEMPERATURE,
    THERMAL_CYCLES,
    UTILISATION,
    Reading,
)
from pytest_anubis.hardware.text_files import Files

_DRM = "/sys/class/drm"
_AMD = "0x1002"

# Sensor -> (files, the first that answers counts; divisor to its unit).
_SENSORS: dict[str, tuple[tuple[str, ...], float]] = {
    POWER: (("power1_average", "power1_input"), 1e6),
    SM_CLOCK: (("freq1_input",), 1e6),
    TEMPERATURE: (("temp2_input", "temp1_input"), 1e3),  # the hot spot, else the edge
    MEMORY_TEMPERATURE: (("temp3_input",), 1e3),
}

# The driver's table of metrics (kgd_pp_interface.h, gpu_metrics_v1_6 to v1_8: MI300 and later): version ->
# where its residencies begin, six numbers of 32 bits in this order; v1_7 has the memory's bandwidth before.
_RESIDENCIES = {(1, 6): 32, (1, 7): 40, (1, 8): 40}
_RESIDENCY_NAMES = (
    CYCLES,
    f"{THERMAL_CYCLES}processor (cycles)",
    POWER_CYCLES,
    f"{THERMAL_CYCLES}socket (cycles)",
    f"{THERMAL_CYCLES}voltage regulator (cycles)",
    f"{THERMAL_CYCLES}memory (cycles)",
)
_UNKNOWN = 0xFFFFFFFF  # what the driver puts where the card has nothing


@dataclass(frozen=True, slots=True)
class _Card:
    name: str
    device: str
    hwmon: str


class AmdSource:
    """Reads AMD cards; they are numbered by PCI address, as the driver's own tools do."""

    def __init__(self, files: Files | None = None) -> None:
        self._files = files or Files()
        self._cards: list[_Card] = []

    def open(self) -> None:
        """Find the cards."""
        found = []
        for entry in self._files.names(_DRM):
            device = f"{_DRM}/{entry}/device"
            if re.fullmatch(r"card\d+", entry) and self._files.text(f"{device}/vendor") == _AMD:
                found.append((pci_address(self._files, device) or entry, device))
        self._cards = [
            _Card(f"GPU {index}", device, self._hwmon(device))
            for index, (_, device) in enumerate(sorted(found))
        ]

    def read(self, counters: bool) -> Reading:
        """Read all cards."""
        values, counted = {}, {}
        lost: list[str] = []
        for card in self._cards:
            noted = len(self._files.unreadable)
            values[card.name] = self._values(card)
            if counters:
                counted[card.name] = self._counters(card)
            lost.extend(f"{card.name}: {note}" for note in self._files.unreadable[noted:])
            del self._files.unreadable[noted:]
        return Reading(values=values, counters=counted, lost=tuple(lost))

    def close(self) -> None:
        """Nothing is held."""

    def _hwmon(self, device: str) -> str:
        names = self._files.names(f"{device}/hwmon")
        return f"{device}/hwmon/{names[0]}" if names else device

    def _values(self, card: _Card) -> dict[str, float]:
        found: dict[str, float] = {}
        for name, (candidates, divisor) in _SENSORS.items():
            for candidate in candidates:
                value = self._files.integer(f"{card.hwmon}/{candidate}", name)
                if value is not None:
                    found[name] = value / divisor
                    break
        busy = self._files.integer(f"{card.device}/gpu_busy_percent", UTILISATION)
        if busy is not None:
            found[UTILISATION] = float(busy)
        return found

    def _counters(self, card: _Card) -> dict[str, int]:
        """Return the errors of every block, PCIe replays, and for how long clocks were held down."""
        found = block_errors(self._files, card.device)
        replays = self._files.integer(f"{card.device}/pcie_replay_count", "PCIe replays")
        if replays is not None:
            found["PCIe replays"] = replays
        found.update(residencies(self._metrics(card)))
        return found

    def _metrics(self, card: _Card) -> bytes:
        """Return the beginning of the driver's table; empty where there is none."""
        try:
            with self._files.path(f"{card.device}/gpu_metrics").open("rb") as file:
                return file.read(max(_RESIDENCIES.values()) + 4 * len(_RESIDENCY_NAMES))
        except OSError:  # older than the table, or not for this user: the other sensors say so too
            return b""


def residencies(table: bytes) -> dict[str, int]:
    """Return in how many cycles of the firmware something held the clocks down, so far.

    Args:
        table: The beginning of ``gpu_metrics``; of other versions nothing is known.
    """
    begin = _RESIDENCIES.get((table[2], table[3])) if len(table) >= 4 else None
    if begin is None or len(table) < begin + 4 * len(_RESIDENCY_NAMES):
        return {}
    values = struct.unpack_from(f"<{len(_RESIDENCY_NAMES)}I", table, begin)
    pairs = zip(_RESIDENCY_NAMES, values, strict=True)
    return {name: value for name, value in pairs if value != _UNKNOWN}
