"""Read telemetry of NVIDIA cards: sensors many times a second, counters less often."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from pytest_anubis.hardware.inventory.nvml import Nvml, field_value
from pytest_anubis.hardware.telemetry.host_sensors import (
    ENERGY,
    FAILED_REMAPPING,
    LIFETIME_ERRORS,
    MEMORY_CLOCK,
    MEMORY_TEMPERATURE,
    PENDING_REMAPPING,
    POWER,
    REASONS,
    RECOVERY_ACTION,
    SM_CLOCK,
    TEMPERATURE,
    UTILISATION,
    Asked,
    Reading,
    asked,
)

# NVML's numbers; the bindings carry them under the same names in upper case.
_CLOCK_SM, _CLOCK_MEMORY = 1, 2
_SENSOR_GPU = 0
_POLICY_POWER, _POLICY_THERMAL = 0, 1

# Fields, which one call of NVML reads together (nvml.h, NVML_FI_DEV_...). The first is the present power in
# mW; GetPowerUsage is a mean over a second on newer cards.
_POWER_INSTANT = 186
_MEMORY_TEMPERATURE = 82
_ENERGY = 83  # mJ since the driver was loaded
_RECOVERY_ACTION = 230  # the action that the driver requests; 0: none
_SAMPLED = (_POWER_INSTANT, _MEMORY_TEMPERATURE)
_COUNTED: dict[int, str] = {
    3: "corrected ECC errors",  # volatile: lost with the driver, so without persistence with every process
    4: "uncorrected ECC errors",
    6: LIFETIME_ERRORS,
    94: "PCIe replays",
    145: FAILED_REMAPPING,
    144: PENDING_REMAPPING,
    _RECOVERY_ACTION: RECOVERY_ACTION,
    _ENERGY: ENERGY,
}
_REMAPPED = (142, 143)
_POWER_CAP_NS = 74  # durations of the throttle reasons, in ns
_THERMAL_NS = 75
_THERMAL_PARTS_NS = (269, 270)  # by software, by hardware; newer drivers
_BRAKE_NS = 271
_LINK_ERRORS = (
    (0, "replays"),
    (1, "recoveries"),
    (2, "CRC errors (flits)"),
    (3, "CRC errors (data)"),
)
# Newer cards count link errors in fields scoped by the link; the newest cards use 214 and 215.
_LINK_FIELDS = (
    (161, "replays"),
    (162, "recoveries"),
    (163, "CRC errors"),
    (214, "failed recoveries"),
    (215, "recoveries"),
)
# Error of the whole call if the driver knows none of the requested fields.
_NO_SUCH_FIELD = "(NVML error 2)"
# Codes of a field that mean failure; with all others this card or driver does not have the field.
_FAILED = {10: "Timeout", 15: "GPU is lost", 16: "GPU requires reset"}

THERMAL_NS = "thermal slowdown (ns)"
POWER_NS = "power limit slowdown (ns)"
BRAKE_NS = "power brake (ns)"

Fields = dict[tuple[int, int], float]
"""(field, scope) -> value, without fields that the card does not have."""


class NvidiaSource:
    """Source of readings of NVIDIA cards.

    Args:
        uuids: UUIDs of the cards to read; None: all.
        module: NVML bindings; default ``pynvml``.

    Attributes:
        nvml: The library, open between `open` and `close`.
    """

    def __init__(self, uuids: Collection[str] | None = None, module: Any = None) -> None:
        self.nvml = self._nvml = Nvml(module)
        self._uuids = uuids
        self._cards: list[tuple[str, Any, tuple[int, ...]]] = []
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

    @property
    def handles(self) -> dict[str, Any]:
        """Card -> NVML's handle of it."""
        return {name: handle for name, handle, _ in self._cards}

    def close(self) -> None:
        """Close NVML."""
        self._cards = []
        self._nvml.__exit__()

    def read(self, counters: Asked) -> Reading:
        """Read all cards."""
        lost = list(self._broken)
        values, counted, users = {}, {}, {}
        for name, handle, links in self._cards:
            notes: list[str] = []
            values[name] = self._values(handle, notes)
            if asked(counters, name):
                counted[name] = self._counters(handle, links, notes)
                found = self._users(handle, notes)
                if found is not None:
                    users[name] = found
            lost.extend(f"{name}: {note}" for note in notes)
        return Reading(values=values, counters=counted, users=users, lost=tuple(lost))

    def _values(self, handle: Any, notes: list[str]) -> dict[str, float]:
        def ask(name: str, call: str, *arguments: Any) -> Any:
            return self._nvml.ask(name, notes, call, handle, *arguments)

        fields = self._fields(handle, [(field, 0) for field in _SAMPLED], notes)
        power = fields.get((_POWER_INSTANT, 0))
        if power is None:
            power = ask(POWER, "nvmlDeviceGetPowerUsage")
        used = ask(UTILISATION, "nvmlDeviceGetUtilizationRates")
        reasons = self._nvml.clock_reasons(REASONS, notes, handle)
        degrees = ask(TEMPERATURE, "nvmlDeviceGetTemperature", _SENSOR_GPU)
        if degrees is None:  # its name from CUDA 14 on
            degrees = ask(TEMPERATURE, "nvmlDeviceGetTemperatureV", _SENSOR_GPU)
        found = {
            POWER: power / 1000 if power is not None else None,
            SM_CLOCK: ask(SM_CLOCK, "nvmlDeviceGetClockInfo", _CLOCK_SM),
            MEMORY_CLOCK: ask(MEMORY_CLOCK, "nvmlDeviceGetClockInfo", _CLOCK_MEMORY),
            TEMPERATURE: degrees,
            MEMORY_TEMPERATURE: fields.get((_MEMORY_TEMPERATURE, 0)),
            UTILISATION: used.gpu if used is not None else None,
            REASONS: reasons,
        }
        return {name: float(value) for name, value in found.items() if value is not None}

    def _counters(self, handle: Any, links: Sequence[int], notes: list[str]) -> dict[str, int]:
        """Return all counters: fields from one call, the rest from single calls."""
        plain = (
            *(*_COUNTED, *_REMAPPED),
            *(_POWER_CAP_NS, _THERMAL_NS, *_THERMAL_PARTS_NS, _BRAKE_NS),
        )
        scoped = [(field, link) for link in links for field, _ in _LINK_FIELDS]
        fields = self._fields(handle, [*((field, 0) for field in plain), *scoped], notes)
        found: dict[str, float | None] = {
            name: fields.get((field, 0)) for field, name in _COUNTED.items()
        }
        rows = [fields[field, 0] for field in _REMAPPED if (field, 0) in fields]
        found["remapped rows"] = sum(rows) if rows else None
        self._ask_for_the_rest(handle, found, notes)
        thermal = [fields[field, 0] for field in _THERMAL_PARTS_NS if (field, 0) in fields]
        found[THERMAL_NS] = sum(thermal) if thermal else fields.get((_THERMAL_NS, 0))
        found[POWER_NS] = fields.get((_POWER_CAP_NS, 0))
        found[BRAKE_NS] = fields.get((_BRAKE_NS, 0))
        for name, policy in ((THERMAL_NS, _POLICY_THERMAL), (POWER_NS, _POLICY_POWER)):
            if found[name] is None:
                call = "nvmlDeviceGetViolationStatus"
                violation = self._nvml.ask(name, notes, call, handle, policy)
                found[name] = violation.violationTime if violation is not None else None
        for link in links:
            found.update(self._link_errors(handle, link, fields, notes))
        return {name: int(value) for name, value in found.items() if value is not None}

    def _ask_for_the_rest(
        self, handle: Any, found: dict[str, float | None], notes: list[str]
    ) -> None:
        """Read with single calls the counters that older drivers have no fields for."""

        def ask(name: str, call: str, *arguments: Any) -> Any:
            return self._nvml.ask(name, notes, call, handle, *arguments)

        for name, kind, since in (  # corrected or not; since the driver was loaded, or ever
            ("corrected ECC errors", 0, 0),
            ("uncorrected ECC errors", 1, 0),
            (LIFETIME_ERRORS, 1, 1),
        ):
            if found[name] is None:
                found[name] = ask("ECC errors", "nvmlDeviceGetTotalEccErrors", kind, since)
        if found["remapped rows"] is None or found[FAILED_REMAPPING] is None:
            rows = ask("remapped rows", "nvmlDeviceGetRemappedRows")
            if rows:
                found["remapped rows"] = rows[0] + rows[1]
                found[PENDING_REMAPPING] = int(bool(rows[2]))
                found[FAILED_REMAPPING] = int(bool(rows[3]))
        if found["PCIe replays"] is None:
            found["PCIe replays"] = ask("PCIe replays", "nvmlDeviceGetPcieReplayCounter")
        if found[ENERGY] is None:
            found[ENERGY] = ask(ENERGY, "nvmlDeviceGetTotalEnergyConsumption")

    def _links(self, handle: Any) -> tuple[int, ...]:
        """Return the NVLinks that are up; a link that is down has no counters."""
        up = []
        for link in range(self._nvml.constant("NVML_NVLINK_MAX_LINKS", 36)):
            state = self._nvml.ask("link", [], "nvmlDeviceGetNvLinkState", handle, link)
            if state is None:
                break
            up += [link] if state else []
        return tuple(up)

    def _link_errors(
        self, handle: Any, link: int, fields: Fields, notes: list[str]
    ) -> dict[str, float | None]:
        found: dict[str, float | None] = {}
        for field, name in _LINK_FIELDS:
            if (field, link) in fields:
                found.setdefault(f"NVLink {link} {name}", fields[field, link])
        if not found:
            for counter, name in _LINK_ERRORS:
                sensor = f"NVLink {link} {name}"
                call = "nvmlDeviceGetNvLinkErrorCounter"
                found[sensor] = self._nvml.ask(sensor, notes, call, handle, link, counter)
        return found

    def _fields(self, handle: Any, wanted: list[tuple[int, int]], notes: list[str]) -> Fields:
        """Return NVML's field values, in one call."""
        tried: list[str] = []
        answers = self._nvml.ask("fields", tried, "nvmlDeviceGetFieldValues", handle, wanted)
        notes += [note for note in tried if not note.endswith(_NO_SUCH_FIELD)]
        found: Fields = {}
        failed: set[int] = set()
        for key, answer in zip(wanted, answers or (), strict=False):
            value, code = field_value(answer), int(answer.nvmlReturn)
            if value is not None:
                found[key] = value
            elif code in _FAILED:
                failed.add(code)
        notes += [f"fields: {_FAILED[code]} (NVML error {code})" for code in sorted(failed)]
        return found

    def _users(self, handle: Any, notes: list[str]) -> tuple[int, ...] | None:
        call = "nvmlDeviceGetComputeRunningProcesses"
        found = self._nvml.ask("running processes", notes, call, handle)
        return tuple(sorted(int(p.pid) for p in found)) if found is not None else None
