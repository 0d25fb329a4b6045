"""Find the CPUs near a card, the physical cores, and the device that checks results; wait for a device."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_anubis.hardware.numa import cores_of, cpu_numbers
from pytest_anubis.hardware.text_files import Files

if TYPE_CHECKING:
    import torch


def checking_device(device: torch.device) -> torch.device:
    """Return the device that checks results: the device itself, unless it lacks double precision.

    If tens of gigabytes were checked on the host, the device would be idle for most of a test. Apple's
    devices have no double precision.
    """
    import torch

    return torch.device("cpu") if device.type == "mps" else device


def synchronize(device: torch.device) -> None:
    """Wait until all work queued on a device is done; a CPU has none."""
    import torch

    if device.type != "cpu":
        torch.accelerator.synchronize(device)


def physical_cores(
    usable: int, allowed: Collection[int] | None = None, root: Path = Path("/")
) -> int:
    """Return how many physical cores a program may use, which is Open MPI's number of slots.

    Args:
        usable: Number of CPUs that this process may use (``anubis_node.cores``), which a quota may limit.
        allowed: Their numbers; default: those that this process may run on.
        root: Folder of ``sys``.
    """
    numbers = os.sched_getaffinity(0) if allowed is None else allowed
    return max(1, min(usable, len(cores_of(Files(root), numbers))))


def slot_of(card: Any) -> str:
    """Return a card's PCI address in the inventory's form, such as ``0000:1b:00.0``; empty if unknown.

    Args:
        card: Its properties (``torch.cuda.get_device_properties``), which have no slot before torch 2.6.
    """
    slot = [getattr(card, f"pci_{part}_id", None) for part in ("domain", "bus", "device")]
    numbers = [one for one in slot if isinstance(one, int)]
    if len(numbers) < len(slot):
        return ""
    domain, bus, device = numbers
    return f"{domain:04x}:{bus:02x}:{device:02x}.0"


def cpus_near(card: Any, root: Path = Path("/")) -> set[int]:
    """Return the CPUs of a card's NUMA node; empty if unknown.

    Args:
        card: As for `slot_of`.
        root: Folder of ``sys``.
    """
    address = slot_of(card)
    if not address:
        return set()
    return set(cpu_numbers(Files(root).text(f"/sys/bus/pci/devices/{address}/local_cpulist")))


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
