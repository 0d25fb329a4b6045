"""Find physical cores, their NUMA nodes and those of cards; read and write the kernel's lists of CPUs."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from pytest_anubis.hardware.text_files import Files

_CPU = "/sys/devices/system/cpu"
_NODE = "/sys/devices/system/node"
_PCI = "/sys/bus/pci/devices"

_MAX_CPUS = 8192
"""Limit of CPU numbers in a list, which is the kernel's own (NR_CPUS of x86)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Core:
    """One physical core with the hardware threads that this process may use."""

    cpus: tuple[int, ...]  # its hardware threads, ascending
    node: int | None = None  # its NUMA node; None if the kernel does not name one


def cores_of(files: Files, allowed: Collection[int]) -> tuple[Core, ...]:
    """Return the physical cores that contain the allowed CPUs, ordered by NUMA node and number.

    If the kernel does not list siblings, each CPU counts as a core.
    """
    nodes: dict[int, int] = {}
    for name in files.names(_NODE):
        if re.fullmatch(r"node\d+", name):
            cpus = cpu_numbers(files.text(f"{_NODE}/{name}/cpulist"))
            nodes.update(dict.fromkeys(cpus, int(name[4:])))
    cores: dict[tuple[int, ...], Core] = {}
    for cpu in sorted(allowed):
        siblings = cpu_numbers(files.text(f"{_CPU}/cpu{cpu}/topology/thread_siblings_list"))
        usable = tuple(sorted({cpu, *siblings} & set(allowed)))
        cores.setdefault(usable, Core(cpus=usable, node=nodes.get(cpu)))
    return tuple(sorted(cores.values(), key=lambda core: (core.node or 0, core.cpus)))


def numa_node_of(files: Files, address: str | None) -> int | None:
    """Return the NUMA node of a PCI device; None if the device or its node (-1) is unknown."""
    if not address:
        return None
    node = files.integer(f"{_PCI}/{address.lower()}/numa_node")
    return node if node is not None and node >= 0 else None


def cpu_numbers(text: str | None) -> tuple[int, ...]:
    """Return the numbers in a list such as ``0-3,8``; parts that cannot be parsed are left out."""
    found: list[int] = []
    for part in (text or "").split(","):
        first, _, last = part.strip().partition("-")
        if not first.isdecimal() or not (last or first).isdecimal():
            continue
        begin, end = int(first), int(last or first)
        if end < _MAX_CPUS:
            found += range(begin, end + 1)
    return tuple(sorted(set(found)))


def cpu_text(numbers: Iterable[int]) -> str:
    """Return numbers in the kernel's form, such as ``0-3,8``."""
    parts: list[list[int]] = []
    for number in sorted(set(numbers)):
        if parts and number == parts[-1][-1] + 1:
            parts[-1] = [parts[-1][0], number]
        else:
            parts.append([number])
    return ",".join("-".join(map(str, dict.fromkeys(part))) for part in parts)
