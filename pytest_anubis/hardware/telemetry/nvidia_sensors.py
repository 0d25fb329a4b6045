"""Telemetry of NVIDIA cards: sensors many times a second, counters before and after a measurement."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from pytest_anubis.hardware.inventory.nvml import Nvml
from pytest_anubis.hardware.telemetry.host_sensors import (
    MEMORY_CLOCK,
    MEMORY_TEMPERATURE,
    POWER,
    REASONS,
    SM_CLOCK,
    TEMPERATURE,
    UTILISATION,
    Reading,
)

# NVML's numbers; the bindings carry them under the same names in upper case.
_CLOCK_SM, _CLOCK_MEMORY = 1, 2
_SENSOR_GPU = 0
_FIELD_MEMORY_TEMPERATURE = 82
_POLICY_POWER, _POLICY_THERMAL = 0, 1
_LINK_ERRORS = (
    (0, "replays"),
    (1, "recoveries"),
    (2, "CRC errors (flits)"),
    (3, "CRC errors (data)"),
)
# Newer cards count link errors in fields that are scoped by the link instead.
_LINK_FIELDS = ((161, "replays"), (162, "recoveries"), (163, "CRC errors"))
_VALUE_NAMES = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")

THERMAL_NS = "thermal slowdown (ns)"
POWER_NS = "power limit slowdown (ns)"


class NvidiaSource:
    """Reads NVIDIA cards.

    Args:
        uuids: Only these cards; None: all.
        module: NVML bindings; default ``pynvml``.
    """

    def __init__(self, uuids: Collection[str] | None = None, module: Any = None) -> None:
        self._nvml = Nvml(module)
        self._uuids = uuids
        self._cards: list[tuple[str, Any, int]] = []
        self._broken: tuple[str, ...] = ()

    def open(self) -> None:
        """Open NVML and find the cards."""
        self._nvml.__enter__()
        notes = [*self._nvml.unreadable]
        if self._nvml.present:
            for index in range(self._nvml.ask("count", notes, "nvmlDeviceGetCount") or 0):
                name = f"GPU {index}"
                handle = self._nvml.ask(name, notes, "nvmlDeviceGetHandleByIndex", index)
                if handle is None:
                    continue
                uuid = self._nvml.ask("uuid", [], "nvmlDeviceGetUUID", handle)
                if self._uuids is None or uuid in self._uuids:
                    self._cards.append((name, handle, self._links(handle)))
        self._broken = tuple(notes)

    def close(self) -> None:
        """Close NVML."""
        self._cards = []
        self._nvml.__exit__()

    def read(self, counters: bool) -> Reading:
        """Read all cards."""
        lost = list(self._broken)
        values, counted, users = {}, {}, {}
        for name, handle, links in self._cards:
            notes: list[str] = []
            values[name] = self._values(handle, notes)
            if counters:
                counted[name] = self._counters(handle, links, notes)
                found = self._users(handle, notes)
                if found is not None:
                    users[name] = found
            lost.extend(f"{name}: {note}" for note in notes)
        return Reading(values=values, counters=counted, users=users, lost=tuple(lost))

    def _values(self, handle: Any, notes: list[str]) -> dict[str, float]:
        def ask(name: str, call: str, *arguments: Any) -> Any:
            return self._nvml.ask(name, notes, call, handle, *arguments)

        power = ask(POWER, "nvmlDeviceGetPowerUsage")
        used = ask(UTILISATION, "nvmlDeviceGetUtilizationRates")
        reasons = ask(REASONS, "nvmlDeviceGetCurrentClocksEventReasons")
        if reasons is None:  # its name before NVML 12.2
            notes[:] = [note for note in notes if not note.startswith(REASONS)]
            reasons = ask(REASONS, "nvmlDeviceGetCurrentClocksThrottleReasons")
        found = {
            POWER: power / 1000 if power is not None else None,
            SM_CLOCK: ask(SM_CLOCK, "nvmlDeviceGetClockInfo", _CLOCK_SM),
            MEMORY_CLOCK: ask(MEMORY_CLOCK, "nvmlDeviceGetClockInfo", _CLOCK_MEMORY),
            TEMPERATURE: ask(TEMPERATURE, "nvmlDeviceGetTemperature", _SENSOR_GPU),
            MEMORY_TEMPERATURE: self._field(handle, _FIELD_MEMORY_TEMPERATURE),
            UTILISATION: used.gpu if used is not None else None,
            REASONS: reasons,
        }
        return {name: float(value) for name, value in found.items() if value is not None}

    def _counters(self, handle: Any, links: int, notes: list[str]) -> dict[str, int]:
        def ask(name: str, call: str, *arguments: Any) -> Any:
            return self._nvml.ask(name, notes, call, handle, *arguments)

        rows = ask("remapped rows", "nvmlDeviceGetRemappedRows")
        found: dict[str, Any] = {
            "corrected ECC errors": ask("ECC errors", "nvmlDeviceGetTotalEccErrors", 0, 0),
            "uncorrected ECC errors": ask("ECC errors", "nvmlDeviceGetTotalEccErrors", 1, 0),
            "remapped rows": rows[0] + rows[1] if rows else None,
            "failed row remappings": int(bool(rows[3])) if rows else None,
            "PCIe replays": ask("PCIe replays", "nvmlDeviceGetPcieReplayCounter"),
        }
        for name, policy in ((THERMAL_NS, _POLICY_THERMAL), (POWER_NS, _POLICY_POWER)):
            violation = ask(name, "nvmlDeviceGetViolationStatus", policy)
            found[name] = int(violation.violationTime) if violation is not None else None
        for link in range(links):
            found.update(self._link_errors(handle, link, notes))
        return {name: int(value) for name, value in found.items() if value is not None}

    def _links(self, handle: Any) -> int:
        """Return how many NVLinks the card has."""
        for link in range(self._nvml.constant("NVML_NVLINK_MAX_LINKS", 36)):
            if self._nvml.ask("link", [], "nvmlDeviceGetNvLinkState", handle, link) is None:
                return link
        return self._nvml.constant("NVML_NVLINK_MAX_LINKS", 36)

    def _link_errors(self, handle: Any, link: int, notes: list[str]) -> dict[str, int]:
        found = {}
        for counter, name in _LINK_ERRORS:
            sensor = f"NVLink {link} {name}"
            call = "nvmlDeviceGetNvLinkErrorCounter"
            value = self._nvml.ask(sensor, notes, call, handle, link, counter)
            if value is not None:
                found[sensor] = int(value)
        if not found:
            for field, name in _LINK_FIELDS:
                value = self._field(handle, (field, link))
                if value is not None:
                    found[f"NVLink {link} {name}"] = int(value)
        return found

    def _field(self, handle: Any, field: int | tuple[int, int]) -> float | None:
        """Return one of NVML's field values, None where it has none."""
        answer = self._nvml.ask("field", [], "nvmlDeviceGetFieldValues", handle, [field])
        if not answer or answer[0].nvmlReturn != 0:
            return None
        kind = int(answer[0].valueType)
        if not 0 <= kind < len(_VALUE_NAMES):
            return None
        return float(getattr(answer[0].value, _VALUE_NAMES[kind]))

    def _users(self, handle: Any, notes: list[str]) -> tuple[int, ...] | None:
        call = "nvmlDeviceGetComputeRunningProcesses"
        found = self._nvml.ask("running processes", notes, call, handle)
        return tuple(sorted(int(p.pid) for p in found)) if found is not None else None
