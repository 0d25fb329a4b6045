"""Placement: which CPUs are near a card, where results are checked, and waiting for a device."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_anubis.hardware.cgroup import usable_threads
from pytest_anubis.hardware.numa import cores_of, cpu_numbers
from pytest_anubis.hardware.text_files import Files

if TYPE_CHECKING:
    import torch


def usable_cores() -> int:
    """Return how many CPUs this process may use: ``anubis_node.cores`` for fixtures of wider scopes."""
    return usable_threads()


def checking_device(device: torch.device) -> torch.device:
    """Return where results are checked: on the device itself where it has double precision.

    Checking tens of gigabytes on the host would leave the device idle for most of a test. Apple's
    have no double precision.
    """
    import torch

    return torch.device("cpu") if device.type == "mps" else device


def synchronize(device: torch.device) -> None:
    """Wait until everything queued on a device is done; there is nothing to wait for on a CPU."""
    import torch

    if device.type != "cpu":
        torch.accelerator.synchronize(device)


def physical_cores(
    usable: int, allowed: Collection[int] | None = None, root: Path = Path("/")
) -> int:
    """Return how many physical cores a program may use: what Open MPI has slots for.

    Args:
        usable: CPUs that this process may use (``anubis_node.cores``): a quota may be less than the cores.
        allowed: Their numbers; default: those that this process may run on.
        root: Where ``sys`` lies.
    """
    numbers = os.sched_getaffinity(0) if allowed is None else allowed
    return max(1, min(usable, len(cores_of(Files(root), numbers))))


def slot_of(card: Any) -> str:
    """Return a card's PCI address, such as ``0000:1b:00.0``, as the inventory has it; empty if not known.

    Args:
        card: What torch tells of it (``torch.cuda.get_device_properties``); before 2.6 not its slot.
    """
    slot = [getattr(card, f"pci_{part}_id", None) for part in ("domain", "bus", "device")]
    numbers = [one for one in slot if isinstance(one, int)]
    if len(numbers) < len(slot):
        return ""
    domain, bus, device = numbers
    return f"{domain:04x}:{bus:02x}:{device:02x}.0"


def cpus_near(card: Any, root: Path = Path("/")) -> set[int]:
    """Return the CPUs of a card's NUMA node; empty where nobody says.

    Args:
        card: What torch tells of it (``torch.cuda.get_device_properties``); before 2.6 not its slot.
        root: Where ``sys`` lies.
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
