"""Choose how much memory a benchmark takes, make sure that it is free, and release what libraries keep."""

from __future__ import annotations

import ctypes
import gc
import os
from typing import TYPE_CHECKING

from pytest_anubis.hardware.cgroup import ControlGroup
from pytest_anubis.hardware.text_files import Files

if TYPE_CHECKING:
    import torch

SHARE = 0.5
"""Maximum share of a device's memory for one benchmark: libraries' workspaces, communication buffers and
other processes' contexts need room as well."""

FREE_SHARE = 0.9
"""Maximum share of the free memory to allocate: the allocator rounds up."""


NEEDED = 0.95
"""Maximum share of the free memory that a benchmark may need. It is larger than `FREE_SHARE` because a
process's own context takes some percent of an otherwise unused card."""

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # glibc's malloc.h


class MemoryTakenError(RuntimeError):
    """Another program uses the memory that a benchmark takes on every card of its class."""


def memory_of(device: torch.device) -> tuple[int, int] | None:
    """Return the free and total bytes of an accelerator; None if unknown.

    Blocks that torch caches in this process count as used.
    """
    import torch

    ask = getattr(getattr(torch, device.type, None), "mem_get_info", None)
    if ask is None:
        return None
    free, total = ask(device)
    return int(free), int(total)


def fitting(wanted: int, device: torch.device, *, times: int = 1) -> int:
    """Return `wanted` bytes, halved until `times` of it fit into the device's memory.

    The limit is `SHARE` of the total memory, so the size is the same on all devices of a class, whatever ran
    before.

    Raises:
        MemoryTakenError: This much is not free; a smaller size would measure something else.
    """
    known = memory_of(device)
    if known is None:
        return wanted
    while wanted > 1 and times * wanted > SHARE * known[1]:
        wanted //= 2
    require_free(times * wanted, device)
    return wanted


def require_free(wanted: int, device: torch.device) -> None:
    """Make sure that `wanted` bytes are free on an accelerator, with a margin for the allocator's rounding.

    Memory that torch caches in this process is released if necessary.

    Raises:
        MemoryTakenError: The bytes are not free.
    """
    free, total = memory_of(device) or (wanted, wanted)
    if wanted > NEEDED * free and free < total:
        give_back(device)
        free = (memory_of(device) or (0, 0))[0]
    if wanted > NEEDED * free and free < total:
        raise MemoryTakenError(
            f"of {device}'s {total / 1e9:.1f} GB {free / 1e9:.1f} GB are free, and this benchmark takes "
            f"{wanted / 1e9:.1f} GB on every card of its class"
        )


def give_back(device: torch.device) -> None:
    """Release the memory that torch, or on a CPU the C library, has kept of freed tensors."""
    import torch

    gc.collect()  # tensors that only reference cycles keep alive
    if device.type != "cpu":
        getattr(torch, device.type).empty_cache()
    elif trim := getattr(ctypes.CDLL(None), "malloc_trim", None):
        trim(0)


def keep_freed_memory() -> None:
    """Let this process keep the memory of freed tensors for the next ones, as caching allocators do.

    Else glibc returns pieces of some megabytes to the kernel, and page faults take a third of the time of a
    step on a CPU, more or fewer by the order in which its tensors are freed. `give_back` returns it all.
    """
    if option := getattr(ctypes.CDLL(None), "mallopt", None):  # of glibc
        option(_MMAP_THRESHOLD, 32 << 20)  # its largest
        option(_TRIM_THRESHOLD, (1 << 31) - 1)


def host_memory(files: Files | None = None) -> tuple[int, int]:
    """Return the available bytes of main memory and the total that this process may use."""
    files = files or Files()
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = ControlGroup(files).memory_limit()
    total = total if limit is None else min(total, limit)
    for line in (files.text("/proc/meminfo") or "").splitlines():
        name, _, rest = line.partition(":")
        if name == "MemAvailable":
            return min(total, int(rest.split()[0]) * 1024), total
    return total, total
