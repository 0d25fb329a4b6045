"""Read NVIDIA's cards for the inventory, through NVML."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from typing import Any

from pytest_anubis.core.inventory import Accelerator
from pytest_anubis.hardware.inventory.nvml import Nvml

_MAX_LINKS = 36
_DEFAULT_LIMIT = "nvmlDeviceGetPowerManagementDefaultLimit"

# NVML's numbers, in its own order.
_COMPUTE_MODES = ("default", "exclusive-thread", "prohibited", "exclusive-process")
_FABRIC_STATES = (None, "not started", "in progress", "completed")
_RECOVERY = (
    "none",
    "reset the card",
    "reboot the node",
    "drain peer-to-peer traffic, then reset the card",
    "drain and reset the card",
    "recover the IMEX domain",
    "reset the card by its bus",
    "reboot the system",
)
# Fields: speed and recoveries of one NVLink; recovery action that the driver requests.
_LINK_SPEED = 164
_LINK_RECOVERIES = 162
_RECOVERY_ACTION = 230
_OLDER_DRIVER = (
    "(NVML error 25)",
    "(NVML error 2)",
)  # the driver does not know the structure's version
_CLOCKS_SET = 0x2  # clock event reason: limited by application clocks or locked clocks

# Two bits each of the fabric's health: offset, and the meaning of 1 ("true").
_FABRIC_FAULTS = (
    (0, "degraded bandwidth"),
    (2, "route recovery under way"),
    (4, "unhealthy route"),
    (6, "recovery from an access time-out under way"),
)
_UNHEALTHY = 2  # value of newer drivers' summary, which may cover more faults than the mask
_CONFIGURATION_SHIFT = 8  # offset of four bits
_CONFIGURED = (0, 1)  # not supported; no configuration error

SILENT = "sensors"
"""The sensor's name in the note about a whole card that hangs; notes read ``sensor: reason``."""

NOT_ASKED = "not asked"
"""First words of the reason for cards that were not read because another one hung."""

NO_ANSWER = "did not answer"
"""First words of the reason for the card, or library, that hung."""

Cards = tuple[tuple[Accelerator, ...], dict[str, str], tuple[str, ...]]


class NvidiaReading:
    """One reading of all cards, whose results so far another thread can take if a card hangs."""

    def __init__(self, module: Any = None) -> None:
        self._module = module
        self._cards: list[Accelerator] = []
        self._drivers: dict[str, str] = {}
        self._notes: list[str] = []
        self._asked: int | None = None  # position of the card that is being asked

    def read(self) -> Cards:
        """Read all cards, first their identities, so that a card that hangs later can be named.

        Returns:
            The cards, the versions of ``nvidia`` (driver) and ``cuda``, and notes about failures of the
            library.
        """
        with Nvml(self._module) as nvml:
            self._notes += nvml.unreadable
            if nvml.present:
                self._read(nvml)
        return tuple(self._cards), self._drivers, tuple(self._notes)

    def so_far(self, reason: str) -> Cards:
        """Return the results so far.

        Args:
            reason: Why the reading ended. It is noted with the card that did not answer; the cards after it
                are noted as not read.
        """
        cards, notes, asked = list(self._cards), list(self._notes), self._asked
        if asked is None:
            return tuple(cards), dict(self._drivers), (*notes, f"nvml: {reason}")
        for position in range(asked, len(cards)):
            why = reason if position == asked else f"{NOT_ASKED}: GPU {cards[asked].index} {reason}"
            cards[position] = replace(cards[position], unreadable=(f"{SILENT}: {why}",))
        return tuple(cards), dict(self._drivers), tuple(notes)

    def _read(self, nvml: Nvml) -> None:
        notes = self._notes
        version = nvml.ask("driver", notes, "nvmlSystemGetDriverVersion")
        if version:
            self._drivers["nvidia"] = str(version)
        cuda = nvml.ask("cuda", notes, "nvmlSystemGetCudaDriverVersion")
        if cuda:
            self._drivers["cuda"] = f"{cuda // 1000}.{cuda % 1000 // 10}"
        handles = []
        for index in range(nvml.ask("accelerators", notes, "nvmlDeviceGetCount") or 0):
            handle = nvml.ask(f"GPU {index}", notes, "nvmlDeviceGetHandleByIndex", index)
            if handle is not None:
                handles.append(handle)
                self._cards.append(_identity(nvml, index, handle))
        for position, handle in enumerate(handles):
            self._asked = position
            self._cards[position] = _card(nvml, self._cards[position], handle)
        self._asked = None


def _identity(nvml: Nvml, index: int, handle: Any) -> Accelerator:
    """Read what identifies a card."""
    notes: list[str] = []

    def get(field: str, call: str) -> Any:
        return nvml.ask(field, notes, call, handle)

    return Accelerator(
        index=index,
        vendor="nvidia",
        name=get("name", "nvmlDeviceGetName") or "NVIDIA, name unreadable",
        pci=_pci(get("pci", "nvmlDeviceGetPciInfo")),
        uuid=get("uuid", "nvmlDeviceGetUUID"),
        serial=get("serial", "nvmlDeviceGetSerial"),
        unreadable=tuple(notes),
    )


def _card(nvml: Nvml, known: Accelerator, handle: Any) -> Accelerator:
    notes = list(known.unreadable)

    def get(field: str, call: str, *arguments: Any) -> Any:
        return nvml.ask(field, notes, call, handle, *arguments)

    memory = get("memory", "nvmlDeviceGetMemoryInfo")
    capability = get("compute_capability", "nvmlDeviceGetCudaComputeCapability")
    mig = get("mig", "nvmlDeviceGetMigMode")
    fields: dict[str, Any] = {
        "part": get("part", "nvmlDeviceGetBoardPartNumber"),
        "memory": int(memory.total) if memory is not None else None,
        "memory_free": int(memory.free) if memory is not None else None,
        "vbios": get("vbios", "nvmlDeviceGetVbiosVersion"),
        "firmware": get("firmware", "nvmlDeviceGetInforomImageVersion"),
        "link_width": get("link_width", "nvmlDeviceGetCurrPcieLinkWidth"),
        "link_width_max": get("link_width_max", "nvmlDeviceGetMaxPcieLinkWidth"),
        "link_generation": get("link_generation", "nvmlDeviceGetCurrPcieLinkGeneration"),
        "link_generation_max": get("link_generation_max", "nvmlDeviceGetMaxPcieLinkGeneration"),
        "pcie_replays": get("pcie_replays", "nvmlDeviceGetPcieReplayCounter"),
        "power_limit": _watts(get("power_limit", "nvmlDeviceGetEnforcedPowerLimit")),
        "power_limit_default": _watts(get("power_limit_default", _DEFAULT_LIMIT)),
        "sm_clock_max": get(
            "sm_clock_max", "nvmlDeviceGetMaxClockInfo", nvml.constant("NVML_CLOCK_SM", 1)
        ),
        "memory_clock_max": get(
            "memory_clock_max", "nvmlDeviceGetMaxClockInfo", nvml.constant("NVML_CLOCK_MEM", 2)
        ),
        "compute_capability": ".".join(map(str, capability)) if capability else None,
        "mig": bool(mig[0]) if mig else None,
        "performance_state": _state(get("performance_state", "nvmlDeviceGetPerformanceState")),
        **_settings(nvml, handle, notes),
        **_health(nvml, handle, notes),
        **_nvlinks(nvml, handle, notes),
        **_fabric(nvml, handle, notes),
    }
    return replace(known, unreadable=tuple(notes), **fields)


def _settings(nvml: Nvml, handle: Any, notes: list[str]) -> dict[str, Any]:
    """Read settings of the card that may prevent a test."""
    mode = nvml.ask("compute_mode", notes, "nvmlDeviceGetComputeMode", handle)
    persistence = nvml.ask("persistence", notes, "nvmlDeviceGetPersistenceMode", handle)
    reasons = nvml.clock_reasons("clock_limited", notes, handle)
    return {
        "compute_mode": _word(_COMPUTE_MODES, mode),
        "persistence": bool(persistence) if persistence is not None else None,
        "clock_limited": bool(int(reasons) & _CLOCKS_SET) if reasons is not None else None,
    }


def _health(nvml: Nvml, handle: Any, notes: list[str]) -> dict[str, Any]:
    """Read error correction, row remapping, retired pages and the requested recovery action."""

    def ecc_errors(field: str, kind: int, counter: int) -> Any:
        return nvml.ask(field, notes, "nvmlDeviceGetTotalEccErrors", handle, kind, counter)

    mode = nvml.ask("ecc", notes, "nvmlDeviceGetEccMode", handle)
    rows = nvml.ask("remapped_uncorrected", notes, "nvmlDeviceGetRemappedRows", handle)
    banks = nvml.ask("spares_none", notes, "nvmlDeviceGetRowRemapperHistogram", handle)
    pages = [
        nvml.ask("retired_pages", notes, "nvmlDeviceGetRetiredPages", handle, cause)
        for cause in (0, 1)  # several single-bit errors; one double-bit error
    ]
    sram = _filled(nvml, "c_nvmlEccSramErrorStatus_v1_t", "nvmlDeviceGetSramEccErrorStatus",
                   "sram_threshold", handle, notes)  # fmt: skip
    action = nvml.fields(handle, [(_RECOVERY_ACTION, 0)])[0]
    return {
        "ecc": bool(mode[0]) if mode else None,
        "ecc_corrected": ecc_errors("ecc_corrected", 0, 0),
        "ecc_uncorrected": ecc_errors("ecc_uncorrected", 1, 0),
        "ecc_uncorrected_lifetime": ecc_errors("ecc_uncorrected_lifetime", 1, 1),
        "remapped_corrected": rows[0] if rows else None,
        "remapped_uncorrected": rows[1] if rows else None,
        "remap_pending": bool(rows[2]) if rows else None,
        "remap_failed": bool(rows[3]) if rows else None,
        "spares_low": int(banks.low) if banks is not None else None,
        "spares_none": int(banks.none) if banks is not None else None,
        "sram_threshold": bool(sram.bThresholdExceeded) if sram is not None else None,
        "recovery_action": _word(_RECOVERY, action, f"recovery action {action} of NVML"),
        "retired_pages": sum(len(p) for p in pages if p is not None)
        if any(p is not None for p in pages)
        else None,
    }


def _filled(
    nvml: Nvml, structure: str, call: str, field: str, handle: Any, notes: list[str]
) -> Any:
    """Return a structure filled by NVML; None if the driver or the bindings do not have it."""
    found = nvml.structure(structure)
    if found is None:
        return None
    tried: list[str] = []
    if nvml.ask(field, tried, call, handle, ctypes.byref(found)) is None:
        notes += [note for note in tried if not note.endswith(_OLDER_DRIVER)]
        return None
    return found


def _fabric(nvml: Nvml, handle: Any, notes: list[str]) -> dict[str, Any]:
    """Read the card's state in an NVSwitch fabric; the call is too slow for frequent use."""
    info = None
    for version in (3, 2):  # older drivers do not know version 3
        name = f"c_nvmlGpuFabricInfo_v{version}_t"
        info = _filled(nvml, name, "nvmlDeviceGetGpuFabricInfoV", "fabric", handle, notes)
        if info is not None:
            break
    state = _word(_FABRIC_STATES, int(info.state)) if info is not None else None
    if info is None or state is None:
        return {}
    if state == "completed" and int(info.status) != 0:
        state = f"failed (NVML error {int(info.status)})"
    mask = int(info.healthMask)
    faults = [words for shift, words in _FABRIC_FAULTS if mask >> shift & 0x3 == 1]
    configuration = mask >> _CONFIGURATION_SHIFT & 0xF
    if configuration not in _CONFIGURED:
        faults.append(f"incorrect configuration {configuration} of NVML")
    if not faults and getattr(info, "healthSummary", None) == _UNHEALTHY:
        faults.append("unhealthy, and the driver does not say why")
    return {"fabric": state, "fabric_health": ", ".join(faults) or "healthy"}


def _nvlinks(nvml: Nvml, handle: Any, notes: list[str]) -> dict[str, Any]:
    """Read the numbers of the card's NVLinks and of those that are up, their speed and errors.

    A card without NVLink answers "not supported" for the first link. A card with fewer links than the maximum
    answers "invalid argument" or "not supported" after its last link.
    """
    up: list[bool] = []
    for link in range(nvml.constant("NVML_NVLINK_MAX_LINKS", _MAX_LINKS)):
        found: list[str] = []
        state = nvml.ask(f"nvlink {link}", found, "nvmlDeviceGetNvLinkState", handle, link)
        if state is None:
            if found and "(NVML error 2)" not in found[0]:
                notes.extend(item.replace("nvlink ", "nvlinks_active: link ", 1) for item in found)
                return {}
            break
        up.append(bool(state))
    if not up:
        return {}
    running = [link for link, active in enumerate(up) if active]
    answers = nvml.fields(
        handle,
        [(field, link) for field in (_LINK_SPEED, _LINK_RECOVERIES) for link in running],
    )
    speeds = [speed for speed in answers[: len(running)] if speed]
    recoveries = [count for count in answers[len(running) :] if count is not None]
    return {
        "nvlinks": len(up),
        "nvlinks_active": sum(up),
        "nvlink_speed": min(speeds, default=None),
        "nvlink_errors": sum(recoveries) if recoveries else None,
    }


def _word(words: tuple[str | None, ...], number: Any, other: str | None = None) -> str | None:
    """Return the word for one of NVML's numbers, None without a reading."""
    if not isinstance(number, int):
        return None
    return words[number] if 0 <= number < len(words) else other


def _pci(info: Any) -> str | None:
    """Return NVML's ``00000000:5D:00.0`` in the kernel's form, ``0000:5d:00.0``."""
    if info is None:
        return None
    raw = info.busId
    text = (raw.decode(errors="replace") if isinstance(raw, bytes) else str(raw)).lower()
    domain, colon, rest = text.partition(":")
    return f"{domain[-4:]}:{rest}" if colon and len(domain) == 8 and domain[:4] == "0000" else text


def _watts(milliwatts: Any) -> float | None:
    return milliwatts / 1000 if milliwatts is not None else None


def _state(state: Any) -> int | None:
    return state if isinstance(state, int) and 0 <= state <= 15 else None  # 32: unknown
