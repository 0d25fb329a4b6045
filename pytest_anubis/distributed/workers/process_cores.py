"""Binds this process to the CPUs of its lane, and during the test of a card to those near the card.

Host memory follows the CPUs: by the kernel's default policy a page lies on the NUMA node of the CPU that
first writes it, so buffers allocated during a test are near its card. A policy that the user sets
(``numactl``) is left alone.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Generator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from pytest_anubis.distributed.containment.process_state import set_torch_threads, torch_threads
from pytest_anubis.hardware.numa import cpu_numbers
from pytest_anubis.session.collecting.device_parameters import device_of

CPUS = "PYTEST_ANUBIS_CPUS"
"""Environment variable with the CPUs of a worker's lane, such as ``0-11,96-107``."""

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
"""Environment variables with the number of threads that libraries start, read when they are loaded."""


def bind_early() -> None:
    """Bind a worker to the CPUs of its lane, before plugins and conftests load libraries with threads."""
    cpus = cpu_numbers(os.environ.get(CPUS))
    if cpus:
        with suppress(OSError):  # the CPUs were taken away meanwhile, so the cpuset decides
            move(cpus)


def move(cpus: Collection[int]) -> bool:
    """Bind this process to CPUs, and return whether that changes anything.

    Threads with the calling thread's CPUs move with it; threads that a library has bound itself stay.

    Raises:
        OSError: The kernel forbids it, or none of the CPUs may be used.
    """
    before, wanted = os.sched_getaffinity(0), set(cpus)
    if before == wanted:
        return False
    os.sched_setaffinity(0, wanted)
    with suppress(OSError):  # without /proc only this thread can be moved
        for task in Path("/proc/self/task").iterdir():
            with suppress(OSError):  # it has ended
                if os.sched_getaffinity(int(task.name)) == before:
                    os.sched_setaffinity(int(task.name), wanted)
    return True


class NearCard:
    """Plugin that runs every test of a card on the CPUs near it, and other tests on the original CPUs.

    Args:
        near: Card -> its CPUs in the kernel's form; cards without any are left alone.
    """

    def __init__(self, near: Mapping[str, str]) -> None:
        self._near = {card: cpu_numbers(text) for card, text in near.items()}
        self._home: tuple[set[int], int | None] | None = None  # CPUs, torch's threads

    # Registered after `Leftovers`, so it wraps it.
    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Move to the test's CPUs before its setup."""
        cpus = self._near.get(device_of(item), ())
        if cpus:
            self._go(cpus)
        else:
            self._go_home()
        return (yield)

    def pytest_unconfigure(self) -> None:
        """Move back to the original CPUs."""
        self._go_home()

    def _go(self, cpus: Collection[int]) -> None:
        home = self._home or (os.sched_getaffinity(0), torch_threads())
        with suppress(OSError):  # the CPUs were taken away meanwhile; stay
            if move(cpus):
                _forget_host_buffers()
            self._home = home
            set_torch_threads(min(len(cpus), home[1] or torch_threads() or len(cpus)))

    def _go_home(self) -> None:
        if self._home is None:
            return
        (cpus, threads), self._home = self._home, None
        with suppress(OSError):
            move(cpus)
        set_torch_threads(threads)


def _forget_host_buffers() -> None:
    """Free page-locked memory that torch caches, because it lies on the NUMA node of an earlier card."""
    torch = sys.modules.get("torch")
    accelerator = getattr(torch, "accelerator", None)
    if torch is None or accelerator is None or not accelerator.is_available():
        return
    forget = getattr(accelerator, "empty_host_cache", None)
    forget = forget or getattr(getattr(torch, "_C", None), "_host_emptyCache", None)
    if forget is not None and torch.cuda.is_initialized():
        forget()
