"""What the benchmarks settle with an accelerator before they load it: precision, room, who checks."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

TF32_VARIABLES = ("NVIDIA_TF32_OVERRIDE", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE")
"""What switches TF32 on or off behind a program's back: NVIDIA's containers set the second one."""

SHARE = 0.5
"""Largest share of a device's memory that one benchmark takes: the libraries' workspaces, the communication
buffers and other processes' contexts need room as well."""

FREE_SHARE = 0.9
"""Largest share of what is free: the allocator rounds up."""


def drop_tf32_variables() -> tuple[str, ...]:
    """Take the variables out of this process and its children; return those that were set.

    Has to happen before the CUDA libraries are loaded: they read them once.
    """
    return tuple(name for name in TF32_VARIABLES if os.environ.pop(name, None) is not None)


@contextmanager
def single_precision(*, tf32: bool = False) -> Iterator[None]:
    """Compute ``float32`` in true single precision, or in TF32, whatever the environment says.

    Args:
        tf32: Let products and convolutions round their factors to 10 bits.
    """
    import torch

    before = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    torch.set_float32_matmul_precision("high" if tf32 else "highest")
    torch.backends.cudnn.allow_tf32 = tf32
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before[0])
        torch.backends.cudnn.allow_tf32 = before[1]


def memory_of(device: torch.device) -> tuple[int, int] | None:
    """Return the bytes that are free on an accelerator and those that it has; None where nobody says."""
    import torch

    ask = getattr(getattr(torch, device.type, None), "mem_get_info", None)
    if ask is None:
        return None
    free, total = ask(device)
    return int(free), int(total)


def fitting(wanted: int, device: torch.device, *, times: int = 1) -> int:
    """Return `wanted` bytes, halved until `times` of it fit into the device's memory.

    What fits is `SHARE` of all memory, the same on all devices of a class, unless less of it is free.
    """
    known = memory_of(device)
    if known is None:
        return wanted
    room = min(SHARE * known[1], FREE_SHARE * known[0])
    while wanted > 1 and times * wanted > room:
        wanted //= 2
    return wanted


def checking_device(device: torch.device) -> torch.device:
    """Return where results are checked: on the device itself where it has double precision.

    Checking tens of gigabytes on the host would leave the device idle for most of a test. Apple's
    have no double precision.
    """
    import torch

    return torch.device("cpu") if device.type == "mps" else device


def cpus_near(card: Any, root: Path = Path("/")) -> set[int]:
    """Return the CPUs of a card's NUMA node; empty where nobody says.

    Args:
        card: What torch tells of it (``torch.cuda.get_device_properties``); before 2.6 not its slot.
        root: Where ``sys`` lies.
    """
    slot = [getattr(card, f"pci_{part}_id", None) for part in ("domain", "bus", "device")]
    numbers = [one for one in slot if isinstance(one, int)]
    if len(numbers) < len(slot):
        return set()
    domain, bus, device = numbers
    address = f"{domain:04x}:{bus:02x}:{device:02x}.0"
    try:
        text = (root / "sys/bus/pci/devices" / address / "local_cpulist").read_text()
        ranges = [part.split("-") for part in text.strip().split(",") if part]
        return {cpu for ends in ranges for cpu in range(int(ends[0]), int(ends[-1]) + 1)}
    except (OSError, ValueError):  # no such card there, or a kernel that says something else
        return set()


def stay_near(card: Any, root: Path = Path("/")) -> bool:
    """Let this process use only the CPUs of a card's NUMA node, of those that it may use at all.

    Call it before threads are started and buffers are made: both stay where they began.

    Returns:
        Whether that was possible; a process that may use none of them stays as it is.
    """
    near = cpus_near(card, root) & os.sched_getaffinity(0)
    if not near:
        return False
    try:
        os.sched_setaffinity(0, near)
    except OSError:  # forbidden in some sandboxes
        return False
    return True
