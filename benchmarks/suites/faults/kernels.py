"""The suites' own kernels, with short ways to measure and to look again: what faults are put into."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Collection
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from benchmarks.suites.faults.not_possible import NotPossible
from pytest_anubis.benchmarking.shaped_link import ShapedLink
from pytest_anubis.hardware.round_plans import PLANS
from pytest_anubis.hardware.timing import HostClock, rounds, warm_up

PLAN = PLANS["smoke"]
"""How each is measured."""

TRANSFER = 64 << 20  # bytes of a TCP transfer: some tens of milliseconds over loopback
TRANSFERS, TRANSFERS_AGAIN = 8, 2
DISK = 128 << 20  # bytes of the file, as in smoke
DISK_SECONDS, DISK_AGAIN = 0.5, 0.2  # ten values, and four: fio's windows take 50 ms
SHARED: list[ShapedLink] = []  # the link, while there is one


@dataclass(frozen=True)
class Kernel:
    """Something that is measured.

    Attributes:
        take: Measures; returns its values.
        again: Looks again; returns the values of one burst.
        quantity: Name of the metric.
        unit: Its unit.
        better: Its direction.
    """

    take: Callable[[], list[float]]
    again: Callable[[], list[float]]
    quantity: str = "time"
    unit: str = "s"
    better: Literal["higher", "lower"] = "lower"


def kernels(wanted: Collection[str], stack: ExitStack) -> tuple[dict[str, Kernel], list[str]]:
    """Make the wanted kernels; what they need ends with `stack`.

    Returns:
        Kernels by name, and why others of the wanted are not possible here.
    """
    made, absent = {}, []
    for name in sorted(wanted):
        try:
            made[name] = _MAKERS[name](stack)
        except NotPossible as reason:
            absent.append(f"{name}: {reason}")
    return made, absent


def _timed(work: Callable[[], object]) -> Kernel:
    clock = HostClock(lambda: None)
    calls = 1

    def take() -> list[float]:
        nonlocal calls
        calls = warm_up(work, clock, PLAN)
        return rounds(work, clock, PLAN, calls)

    return Kernel(take, lambda: rounds(work, clock, PLAN.look(), calls))


def _rates(rate: Callable[[], float]) -> Kernel:
    def of(transfers: int) -> Callable[[], list[float]]:
        return lambda: [rate() for _ in range(transfers)]

    return Kernel(of(TRANSFERS), of(TRANSFERS_AGAIN), "rate", "B/s", "higher")


def _gemm(_: ExitStack) -> Kernel:
    from suites.compute.kernels import Gemm

    return _timed(Gemm(1024, "float32", _cpu()).run)


def _triad(_: ExitStack) -> Kernel:
    from suites.memory.caches import memory_size, read_caches
    from suites.memory.stream import Stream, elements_for

    return _timed(
        Stream("triad", elements_for(read_caches().last_total, memory_size(), 3), _cpu()).run
    )


def _dispatch(_: ExitStack) -> Kernel:
    from suites.compute.kernels import Launch

    return _timed(Launch(_cpu()).run)


def _training(_: ExitStack) -> Kernel:
    from suites.training.resnet import ResNetShape, resnet_step

    return _timed(
        resnet_step(ResNetShape(width=16, stages=3, blocks=2, picture=32, batch=16), _cpu()).run
    )


def _disk(stack: ExitStack) -> Kernel:
    from suites.storage.fio import DiskFile, find_fio

    program = find_fio()
    if program is None:
        raise NotPossible("fio not found")
    file = stack.enter_context(DiskFile(Path(tempfile.gettempdir()), DISK, program))

    def written(seconds: float) -> Callable[[], list[float]]:
        return lambda: file.sequential("write", seconds)

    return Kernel(written(DISK_SECONDS), written(DISK_AGAIN), "rate", "B/s", "higher")


def _tcp(stack: ExitStack) -> Kernel:
    from suites.network.loopback import Loopback

    link = stack.enter_context(Loopback())
    return _rates(lambda: link.rate(TRANSFER))


def _link(stack: ExitStack) -> Kernel:
    from benchmarks.suites.faults.links import Transfer

    kernel = Transfer(_shaped(stack), stack)
    kernel.rate()
    return _rates(kernel.rate)


def _reduction(stack: ExitStack) -> Kernel:
    from benchmarks.suites.faults.links import Reduction

    kernel = Reduction(_shaped(stack), stack)
    kernel.rate()
    return _rates(kernel.rate)


def _shaped(stack: ExitStack) -> ShapedLink:
    """Return the link that all kernels share, made by the first of them."""
    from benchmarks.suites.faults import links

    if not SHARED:
        SHARED.append(links.make(stack))
        stack.callback(SHARED.clear)
    return SHARED[0]


def _cpu() -> Any:
    import torch

    torch.set_num_threads(len(os.sched_getaffinity(0)))
    return torch.device("cpu")


_MAKERS = {
    "gemm": _gemm,
    "triad": _triad,
    "dispatch": _dispatch,
    "training": _training,
    "disk write": _disk,
    "tcp": _tcp,
    "link": _link,
    "all-reduce": _reduction,
}
