"""Read the host's inventory from /proc and sysfs: chassis, CPUs, memory and PCI devices.

`inventory_reading` uses it for the inventory; `periphery`, `host_sensors` and others use single readings.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import Any

from pytest_anubis.core.inventory import Memory, Processor, System
from pytest_anubis.hardware.cgroup import ControlGroup
from pytest_anubis.hardware.numa import numa_node_of
from pytest_anubis.hardware.text_files import Files, key_values

_CPU = "/sys/devices/system/cpu"
_PCI = "/sys/bus/pci/devices"

# PCI vendor ids of accelerator makers, and PCI classes of GPUs: VGA, 3D, other display, accelerator.
_VENDORS = {"0x10de": "nvidia", "0x1002": "amd", "0x8086": "intel", "0x1da3": "habana"}
_CLASSES = ("0x0300", "0x0302", "0x0380", "0x1200")
_ALWAYS_ACCELERATOR = ("0x0302", "0x1200")

# PCIe transfer rate in GT/s -> generation.
_GENERATIONS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}

_ADDRESS = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")

_CLOUDS = (
    "Amazon EC2",
    "QEMU",
    "Google",
    "Google Compute Engine",
    "Xen",
    "Alibaba Cloud",
    "OpenStack",
)
"""Makers named by the firmware of virtual machines, for processors without a flag for them."""


def read_system(files: Files) -> System:
    """Read maker, product, board and BIOS (DMI); a virtual machine often has none."""
    files = files.part()

    def dmi(name: str) -> str | None:
        return files.text(f"/sys/class/dmi/id/{name}", name)

    return System(
        vendor=dmi("sys_vendor"),
        product=dmi("product_name"),
        serial=dmi("product_serial"),
        board=dmi("board_name"),
        bios=dmi("bios_version"),
        bios_date=dmi("bios_date"),
        virtual=is_virtual(files),
        unreadable=tuple(files.unreadable),
    )


def is_virtual(files: Files) -> bool:
    """Return whether processor, hypervisor or firmware show that this is a virtual machine."""
    flags = (line for line in files.quick("/proc/cpuinfo").splitlines() if line.startswith("flags"))
    if "hypervisor" in next(flags, "").split() or files.quick("/sys/hypervisor/type"):
        return True
    return files.quick("/sys/class/dmi/id/sys_vendor").strip() in _CLOUDS


def read_processor(files: Files) -> Processor:
    """Read the CPUs and the share of them that this process may use."""
    files = files.part()
    first = _first_cpu(files)
    packages, cores, threads = _topology(files)
    khz = files.integer(f"{_CPU}/cpu0/cpufreq/cpuinfo_max_freq", "mhz_max")
    return Processor(
        model=_model(first),
        vendor=first.get("vendor_id") or first.get("CPU implementer"),
        family=first.get("cpu family") or first.get("CPU architecture"),
        model_number=first.get("model") or first.get("CPU part"),
        microcode=first.get("microcode"),
        sockets=packages,
        cores=cores,
        threads=threads,
        usable=usable_cpus(),
        quota=ControlGroup(files).quota(),
        numa_nodes=sum(
            re.fullmatch(r"node\d+", name) is not None
            for name in files.names("/sys/devices/system/node")
        )
        or None,
        mhz_max=khz / 1000 if khz else None,
        governor=files.text(f"{_CPU}/cpu0/cpufreq/scaling_governor", "governor"),
        unreadable=tuple(files.unreadable),
    )


def usable_cpus() -> int | None:
    """Return how many hardware threads this process may run on (affinity and cpuset), without quota."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count()


def read_memory(files: Files) -> Memory:
    """Read main memory, swap, the control group's limit and the error counters."""
    files = files.part()
    table = key_values(files.text("/proc/meminfo", "total"), ":")
    corrected, uncorrected = edac_counts(files)
    return Memory(
        total=_kib(table.get("MemTotal")),
        limit=ControlGroup(files).memory_limit(),
        swap=_kib(table.get("SwapTotal")),
        corrected=corrected,
        uncorrected=uncorrected,
        unreadable=tuple(files.unreadable),
    )


def edac_counts(files: Files) -> tuple[int | None, int | None]:
    """Return corrected and uncorrected memory errors since boot over all memory controllers."""
    base = "/sys/devices/system/edac/mc"
    totals: list[int | None] = [None, None]
    for name in files.names(base):
        if re.fullmatch(r"mc\d+", name):
            for i, (counter, field) in enumerate(
                (("ce_count", "corrected"), ("ue_count", "uncorrected"))
            ):
                value = files.integer(f"{base}/{name}/{counter}", field)
                if value is not None:
                    totals[i] = (totals[i] or 0) + value
    return totals[0], totals[1]


def bus_accelerators(files: Files) -> tuple[str, ...] | None:
    """Return the PCI addresses of all accelerators on the bus, with or without a driver.

    Display adapters of NVIDIA and AMD are accelerators; those of Intel (the chipset's graphics) are not. The
    result is None if there is no PCI bus.
    """
    if not files.exists(_PCI):
        return None
    found = []
    for address in files.names(_PCI):
        vendor = _VENDORS.get(files.text(f"{_PCI}/{address}/vendor") or "")
        kind = (files.text(f"{_PCI}/{address}/class") or "")[:6]
        wanted = _ALWAYS_ACCELERATOR if vendor == "intel" else _CLASSES
        if vendor and kind in wanted:
            found.append(address)
    return tuple(found)


def pci_link(files: Files, address: str | None) -> dict[str, int | None]:
    """Return width and generation of a PCI device's link, present and maximum; {} without an address."""
    if not address:
        return {}
    folder = f"{_PCI}/{address.lower()}"
    # The slot's bridge above it may be older or narrower.
    above = [f"{_PCI}/{one}" for one in _addresses(files, folder)[1:]]
    speeds = [generation(files.text(f"{one}/max_link_speed")) for one in (folder, *above)]
    widths = [files.integer(f"{one}/max_link_width", "link_width_max") for one in (folder, *above)]
    return {
        "link_width": _positive(files.integer(f"{folder}/current_link_width", "link_width")),
        "link_width_max": _least(map(_positive, widths)),
        "link_generation": generation(files.text(f"{folder}/current_link_speed")),
        "link_generation_max": _least(speeds),
    }


def _least(found: Iterable[int | None]) -> int | None:
    """Return the least of a device's value and those of the bridges above it; None if its own is unknown."""
    own, *above = found
    return None if own is None else min(filter(None, (own, *above)))


def generation(speed: str | None) -> int | None:
    """Return the PCIe generation of a speed, such as 4 for ``16.0 GT/s PCIe``; None if unknown."""
    match = re.match(r"(\d+(?:\.\d+)?)\s*GT/s", speed or "")
    return _GENERATIONS.get(float(match[1])) if match else None


def pci_address(files: Files, device: str) -> str | None:
    """Return the PCI address behind a sysfs ``device`` link; None for a device on another bus."""
    return next(iter(_addresses(files, device)), None)


def pci_place(files: Files, address: str | None) -> dict[str, Any]:
    """Return a PCI device's NUMA node, and the bridges above it, the nearest first; {} without an address."""
    if not address:
        return {}
    return {
        "numa_node": numa_node_of(files, address),
        "bridges": _addresses(files, f"{_PCI}/{address.lower()}")[1:],
    }


def _addresses(files: Files, device: str) -> tuple[str, ...]:
    """Return the PCI addresses in the path behind a sysfs link, the device first, its root port last."""
    try:
        real = files.path(device).resolve()
    except OSError:
        return ()
    return tuple(part for part in reversed(real.parts) if _ADDRESS.fullmatch(part))


def _first_cpu(files: Files) -> dict[str, str]:
    text = files.text("/proc/cpuinfo", "model") or ""
    return key_values(text.split("\n\n", maxsplit=1)[0], ":")


def _model(first: dict[str, str]) -> str | None:
    name = first.get("model name") or first.get("cpu") or first.get("Processor")
    if name is None and "CPU part" in first:  # Arm gives numbers only
        name = f"Arm {first.get('CPU implementer', '')} {first['CPU part']}"
    return " ".join(name.split()) if name else None


def _topology(files: Files) -> tuple[int | None, int | None, int | None]:
    """Return the numbers of packages, cores and hardware threads that are online."""
    packages = set()
    cores = set()
    threads = 0
    for name in files.names(_CPU):
        if re.fullmatch(r"cpu\d+", name) is None:
            continue
        if files.text(f"{_CPU}/{name}/online") == "0":
            continue
        package = files.text(f"{_CPU}/{name}/topology/physical_package_id")
        core = files.text(f"{_CPU}/{name}/topology/core_id")
        threads += 1
        if package is not None and core is not None:
            packages.add(package)
            cores.add((package, core))
    return len(packages) or None, len(cores) or None, threads or os.cpu_count()


def _kib(text: str | None) -> int | None:
    match = re.match(r"(\d+)\s*kB", text or "")
    return int(match[1]) * 1024 if match else None


def _positive(value: int | None) -> int | None:
    # The kernel shows 0 or 255 for a link that does not exist or does not answer.
    return value if value and value != 255 else None
