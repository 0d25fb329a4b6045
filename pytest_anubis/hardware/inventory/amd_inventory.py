"""Read AMD's cards for the inventory, through the amdsmi module that ROCm installs.

Not tried on a card yet: the names follow AMD's published Python interface. A value in an unknown form becomes
an absent reading.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_anubis.core.inventory import Accelerator
from pytest_anubis.hardware.amd_errors import block_errors
from pytest_anubis.hardware.inventory.host_inventory import pci_link
from pytest_anubis.hardware.text_files import Files, key_values

_KFD = "/sys/class/kfd/kfd/topology/nodes"
_PCI = "/sys/bus/pci/devices"
_MODULES, _DRIVER = "/sys/module", "amdgpu"
_UNDIVIDED = "SPX"
"""Compute partition of a card that is not divided."""


def read_amd(
    files: Files, module: Any = None
) -> tuple[tuple[Accelerator, ...], dict[str, str], tuple[str, ...]]:
    """Read all AMD cards; none if amdsmi is not installed.

    Args:
        files: Reads sysfs: the driver, KFD's topology, PCI links, counters of replays and memory errors.
        module: Bindings to use in place of ``amdsmi``.

    Returns:
        The cards, the version of the ``amdgpu`` driver, and notes about failures of the library. A library
        that does not start is no failure if that driver is not loaded.
    """
    smi = module if module is not None else _bindings()
    if smi is None:
        return (), {}, ()
    notes: list[str] = []
    try:
        smi.amdsmi_init()
    except Exception as error:
        modules = files.names(_MODULES)
        if (
            modules and _DRIVER not in modules
        ):  # such as ROCm's container on a node without AMD cards
            return (), {}, ()
        return (), {}, (f"amdsmi: {error}",)
    try:
        handles = _ask(smi, notes, "accelerators", "amdsmi_get_processor_handles") or []
        numbers = _kfd_numbers(files)
        read = [_card(smi, files, handle, numbers) for handle in handles]
        # By slot, as in sysfs, since no other tool uses the library's order.
        read.sort(key=lambda card: card.pci or "~")
        cards = tuple(replace(card, index=index) for index, card in enumerate(read))
        drivers = {}
        if handles:
            found = _ask(smi, notes, "driver", "amdsmi_get_gpu_driver_info", handles[0]) or {}
            if _text(found, "driver_version"):
                drivers["amdgpu"] = str(_text(found, "driver_version"))
        return cards, drivers, tuple(notes)
    finally:
        with contextlib.suppress(Exception):  # a failed shut-down loses nothing
            smi.amdsmi_shut_down()


def _card(smi: Any, files: Files, handle: Any, numbers: Mapping[str, int]) -> Accelerator:
    notes: list[str] = []

    def get(field: str, call: str) -> Any:
        return _ask(smi, notes, field, call, handle)

    asic = get("name", "amdsmi_get_gpu_asic_info") or {}
    board = get("serial", "amdsmi_get_gpu_board_info") or {}
    memory = get("memory", "amdsmi_get_gpu_vram_info") or {}
    vbios = get("vbios", "amdsmi_get_gpu_vbios_info") or {}
    power = get("power_limit", "amdsmi_get_power_cap_info") or {}
    errors = get("ecc_uncorrected", "amdsmi_get_gpu_total_ecc_count") or {}
    address = str(get("pci", "amdsmi_get_gpu_device_bdf") or "").lower() or None
    size = _number(memory, "vram_size")  # MB
    pages = get("retired_pages", "amdsmi_get_gpu_bad_page_info")
    partition = get("mig", "amdsmi_get_gpu_compute_partition")
    named = _ask(smi, [], "", "amdsmi_get_gpu_enumeration_info", handle)  # since ROCm 6.4
    number = _integer(named, "hip_id")
    links, active = _links(get("nvlinks", "amdsmi_get_link_metrics"))
    reader = files.part()
    device = f"{_PCI}/{address}" if address else ""
    usage = get("memory_free", "amdsmi_get_gpu_vram_usage") or {}
    total, used = _number(usage, "vram_total"), _number(usage, "vram_used")  # MB
    link: dict[str, Any] = pci_link(reader, address)
    return Accelerator(
        index=0,
        vendor="amd",
        name=_text(asic, "market_name") or "AMD, name unreadable",
        pci=address,
        uuid=get("uuid", "amdsmi_get_gpu_device_uuid"),
        hip_id=number if number is not None else numbers.get(str(address)),
        hip_uuid=_text(named, "hip_uuid"),
        serial=_text(board, "product_serial") or _text(asic, "asic_serial"),
        part=_text(board, "model_number"),
        memory=int(size) * 1024 * 1024 if size is not None else None,
        memory_free=int(total - used) << 20 if total is not None and used is not None else None,
        vbios=_text(vbios, "version") or _text(vbios, "part_number"),
        power_limit=_watts(power, "power_cap"),
        power_limit_default=_watts(power, "default_power_cap"),
        sm_clock_max=_highest(smi, notes, "sm_clock_max", handle, "GFX"),
        memory_clock_max=_highest(smi, notes, "memory_clock_max", handle, "MEM"),
        mig=partition.upper() != _UNDIVIDED
        if isinstance(partition, str) and partition != "N/A"
        else None,
        nvlinks=links,
        nvlinks_active=active,
        retired_pages=len(pages) if isinstance(pages, list) else None,
        compute_capability=_text(asic, "target_graphics_version"),
        ecc_corrected=_integer(errors, "correctable_count"),
        ecc_uncorrected=_integer(errors, "uncorrectable_count"),
        pcie_replays=reader.integer(f"{device}/pcie_replay_count", "pcie_replays")
        if device
        else None,
        block_errors=block_errors(reader, device) if device else {},
        unreadable=(*notes, *reader.unreadable),
        **link,
    )


def _kfd_numbers(files: Files) -> dict[str, int]:
    """Return PCI address -> HIP's number of the card, from the driver's own list.

    ROCm's run-time numbers the cards in the order of the driver's topology, in which CPUs have no GPU id.
    """
    found: list[str] = []
    for name in sorted(filter(str.isdecimal, files.names(_KFD)), key=int):
        if files.text(f"{_KFD}/{name}/gpu_id") in (None, "0"):
            continue
        properties = key_values(files.text(f"{_KFD}/{name}/properties"))
        try:
            domain = int(properties.get("domain", "0"))
            place = int(properties["location_id"])
        except (KeyError, ValueError):
            return {}  # without this card, the numbers of the others would be wrong
        # Bus, device and function, packed by PCI into 8, 5 and 3 bits.
        found.append(f"{domain:04x}:{place >> 8 & 255:02x}:{place >> 3 & 31:02x}.{place & 7}")
    return {address: number for number, address in enumerate(found)}


def _highest(smi: Any, notes: list[str], field: str, handle: Any, clock: str) -> float | None:
    """Return the highest frequency of a clock in MHz."""
    kind = getattr(getattr(smi, "AmdSmiClkType", None), clock, None)
    if kind is None:
        return None
    return _number(_ask(smi, notes, field, "amdsmi_get_clock_info", handle, kind), "max_clk")


def _links(answer: Any) -> tuple[int | None, int | None]:
    """Return the numbers of a card's xGMI links and of those that are up; None if unknown.

    The type of a link is an enumeration, its number or its name, depending on the version of amdsmi.
    """
    listed = answer.get("links") if isinstance(answer, dict) else answer
    if not isinstance(listed, list):
        return None, None
    ours = [one for one in listed if isinstance(one, dict) and _is_xgmi(one.get("link_type"))]
    rates = [_number(one, "bit_rate") for one in ours]
    known = [rate for rate in rates if rate is not None]
    active = sum(rate > 0 for rate in known) if len(known) == len(ours) else None
    return (len(ours), active) if ours else (None, None)


def _is_xgmi(kind: Any) -> bool:
    return "XGMI" in str(getattr(kind, "name", kind)).upper()


def _bindings() -> Any:
    """Import amdsmi from the path, else from ROCm's folder."""
    for folder in ("", f"{os.environ.get('ROCM_PATH', '/opt/rocm')}/share/amd_smi"):
        if folder and not Path(folder).is_dir():
            continue
        if folder:
            sys.path.append(folder)
        try:
            return importlib.import_module("amdsmi")
        # Without its shared library the module dies with KeyError, not ImportError.
        except (ImportError, OSError, KeyError, AttributeError):
            continue
        finally:
            if folder:
                sys.path.remove(folder)
    return None


def _ask(smi: Any, notes: list[str], field: str, call: str, *arguments: Any) -> Any:
    function = getattr(smi, call, None)
    if function is None:
        return None
    try:
        return function(*arguments)
    except Exception as error:  # each version has exception classes of its own
        if "NOT_SUPPORTED" not in str(error) and "NOT_YET_IMPLEMENTED" not in str(error):
            notes.append(f"{field}: {' '.join(str(error).split())[:120]}")
        return None


def _text(table: Any, key: str) -> str | None:
    value = table.get(key) if isinstance(table, dict) else None
    return str(value) if value not in (None, "", "N/A") else None


def _number(table: Any, key: str) -> float | None:
    value = table.get(key) if isinstance(table, dict) else None
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _integer(table: Any, key: str) -> int | None:
    value = _number(table, key)
    return int(value) if value is not None else None


def _watts(table: Any, key: str) -> float | None:
    value = _number(table, key)  # microwatts
    return value / 1e6 if value is not None else None
