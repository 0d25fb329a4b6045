"""NUMA nodes of a host: which CPUs they have, and taking memory from one of them."""

from __future__ import annotations

import ctypes
import os
import platform
import re
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

NODES = Path("/sys/devices/system/node")

SET_MEMPOLICY = {"x86_64": 238, "aarch64": 237}
"""Number of the system call by machine: the C library has no function for it."""

DEFAULT, BIND = 0, 2
"""Policies of Linux: memory near the CPU that asks; memory of these nodes only."""

MASK_BITS = 1024
"""Nodes that a mask has room for: what Linux is built for at most."""


class NotPossible(RuntimeError):
    """The kernel does not let this process choose where its memory lies."""


def read_nodes(root: Path = NODES) -> dict[int, set[int]]:
    """Return the CPUs of every NUMA node that has memory; empty where the kernel does not say.

    Args:
        root: Folder with ``node*/``, as Linux has it.
    """
    try:
        with_memory = read_list((root / "has_memory").read_text(encoding="ascii"))
        lists = {number: (root / f"node{number}/cpulist") for number in with_memory}
        return {
            number: read_list(path.read_text(encoding="ascii")) for number, path in lists.items()
        }
    except (OSError, ValueError):
        return {}


def available(node: int, root: Path = NODES) -> int:
    """Return the bytes of a node's memory that are free or that cached files would leave.

    Where the kernel does not say, that is no limit (`sys.maxsize`).
    """
    try:
        text = (root / f"node{node}/meminfo").read_text(encoding="ascii")
        kib = dict(re.findall(r"(\S+): +([0-9]+) kB", text))
        return 1024 * sum(int(kib[name]) for name in ("MemFree", "Active(file)", "Inactive(file)"))
    except (OSError, ValueError, KeyError):
        return sys.maxsize


def read_list(text: str) -> set[int]:
    """Return the numbers of a list such as ``0-3,8``, as Linux writes them.

    Raises:
        ValueError: It is none.
    """
    ranges = [part.split("-") for part in text.strip().split(",") if part]
    return {number for ends in ranges for number in range(int(ends[0]), int(ends[-1]) + 1)}


@contextmanager
def on_cpus(cpus: Collection[int]) -> Iterator[None]:
    """Let this thread run on these CPUs alone.

    Raises:
        OSError: It may use none of them.
    """
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextmanager
def place(cpus: set[int], node: int) -> Iterator[None]:
    """Let this thread run on some CPUs and take new memory from one node.

    Raises:
        NotPossible: The kernel refuses, as it does in many containers.
    """
    usable = cpus & os.sched_getaffinity(0)
    if not usable:
        raise NotPossible(f"this process may use none of the CPUs {sorted(cpus)}")
    with on_cpus(usable):
        _policy(BIND, node)
        try:
            yield
        finally:
            _policy(DEFAULT, None)


def _policy(mode: int, node: int | None) -> None:
    number = SET_MEMPOLICY.get(platform.machine())
    if number is None:
        raise NotPossible(f"unknown system call of {platform.machine()}")
    mask = (ctypes.c_ulong * (MASK_BITS // 64))()
    if node is not None:
        mask[node // 64] = 1 << node % 64
    library = ctypes.CDLL(None, use_errno=True)
    bits = ctypes.c_ulong(MASK_BITS if node is not None else 0)
    if library.syscall(ctypes.c_long(number), ctypes.c_int(mode), mask, bits):
        reason = os.strerror(ctypes.get_errno())
        raise NotPossible(f"the kernel does not let this process choose its memory: {reason}")
