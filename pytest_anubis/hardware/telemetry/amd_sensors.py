"""Read telemetry of AMD cards from the kernel driver's sysfs files, without a vendor library.

Not tried on a card yet: the file names are from the kernel's documentation of amdgpu.
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
    Asked,
    Reading,
    asked,
)
from pytest_anubis.hardware.text_files import Files

_DRM = "/sys/class/drm"
_AMD = "0x1002"

# Sensor -> (candidate files, of which the first readable one is used; divisor to its unit).
_SENSORS: dict[str, tuple[tuple[str, ...], float]] = {
    POWER: (("power1_average", "power1_input"), 1e6),
    SM_CLOCK: (("freq1_input",), 1e6),
    TEMPERATURE: (("temp2_input", "temp1_input"), 1e3),  # the hot spot, else the edge
    MEMORY_TEMPERATURE: (("temp3_input",), 1e3),
}

# The driver's table of metrics (kgd_pp_interface.h, gpu_metrics_v1_6 to v1_8: MI300 and later): version ->
# offset of its residencies, six numbers of 32 bits in this order. v1_7 has the memory's bandwidth first.
_RESIDENCIES = {(1, 6): 32, (1, 7): 40, (1, 8): 40}
_RESIDENCY_NAMES = (
    CYCLES,
    f"{THERMAL_CYCLES}processor (cycles)",
    POWER_CYCLES,
    f"{THERMAL_CYCLES}socket (cycles)",
    f"{THERMAL_CYCLES}voltage regulator (cycles)",
    f"{THERMAL_CYCLES}memory (cycles)",
)
_UNKNOWN = 0xFFFFFFFF  # the driver's value for a quantity that the card does not have


@dataclass(frozen=True, slots=True)
class _Card:
    name: str
    device: str
    hwmon: str


class AmdSource:
    """The AMD cards of this node, numbered by PCI address as in the driver's own tools."""

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

    def read(self, counters: Asked) -> Reading:
        """Read all cards."""
        values, counted = {}, {}
        lost: list[str] = []
        for card in self._cards:
            noted = len(self._files.unreadable)
            values[card.name] = self._values(card)
            if asked(counters, card.name):
                counted[card.name] = self._counters(card)
            lost.extend(f"{card.name}: {note}" for note in self._files.unreadable[noted:])
            del self._files.unreadable[noted:]
        return Reading(values=values, counters=counted, lost=tuple(lost))

    def close(self) -> None:
        """Do nothing: no resources are held."""

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
        """Return the errors of every block, PCIe replays, and for how long clocks were reduced."""
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
        except OSError:  # the driver has no such table, or this user may not read it
            return b""


def residencies(table: bytes) -> dict[str, int]:
    """Return the number of firmware cycles in which the clocks were reduced, by cause.

    Args:
        table: The beginning of ``gpu_metrics``; empty result for unknown versions.
    """
    begin = _RESIDENCIES.get((table[2], table[3])) if len(table) >= 4 else None
    if begin is None or len(table) < begin + 4 * len(_RESIDENCY_NAMES):
        return {}
    values = struct.unpack_from(f"<{len(_RESIDENCY_NAMES)}I", table, begin)
    pairs = zip(_RESIDENCY_NAMES, values, strict=True)
    return {name: value for name, value in pairs if value != _UNKNOWN}
