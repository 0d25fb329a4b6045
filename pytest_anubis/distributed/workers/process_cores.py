"""The CPUs of this process: those of its lane, and around the test of a card those near the card.

Host memory follows from it: under the kernel's default policy a page lies on the NUMA node of the CPU that
touches it first, so buffers that are made and page-locked while a test runs are near its card. A policy that
the user set (``numactl``) is left alone.
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
"""Environment variable of a worker: the CPUs of its lane, such as ``0-11,96-107``."""

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
"""Variables that libraries read when they are loaded: how many threads they start."""


def bind_early() -> None:
    """Keep a worker to the CPUs of its lane, before plugins and conftests load what starts threads."""
    cpus = cpu_numbers(os.environ.get(CPUS))
    if cpus:
        with suppress(OSError):  # taken away meanwhile: then the cpuset decides
            move(cpus)


def move(cpus: Collection[int]) -> bool:
    """Let this process run on these CPUs only, and say whether that is new.

    Threads that run where the calling one runs go with it; those that a library has placed itself stay.

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
    """Runs every test of a card on the CPUs near it, and any other test where the process ran before.

    Args:
        near: Card -> its CPUs in the kernel's form; cards without any are left alone.
    """

    def __init__(self, near: Mapping[str, str]) -> None:
        self._near = {card: cpu_numbers(text) for card, text in near.items()}
        self._home: tuple[set[int], int | None] | None = None  # CPUs, torch's threads

    # Registered after what looks for leftovers, so it is around that.
    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Go where the test belongs before anything of it runs."""
        cpus = self._near.get(device_of(item), ())
        if cpus:
            self._go(cpus)
        else:
            self._go_home()
        return (yield)

    def pytest_unconfigure(self) -> None:
        """Go back."""
        self._go_home()

    def _go(self, cpus: Collection[int]) -> None:
        home = self._home or (os.sched_getaffinity(0), torch_threads())
        with suppress(OSError):  # taken away meanwhile: the test runs where it is
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
    """Give back page-locked memory that torch keeps: it lies on the NUMA node of an earlier card."""
    torch = sys.modules.get("torch")
    accelerator = getattr(torch, "accelerator", None)
    if torch is None or accelerator is None or not accelerator.is_available():
        return
    forget = getattr(accelerator, "empty_host_cache", None)
    forget = forget or getattr(getattr(torch, "_C", None), "_host_emptyCache", None)
    if forget is not None and torch.cuda.is_initialized():
        forget()
