"""Telemetry of AMD cards from the kernel driver's sysfs files; no vendor library is needed.

Not tried on a card yet: the file names are those that the kernel documents for amdgpu.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from pytest_anubis.hardware.inventory.host_inventory import pci_address
from pytest_anubis.hardware.telemetry.host_sensors import (
    MEMORY_TEMPERATURE,
    POWER,
    SM_CLOCK,
    TEMPERATURE,
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


@dataclass(frozen=True, slots=True)
class _Card:
    name: str
    device: str
    hwmon: str


class AmdSource:
    """Reads AMD cards; they are numbered by PCI address, as the driver's own tools do.

    Args:
        addresses: Only the cards with these PCI addresses; None: all.
        files: Where /sys lies.
    """

    def __init__(
        self, addresses: Collection[str] | None = None, files: Files | None = None
    ) -> None:
        self._addresses = addresses
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
            for index, (address, device) in enumerate(sorted(found))
            if self._addresses is None or address in self._addresses
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
        """Return memory errors (lines ``ue: 0`` and ``ce: 3``) and PCIe replays."""
        found: dict[str, int] = {}
        text = self._files.text(f"{card.device}/ras/umc_err_count", "ECC errors") or ""
        for key, name in (("ue", "uncorrected ECC errors"), ("ce", "corrected ECC errors")):
            match = re.search(rf"^{key}:\s*(\d+)", text, re.MULTILINE)
            if match:
                found[name] = int(match[1])
        replays = self._files.integer(f"{card.device}/pcie_replay_count", "PCIe replays")
        if replays is not None:
            found["PCIe replays"] = replays
        return found
