"""NVIDIA's part of the inventory, through NVML."""

from __future__ import annotations

from typing import Any

from pytest_anubis.core.inventory import Accelerator
from pytest_anubis.hardware.inventory.nvml import Nvml

_MAX_LINKS = 36
_DEFAULT_LIMIT = "nvmlDeviceGetPowerManagementDefaultLimit"


def read_nvidia(
    module: Any = None,
) -> tuple[tuple[Accelerator, ...], dict[str, str], tuple[str, ...]]:
    """Read all NVIDIA cards.

    Args:
        module: Bindings to use in place of ``pynvml``.

    Returns:
        The cards, the versions of ``nvidia`` (driver) and ``cuda``, and what failed as a whole.
    """
    with Nvml(module) as nvml:
        notes = list(nvml.unreadable)
        if not nvml.present:
            return (), {}, tuple(notes)
        drivers: dict[str, str] = {}
        version = nvml.ask("driver", notes, "nvmlSystemGetDriverVersion")
        if version:
            drivers["nvidia"] = str(version)
        cuda = nvml.ask("cuda", notes, "nvmlSystemGetCudaDriverVersion")
        if cuda:
            drivers["cuda"] = f"{cuda // 1000}.{cuda % 1000 // 10}"
        count = nvml.ask("accelerators", notes, "nvmlDeviceGetCount") or 0
        cards = []
        for index in range(count):
            handle = nvml.ask(f"GPU {index}", notes, "nvmlDeviceGetHandleByIndex", index)
            if handle is not None:
                cards.append(_card(nvml, index, handle))
        return tuple(cards), drivers, tuple(notes)


def _card(nvml: Nvml, index: int, handle: Any) -> Accelerator:
    notes: list[str] = []

    def get(field: str, call: str, *arguments: Any) -> Any:
        return nvml.ask(field, notes, call, handle, *arguments)

    memory = get("memory", "nvmlDeviceGetMemoryInfo")
    capability = get("compute_capability", "nvmlDeviceGetCudaComputeCapability")
    mig = get("mig", "nvmlDeviceGetMigMode")
    links, active = _nvlinks(nvml, handle, notes)
    name = get("name", "nvmlDeviceGetName")
    fields: dict[str, Any] = {
        "name": name or "NVIDIA, name unreadable",
        "pci": _pci(get("pci", "nvmlDeviceGetPciInfo")),
        "uuid": get("uuid", "nvmlDeviceGetUUID"),
        "serial": get("serial", "nvmlDeviceGetSerial"),
        "part": get("part", "nvmlDeviceGetBoardPartNumber"),
        "memory": int(memory.total) if memory is not None else None,
        "vbios": get("vbios", "nvmlDeviceGetVbiosVersion"),
        "firmware": get("firmware", "nvmlDeviceGetInforomImageVersion"),
        "link_width": get("link_width", "nvmlDeviceGetCurrPcieLinkWidth"),
        "link_width_max": get("link_width_max", "nvmlDeviceGetMaxPcieLinkWidth"),
        "link_generation": get("link_generation", "nvmlDeviceGetCurrPcieLinkGeneration"),
        "link_generation_max": get("link_generation_max", "nvmlDeviceGetMaxPcieLinkGeneration"),
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
        "nvlinks": links,
        "nvlinks_active": active,
        "performance_state": _state(get("performance_state", "nvmlDeviceGetPerformanceState")),
        **_health(nvml, handle, notes),
    }
    return Accelerator(index=index, vendor="nvidia", unreadable=tuple(notes), **fields)


def _health(nvml: Nvml, handle: Any, notes: list[str]) -> dict[str, Any]:
    """Read error correction, row remapping and retired pages."""

    def ecc_errors(field: str, kind: int, counter: int) -> Any:
        return nvml.ask(field, notes, "nvmlDeviceGetTotalEccErrors", handle, kind, counter)

    mode = nvml.ask("ecc", notes, "nvmlDeviceGetEccMode", handle)
    rows = nvml.ask("remapped_uncorrected", notes, "nvmlDeviceGetRemappedRows", handle)
    pages = [
        nvml.ask("retired_pages", notes, "nvmlDeviceGetRetiredPages", handle, cause)
        for cause in (0, 1)  # several single-bit errors; one double-bit error
    ]
    return {
        "ecc": bool(mode[0]) if mode else None,
        "ecc_corrected": ecc_errors("ecc_corrected", 0, 0),
        "ecc_uncorrected": ecc_errors("ecc_uncorrected", 1, 0),
        "ecc_uncorrected_lifetime": ecc_errors("ecc_uncorrected_lifetime", 1, 1),
        "remapped_corrected": rows[0] if rows else None,
        "remapped_uncorrected": rows[1] if rows else None,
        "remap_pending": bool(rows[2]) if rows else None,
        "remap_failed": bool(rows[3]) if rows else None,
        "retired_pages": sum(len(p) for p in pages if p is not None)
        if any(p is not None for p in pages)
        else None,
    }


def _nvlinks(nvml: Nvml, handle: Any, notes: list[str]) -> tuple[int | None, int | None]:
    """Return how many NVLinks the card has and how many are up; (None, None) when it has no NVLink.

    A card without NVLink answers "not supported" for the first link, one with fewer links than the
    highest "invalid argument" or "not supported" behind its last.
    """
    links = active = 0
    for link in range(nvml.constant("NVML_NVLINK_MAX_LINKS", _MAX_LINKS)):
        found: list[str] = []
        state = nvml.ask(f"nvlink {link}", found, "nvmlDeviceGetNvLinkState", handle, link)
        if state is None:
            if found and "(NVML error 2)" not in found[0]:
                notes.extend(item.replace("nvlink ", "nvlinks_active: link ", 1) for item in found)
                return None, None
            break
        links += 1
        active += bool(state)
    return (links, active) if links else (None, None)


def _pci(info: Any) -> str | None:
    """Turn NVML's ``00000000:5D:00.0`` into the kernel's ``0000:5d:00.0``."""
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
