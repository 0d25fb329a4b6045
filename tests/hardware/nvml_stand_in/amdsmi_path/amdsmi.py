"""A stand-in for AMD's ``amdsmi`` with the shape of its published interface: eight MI300X.

Its state is the text file that ``ANUBIS_AMDSMI_STATE`` names, read again on every call; one line each:

    count 8
    gpu3.amdsmi_get_gpu_total_ecc_count.uncorrectable_count 1
    gpu.amdsmi_get_gpu_compute_partition CPX
    gpu3.error.amdsmi_get_power_cap_info AMDSMI_STATUS_NO_PERM
    gpu3.hang.amdsmi_get_gpu_vbios_info 60
    gpu3.absent.amdsmi_get_link_metrics 1

``gpu.`` means every card; a line for one card wins.
"""

from __future__ import annotations

import copy
import enum
import os
import time
from pathlib import Path
from typing import Any


class AmdSmiException(Exception):
    """The base of the library's errors."""


class AmdSmiLibraryException(AmdSmiException):
    """An error with the library's own code."""


class AmdSmiClkType(enum.IntEnum):
    """Clocks."""

    SYS = 0
    GFX = 0
    DF = 1
    DCEF = 2
    SOC = 3
    MEM = 4


class AmdSmiTemperatureType(enum.IntEnum):
    """Places of thermometers."""

    EDGE = 0
    HOTSPOT = 1
    JUNCTION = 1
    VRAM = 2


class AmdSmiTemperatureMetric(enum.IntEnum):
    """The sensors of temperature."""

    CURRENT = 0
    MAX = 1


# PCI addresses of a common eight-card board, and the order in which HIP counts its cards there, which
# is not the order of this library.
_BUSES = (0x0C, 0x22, 0x38, 0x5C, 0x9F, 0xAF, 0xBF, 0xDF)
_HIP = (3, 1, 2, 0, 7, 5, 6, 4)
_LINKS = 7  # xGMI links of one card to the seven others
_opened = 0


def _values() -> dict[str, str]:
    lines = Path(os.environ["ANUBIS_AMDSMI_STATE"]).read_text(encoding="utf-8").splitlines()
    return {key: value for key, _, value in (line.partition(" ") for line in lines)}


def _answers(card: int) -> dict[str, Any]:
    bus = _BUSES[card % len(_BUSES)]
    return {
        "amdsmi_get_gpu_driver_info": {"driver_name": "amdgpu", "driver_version": "6.12.12"},
        "amdsmi_get_gpu_asic_info": {
            "market_name": "AMD Instinct MI300X",
            "vendor_id": "0x1002",
            "device_id": "0x74a1",
            "asic_serial": f"0x5A0000000000000{card}",
            "oam_id": card,
            "num_compute_units": 304,
            "target_graphics_version": "gfx942",
        },
        "amdsmi_get_gpu_board_info": {
            "model_number": "102-G30211-0C",
            "product_serial": f"6923300000{card:02d}",
            "product_name": "AMD Instinct MI300X OAM",
        },
        "amdsmi_get_gpu_vram_info": {"vram_type": 10, "vram_size": 196592},
        "amdsmi_get_gpu_vbios_info": {"version": "022.040.003.043", "part_number": "113-M3000100"},
        "amdsmi_get_power_cap_info": {"power_cap": 750_000_000, "default_power_cap": 750_000_000},
        "amdsmi_get_gpu_total_ecc_count": {
            "correctable_count": 0,
            "uncorrectable_count": 0,
            "deferred_count": 0,
        },
        "amdsmi_get_gpu_bad_page_info": [],
        "amdsmi_get_gpu_compute_partition": "SPX",
        "amdsmi_get_gpu_memory_partition": "NPS1",
        "amdsmi_get_clock_info": {"clk": 132, "min_clk": 132, "max_clk": 2100, "clk_locked": 0},
        "amdsmi_get_link_metrics": {
            "num_links": _LINKS,
            "links": [
                {"link_type": "XGMI", "bit_rate": 32, "max_bandwidth": 512} for _ in range(_LINKS)
            ],
        },
        "amdsmi_get_gpu_device_bdf": f"0000:{bus:02X}:00.0",
        "amdsmi_get_gpu_device_uuid": f"5aff74a1-0000-1000-805a-00000000000{card}",
        "amdsmi_get_gpu_enumeration_info": {
            "drm_render": 128 + card,
            "drm_card": card,
            "hsa_id": _HIP[card % len(_HIP)] + 2,
            "hip_id": _HIP[card % len(_HIP)],
            "hip_uuid": f"GPU-5a0000000000000{card}",
        },
        "amdsmi_topo_get_numa_node_number": 0 if card < 4 else 1,
        "amdsmi_get_power_info": {"current_socket_power": 140, "average_socket_power": "N/A"},
        "amdsmi_get_gpu_activity": {"gfx_activity": 0, "umc_activity": 0, "mm_activity": "N/A"},
        "amdsmi_get_temp_metric": 45,
        "amdsmi_get_energy_count": {
            "energy_accumulator": int(time.monotonic() * 140 / 15.3e-6),
            "counter_resolution": 15.3,
            "timestamp": time.time_ns(),
        },
        "amdsmi_get_violation_status": {
            "acc_counter": 0,
            "acc_prochot_thrm": 0,
            "acc_ppt_pwr": 0,
            "acc_socket_thrm": 0,
            "acc_vr_thrm": 0,
            "acc_hbm_thrm": 0,
        },
        "amdsmi_get_pcie_info": {
            "pcie_static": {"max_pcie_width": 16, "max_pcie_speed": 32000},
            "pcie_metric": {"pcie_width": 16, "pcie_speed": 32000, "pcie_replay_count": 0},
        },
        "amdsmi_get_gpu_process_list": [],
        "amdsmi_get_gpu_vram_usage": {"vram_total": 196592, "vram_used": 283},
    }


def amdsmi_init(*_: Any) -> None:
    """Open the library."""
    global _opened
    _check("amdsmi_init", None)
    _opened += 1


def amdsmi_shut_down() -> None:
    """Close the library."""
    global _opened
    _opened -= 1


def amdsmi_get_processor_handles() -> list[int]:
    """Return the cards; here a handle is a number."""
    _check("amdsmi_get_processor_handles", None)
    return list(range(int(_values().get("count", "8"))))


def _check(call: str, card: int | None) -> None:
    began = time.monotonic()
    while float(_line("hang", call, card) or 0) > time.monotonic() - began:
        time.sleep(0.01)  # short: the line may be taken away
    if _line("absent", call, card):
        raise AmdSmiLibraryException("AMDSMI_STATUS_NOT_SUPPORTED")
    error = _line("error", call, card)
    if error:
        raise AmdSmiLibraryException(error)
    if not _opened and call != "amdsmi_init":
        raise AmdSmiLibraryException("AMDSMI_STATUS_NOT_INIT")


def _line(what: str, call: str, card: int | None) -> str | None:
    values = _values()
    keys = (
        [f"gpu.{what}.{call}"]
        if card is None
        else [f"gpu{card}.{what}.{call}", f"gpu.{what}.{call}"]
    )
    return next((values[key] for key in keys if key in values), None)


def __getattr__(name: str) -> Any:
    if name not in _answers(0):
        raise AttributeError(name)

    def call(card: int, *_: Any) -> Any:
        _check(name, card)
        return _changed(_answers(card)[name], name, card)

    return call


def _changed(answer: Any, name: str, card: int) -> Any:
    """Return the healthy answer with what the file says instead."""
    found = copy.deepcopy(answer)
    for prefix in (f"gpu.{name}", f"gpu{card}.{name}"):
        for key, value in _values().items():
            if key == prefix:
                found = _typed(value, answer)
            elif key.startswith(f"{prefix}."):
                *path, last = key.removeprefix(f"{prefix}.").split(".")
                place = found
                for step in path:
                    place = place[int(step) if isinstance(place, list) else step]
                place[int(last) if isinstance(place, list) else last] = _typed(value, 0)
    return found


def _typed(value: str, like: Any) -> Any:
    if isinstance(like, list):  # that many bad pages
        return [{"value": page, "status": "reserved"} for page in range(int(value))]
    try:
        return float(value) if "." in value else int(value)
    except ValueError:
        return value
