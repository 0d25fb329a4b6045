"""The suites' own kernels, as a recorder measures them: what faults are put into."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Collection
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pytest_anubis.benchmarking.shaped_link import NotPossible, ShapedLink
from pytest_anubis.session.measuring.recorder import Recorder

if TYPE_CHECKING:
    from suites.workload.data_parallel import TrainingGroup

DISK = 128 << 20  # bytes of the file, as in smoke
DISK_SECONDS = 0.5  # as in smoke: ten values
SHARED: list[ShapedLink] = []  # the link, while there is one
RANKS: list[TrainingGroup] = []  # the ranks of a training, while there are some
READER_RATE = [float("inf")]  # bytes a second that the reader of samples is held to
SAMPLE = (4, 64, 64, 64)


@dataclass(frozen=True)
class Kernel:
    """Something that is measured.

    Attributes:
        fn: The work that is timed, or what returns rates.
        timed: `fn` is timed.
        resources: What it occupies, as its mark says.
    """

    fn: Callable[[], Any]
    timed: bool = True
    resources: tuple[str, ...] = ()

    def measure(self, recorder: Recorder) -> None:
        """Measure as a benchmark does."""
        name, unit, better = _TIME if self.timed else _RATE
        if self.timed:
            recorder.measure(name, self.fn, unit=unit, better=better, clock="host")
        else:
            recorder.collect(name, self.fn, unit=unit, better=better)


_Quantity = tuple[str, str, Literal["higher", "lower"]]
_TIME: _Quantity = ("time", "s", "lower")
_RATE: _Quantity = ("rate", "B/s", "higher")


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


def _gemm(_: ExitStack) -> Kernel:
    from suites.compute.kernels import Gemm

    return Kernel(Gemm(1024, "float32", _cpu()).run)


def _triad(_: ExitStack) -> Kernel:
    from suites.memory.caches import memory_size, read_caches
    from suites.memory.stream import Stream, elements_for

    return Kernel(
        Stream("triad", elements_for(read_caches().last_total, memory_size(), 3), _cpu()).run
    )


def _dispatch(_: ExitStack) -> Kernel:
    from suites.compute.kernels import Launch

    return Kernel(Launch(_cpu()).run)


def _training(_: ExitStack) -> Kernel:
    from suites.training.resnet import ResNetShape, resnet_step

    return Kernel(
        resnet_step(ResNetShape(width=16, stages=3, blocks=2, picture=32, batch=16), _cpu()).run
    )


def _disk(stack: ExitStack) -> Kernel:
    from suites.storage.fio import DiskFile

    program = shutil.which("fio")
    if program is None:
        raise NotPossible("fio not found")
    file = stack.enter_context(DiskFile(Path(tempfile.gettempdir()), DISK, program))

    return Kernel(lambda: file.sequential("write", DISK_SECONDS), timed=False, resources=("disk",))


def _tcp(stack: ExitStack) -> Kernel:
    from benchmarks.suites.faults.links import Looped

    return Kernel(Looped(stack).rate, timed=False)


def _link(stack: ExitStack) -> Kernel:
    from benchmarks.suites.faults.links import Transfer

    kernel = Transfer(_shaped(stack), stack)
    kernel.rate()
    return Kernel(kernel.rate, timed=False)


def _reduction(stack: ExitStack) -> Kernel:
    from benchmarks.suites.faults.links import Reduction

    kernel = Reduction(_shaped(stack), stack)
    kernel.rate()
    return Kernel(kernel.rate, timed=False)


def _loading(stack: ExitStack) -> Kernel:
    from suites.storage.samples import Samples, read_cold

    def read(path: Path) -> bytes:
        content = read_cold(path)
        time.sleep(len(content) / READER_RATE[0])
        return content

    folder = Path(tempfile.gettempdir())
    samples = stack.enter_context(Samples(folder, 4, SAMPLE, 1, read=read))
    samples.stage()
    return Kernel(lambda: samples.rate("loading", 0.05), timed=False)


def _slowest_rank(stack: ExitStack) -> Kernel:
    from suites.workload.data_parallel import TrainingGroup

    ranks = stack.enter_context(TrainingGroup(0, 2))
    ranks.join()
    ranks.prepare("llama-small", "float32", 1)
    ranks.step()
    RANKS.append(ranks)
    stack.callback(RANKS.clear)
    return Kernel(lambda: 1 / ranks.step().alone, timed=False)


def _shaped(stack: ExitStack) -> ShapedLink:
    """Return the link that all kernels share, made by the first of them."""
    from benchmarks.suites.faults.links import RATE

    if not SHARED:
        SHARED.append(stack.enter_context(ShapedLink(RATE)))
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
    "loading": _loading,
    "slowest rank": _slowest_rank,
}
