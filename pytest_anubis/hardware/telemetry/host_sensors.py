"""Define telemetry's sources, readings and names of sensors, and read the host's sensors and counters."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from pytest_anubis.core.onset import CLOCK_REASONS
from pytest_anubis.hardware.inventory.host_inventory import edac_counts
from pytest_anubis.hardware.load.host_load import LoadReader, share_of_time
from pytest_anubis.hardware.text_files import Files

POWER = "power (W)"
SM_CLOCK = "SM clock (MHz)"
MEMORY_CLOCK = "memory clock (MHz)"
TEMPERATURE = "temperature (°C)"
MEMORY_TEMPERATURE = "memory temperature (°C)"
UTILISATION = "utilisation (%)"
REASONS = CLOCK_REASONS
FREQUENCY = "frequency (MHz)"
PRESSURE = "CPU pressure (%)"
STEAL = "steal (%)"
INLET = "inlet temperature (°C)"

# Counters that other modules use by name.
ENERGY = "energy (mJ)"
LIFETIME_ERRORS = "uncorrected ECC errors, lifetime"
FAILED_REMAPPING = "failed row remappings"
PENDING_REMAPPING = "row remappings pending"
RECOVERY_ACTION = "recovery action"

# Cycles of the firmware in all, and cycles in which the clocks were reduced.
CYCLES = "firmware (cycles)"
THERMAL_CYCLES = "thermal slowdown, "  # a prefix: the part of the card and " (cycles)" follow
POWER_CYCLES = "power limit slowdown (cycles)"

HOST = "host"

MAX_SAMPLED_CPUS = 16
"""Maximum number of CPUs whose frequency is read: reading interrupts a CPU, and hundreds of files take
milliseconds."""


Asked = bool | Collection[str]
"""The counters that are requested: all, none, or those of some parts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One reading of one source."""

    # Part -> quantity with its unit -> present value
    values: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    # Part -> name -> count so far; only if counters were requested
    counters: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    # Part -> ids of the processes that use it; only if counters were requested
    users: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    lost: tuple[str, ...] = ()  # sensors that did not answer, ``part: sensor: reason``


def asked(counters: Asked, part: str) -> bool:
    """Return whether the counters of a part are requested."""
    return counters if isinstance(counters, bool) else part in counters


class Source(Protocol):
    """A source of readings, used from one thread."""

    def open(self) -> None:
        """Prepare for reading; called in the thread that reads."""
        ...

    def read(self, counters: Asked) -> Reading:
        """Read all sensors, and the requested counters."""
        ...

    def close(self) -> None:
        """Release all resources."""
        ...


class HostSource:
    """Source of CPU frequency, temperature, steal and pressure, and counts of memory and heat events."""

    def __init__(self, files: Files | None = None) -> None:
        self._files = files or Files()
        self._load = LoadReader(self._files)
        self._cpus: list[str] = []
        self._sampled: list[str] = []
        self._thermal: list[str] = []
        self._inlet: list[str] = []
        self._before: tuple[float, float, float, float] | None = None

    def open(self) -> None:
        """Find the sensors."""
        names = self._files.names("/sys/devices/system/cpu")
        self._cpus = [name for name in names if re.fullmatch(r"cpu\d+", name)]
        step = max(1, len(self._cpus) // MAX_SAMPLED_CPUS)
        self._sampled = self._cpus[::step]
        self._thermal = self._temperature_files()
        self._inlet = self._inlet_files()

    def read(self, counters: Asked) -> Reading:
        """Read the host."""
        noted = len(self._files.unreadable)
        values = {**self._rates()}
        frequency = self._frequency()
        if frequency is not None:
            values[FREQUENCY] = frequency
        degrees = [self._files.integer(path, "temperature") for path in self._thermal]
        known = [value / 1000 for value in degrees if value is not None]
        if known:
            values[TEMPERATURE] = max(known)
        inlet = [self._files.integer(path, "inlet temperature") for path in self._inlet]
        if any(inlet):
            values[INLET] = max(value for value in inlet if value) / 1000
        counted = {HOST: self._counters()} if asked(counters, HOST) else {}
        lost = tuple(f"{HOST}: {note}" for note in self._files.unreadable[noted:])
        del self._files.unreadable[noted:]
        return Reading(values={HOST: values} if values else {}, counters=counted, lost=lost)

    def close(self) -> None:
        """Do nothing: no resources are held."""

    def _rates(self) -> dict[str, float]:
        """Return pressure and steal since the last reading, in percent of the wall time."""
        now, busy, steal, stalls = self._load.rates()
        before, self._before = self._before, (now, busy, steal, stalls)
        if before is None or now <= before[0]:
            return {}
        seconds = now - before[0]
        wanted = busy - before[1] + steal - before[2]
        return {
            PRESSURE: 100 * share_of_time(stalls - before[3], seconds),
            STEAL: 100 * share_of_time(steal - before[2], wanted),
        }

    def _frequency(self) -> float | None:
        """Return the mean frequency in MHz of some CPUs spread over all."""
        path = "/sys/devices/system/cpu/{}/cpufreq/scaling_cur_freq"
        if self._sampled and self._files.exists(path.format(self._sampled[0])):
            found = [self._files.integer(path.format(c), FREQUENCY) for c in self._sampled]
            khz = [value for value in found if value]
            return sum(khz) / len(khz) / 1000 if khz else None
        return None

    def _temperature_files(self) -> list[str]:
        base = "/sys/class/thermal"
        zones = [n for n in self._files.names(base) if n.startswith("thermal_zone")]
        return [f"{base}/{zone}/temp" for zone in zones]

    def _inlet_files(self) -> list[str]:
        """Return the sensors of the inlet air, found by their labels; few boards have one."""
        base = "/sys/class/hwmon"
        return [
            f"{base}/{chip}/{name.removesuffix('_label')}_input"
            for chip in self._files.names(base)
            for name in self._files.names(f"{base}/{chip}")
            if re.fullmatch(r"temp\d+_label", name)
            and re.search(
                r"\b(inlet|ambient)\b",
                self._files.text(f"{base}/{chip}/{name}", "label") or "",
                re.IGNORECASE,
            )
        ]

    def _counters(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for name, value in zip(
            ("corrected memory errors", "uncorrected memory errors"),
            edac_counts(self._files),
            strict=True,
        ):
            if value is not None:
                found[name] = value
        throttles = [
            self._files.integer(
                f"/sys/devices/system/cpu/{cpu}/thermal_throttle/core_throttle_count",
                "thermal throttling",
            )
            for cpu in self._cpus
        ]
        known = [value for value in throttles if value is not None]
        if known:
            found["thermal throttle events of the CPU"] = sum(known)
        return found
