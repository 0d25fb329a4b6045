"""Sizes: how much memory a device has, and how much of it one benchmark takes."""

from __future__ import annotations

import gc
import os
from typing import TYPE_CHECKING

from pytest_anubis.hardware.cgroup import ControlGroup
from pytest_anubis.hardware.text_files import Files

if TYPE_CHECKING:
    import torch

SHARE = 0.5
"""Largest share of a device's memory that one benchmark takes: the libraries' workspaces, the communication
buffers and other processes' contexts need room as well."""

FREE_SHARE = 0.9
"""Largest share of what is free: the allocator rounds up."""


NEEDED = 0.95
"""Largest share of what is free that a benchmark may need: the allocator rounds up. More than `FREE_SHARE`,
as a process's own context takes some hundredths of a card that nobody else uses."""


class MemoryTakenError(RuntimeError):
    """Somebody else has the memory of an accelerator that a benchmark takes on every card of its class."""


def memory_of(device: torch.device) -> tuple[int, int] | None:
    """Return the bytes that are free on an accelerator and those that it has; None where nobody says.

    Blocks that torch keeps in this process for later count as taken.
    """
    import torch

    ask = getattr(getattr(torch, device.type, None), "mem_get_info", None)
    if ask is None:
        return None
    free, total = ask(device)
    return int(free), int(total)


def fitting(wanted: int, device: torch.device, *, times: int = 1) -> int:
    """Return `wanted` bytes, halved until `times` of it fit into the device's memory.

    What fits is `SHARE` of all memory, so it is the same on all devices of a class and whatever ran before.

    Raises:
        MemoryTakenError: So much is not free; a smaller size would measure something else.
    """
    known = memory_of(device)
    if known is None:
        return wanted
    while wanted > 1 and times * wanted > SHARE * known[1]:
        wanted //= 2
    require_free(times * wanted, device)
    return wanted


def require_free(wanted: int, device: torch.device) -> None:
    """Make sure that so many bytes are free on an accelerator, and some that the allocator rounds up.

    What torch keeps in this process for later is given back if need be.

    Raises:
        MemoryTakenError: They are not.
    """
    free, total = memory_of(device) or (wanted, wanted)
    if wanted > NEEDED * free and free < total:
        free = _given_back(device)
    if wanted > NEEDED * free and free < total:
        raise MemoryTakenError(
            f"of {device}'s {total / 1e9:.1f} GB {free / 1e9:.1f} GB are free, and this benchmark takes "
            f"{wanted / 1e9:.1f} GB on every card of its class"
        )


def give_back(device: torch.device) -> None:
    """Give back what torch keeps of an accelerator's memory for later; on a CPU it keeps none."""
    import torch

    gc.collect()  # what only a circle of objects still holds
    if device.type != "cpu":
        getattr(torch, device.type).empty_cache()


def _given_back(device: torch.device) -> int:
    """Give back what torch keeps of an accelerator's memory in this process; return the bytes free then."""
    give_back(device)
    known = memory_of(device)
    return known[0] if known else 0


def host_memory(files: Files | None = None) -> tuple[int, int]:
    """Return the bytes of main memory that are available and those that this process may have at all."""
    files = files or Files()
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = ControlGroup(files).memory_limit()
    total = total if limit is None else min(total, limit)
    for line in (files.text("/proc/meminfo") or "").splitlines():
        name, _, rest = line.partition(":")
        if name == "MemAvailable":
            return min(total, int(rest.split()[0]) * 1024), total
    return total, total
