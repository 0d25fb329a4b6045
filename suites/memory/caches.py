"""Sizes of this machine's caches and memory, so that benchmarks can go past them."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass
from itertools import chain, zip_longest
from pathlib import Path

from suites.memory.numa import read_list

KIB = 1024
MIB = 1024 * KIB

_UNITS = {"K": KIB, "M": MIB, "G": 1024 * MIB}


@dataclass(frozen=True, slots=True)
class Caches:
    """Cache sizes in bytes.

    Attributes:
        level2: One core's second level.
        last: One instance of the last level.
        last_total: All instances of the last level together.
    """

    level2: int
    last: int
    last_total: int


def read_caches(root: Path = Path("/sys/devices/system/cpu")) -> Caches:
    """Read the sizes that the kernel knows; without them assume 1 MiB and 32 MiB.

    Args:
        root: Folder with ``cpu0/cache/index*/``, as Linux has it.
    """
    sizes: dict[int, int] = {}
    instances: dict[str, tuple[int, int]] = {}
    for index in sorted(root.glob("cpu[0-9]*/cache/index[0-9]*")):
        try:
            level = int(_text(index / "level"))
            size = _bytes(_text(index / "size"))
            kind, shared = _text(index / "type"), _text(index / "shared_cpu_list")
        except (OSError, ValueError):
            continue
        if kind != "Instruction":
            sizes[level] = size
            instances[f"{level}:{shared}"] = (level, size)
    if not sizes:
        return Caches(level2=MIB, last=32 * MIB, last_total=32 * MIB)
    last = max(sizes)
    total = sum(size for level, size in instances.values() if level == last)
    return Caches(level2=sizes.get(2, MIB), last=sizes[last], last_total=total)


def cores_across(
    allowed: Collection[int], most: int, root: Path = Path("/sys/devices/system/cpu")
) -> list[int]:
    """Return CPUs of as many last-level caches as there are, each one's first before any one's second.

    Cores behind one cache have their way to the memory in common, so the caches come before the cores.

    Args:
        allowed: CPUs that may be used.
        most: How many are wanted at most.
        root: Folder with ``cpu*/cache/index*/``, as Linux has it; where it says nothing all share one cache.
    """
    groups: dict[tuple[int, ...], list[int]] = {}
    for cpu in sorted(allowed):
        shared: dict[int, tuple[int, ...]] = {}
        for index in root.glob(f"cpu{cpu}/cache/index[0-9]*"):
            try:
                shared[int(_text(index / "level"))] = tuple(
                    sorted(read_list(_text(index / "shared_cpu_list")))
                )
            except (OSError, ValueError):
                continue
        groups.setdefault(shared[max(shared)] if shared else (), []).append(cpu)
    turns = chain.from_iterable(zip_longest(*groups.values()))
    return [cpu for cpu in turns if cpu is not None][:most]


def memory_size() -> int:
    """Return the machine's memory in bytes."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _text(path: Path) -> str:
    return path.read_text(encoding="ascii").strip()


def _bytes(text: str) -> int:
    unit = _UNITS.get(text[-1:])
    return int(text[:-1]) * unit if unit else int(text)
