"""Where CPUs and cards sit: physical cores with their hardware threads, and the NUMA nodes of both."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from pytest_anubis.hardware.text_files import Files

_CPU = "/sys/devices/system/cpu"
_NODE = "/sys/devices/system/node"
_PCI = "/sys/bus/pci/devices"

_MOST_CPUS = 8192
"""Numbers of a list that are believed: the kernel's own limit (NR_CPUS of x86)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Core:
    """One physical core, as far as this process may use it.

    Attributes:
        cpus: Its hardware threads, ascending.
        node: Its NUMA node; None where the kernel does not tell.
    """

    cpus: tuple[int, ...]
    node: int | None = None


def cores_of(files: Files, allowed: Collection[int]) -> tuple[Core, ...]:
    """Return the physical cores that some CPUs belong to, by NUMA node and number.

    Threads of one core are never told apart by a kernel that does not say which are siblings: then each CPU
    is a core of its own.
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


def card_node(files: Files, address: str | None) -> int | None:
    """Return the NUMA node of a PCI device; None where there is none, or the firmware does not tell (-1)."""
    if not address:
        return None
    node = files.integer(f"{_PCI}/{address.lower()}/numa_node")
    return node if node is not None and node >= 0 else None


def cpu_numbers(text: str | None) -> tuple[int, ...]:
    """Turn the kernel's ``0-3,8`` into numbers; what is no such list names none."""
    found: list[int] = []
    for part in (text or "").split(","):
        first, _, last = part.strip().partition("-")
        if not first.isdecimal() or not (last or first).isdecimal():
            continue
        begin, end = int(first), int(last or first)
        if end < _MOST_CPUS:
            found += range(begin, end + 1)
    return tuple(sorted(set(found)))


def cpu_text(numbers: Iterable[int]) -> str:
    """Turn numbers into the kernel's form, such as ``0-3,8``."""
    parts: list[list[int]] = []
    for number in sorted(set(numbers)):
        if parts and number == parts[-1][-1] + 1:
            parts[-1] = [parts[-1][0], number]
        else:
            parts.append([number])
    return ",".join("-".join(map(str, dict.fromkeys(part))) for part in parts)
