"""Faults that take time: a core, a neighbour, a disk, a link."""

from __future__ import annotations

import ctypes
import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from benchmarks.suites.faults.kernels import RANKS, READER_RATE, SHARED
from benchmarks.suites.faults.links import RATE
from pytest_anubis.benchmarking.shaped_link import NotPossible

PERIOD = 0.01  # seconds, a tenth of what quotas of the kernel have: every value has its share
PR_SET_PDEATHSIG = 1  # of linux/prctl.h
STREAMED = 256 << 20  # bytes of the neighbour's array: more than any last-level cache
DISK_LIMIT = (
    100_000_000  # bytes a second: below a fourth of any disk that an accelerator's node has
)


STRANGERS: set[int] = set()  # processes that belong to nobody's run, while they are there


@contextmanager
def part_of_core(share: float) -> Iterator[None]:
    """Leave a part of the last CPU's time, whoever runs there, as a quota does.

    What takes the rest is a process of real-time priority, and it is no stranger: a quota is no process.

    Args:
        share: The part that is left.
    """
    last = max(os.sched_getaffinity(0))

    def burn() -> None:
        os.sched_setaffinity(0, {last})
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        while True:
            end = time.monotonic() + PERIOD * (1 - share)
            while time.monotonic() < end:
                pass
            time.sleep(PERIOD * share)

    if os.geteuid():
        raise NotPossible("a process of real-time priority needs root")
    with _beside(burn):
        yield


@contextmanager
def busy_core() -> Iterator[None]:
    """Let another process, as important as ours, compute on the last CPU all the time."""
    last = max(os.sched_getaffinity(0))

    def spin() -> None:
        os.sched_setaffinity(0, {last})
        while True:
            pass

    with _beside(spin, stranger=True):
        yield


@contextmanager
def memory_neighbour() -> Iterator[None]:
    """Let another process copy memory all the time, on the last CPU."""
    last = max(os.sched_getaffinity(0))

    def stream() -> None:
        import numpy as np

        os.sched_setaffinity(0, {last})
        one, other = np.ones(STREAMED // 8), np.zeros(STREAMED // 8)
        while True:
            np.copyto(other, one)

    with _beside(stream, stranger=True):
        time.sleep(0.5)  # its pages are there
        yield


@contextmanager
def slow_disk() -> Iterator[None]:
    """Limit what this process and its children write to the disk of the temporary folder, by the kernel."""
    status = Path(tempfile.gettempdir()).stat()
    device = f"{os.major(status.st_dev)}:{os.minor(status.st_dev)}"
    groups = Path("/sys/fs/cgroup/blkio")
    unified = not groups.is_dir()
    group = (Path("/sys/fs/cgroup") if unified else groups) / f"anubis-faults-{os.getpid()}"
    before = _own_group(group.parent, "" if unified else "blkio") / "cgroup.procs"
    try:
        group.mkdir()
    except OSError as error:
        raise NotPossible(f"no control group for block I/O: {error.strerror}") from error
    try:
        try:
            if unified:
                (group / "io.max").write_text(f"{device} wbps={DISK_LIMIT} rbps={DISK_LIMIT}")
            else:
                for way in ("read", "write"):
                    (group / f"blkio.throttle.{way}_bps_device").write_text(
                        f"{device} {DISK_LIMIT}"
                    )
        except OSError as error:
            raise NotPossible(f"no limit for device {device}: {error.strerror}") from error
        (group / "cgroup.procs").write_text(str(os.getpid()))
        yield
    finally:
        before.write_text(str(os.getpid()))
        with suppress(OSError):
            group.rmdir()


def _own_group(root: Path, controller: str) -> Path:
    """Return the folder of the control group that this process is in."""
    for line in Path("/proc/self/cgroup").read_text(encoding="ascii").splitlines():
        _, names, path = line.split(":", 2)
        if controller in names.split(","):
            return root / path.lstrip("/")
    return root


@contextmanager
def slow_link(share: float) -> Iterator[None]:
    """Give the link that the kernels share another rate.

    Args:
        share: Of the rate that it was learned with.
    """
    if not SHARED:
        raise NotPossible("there is no link")
    [link] = SHARED
    link.shape(share * RATE)
    try:
        yield
    finally:
        link.shape(RATE)


@contextmanager
def slow_reader(rate: float) -> Iterator[None]:
    """Let the reader of samples wait as if its disk gave so many bytes a second."""
    READER_RATE[0] = rate
    try:
        yield
    finally:
        READER_RATE[0] = float("inf")


@contextmanager
def slow_rank(share: float) -> Iterator[None]:
    """Stop the last rank of a training again and again, so that it may run for a share of the time."""
    if not RANKS:
        raise NotPossible("there are no ranks")
    with stopped(RANKS[0].processes[-1].pid, share):
        yield


@contextmanager
def stopped(process: int, share: float) -> Iterator[None]:
    """Stop a process again and again, so that it may run for a share of the time."""

    def stop() -> None:
        while True:
            os.kill(process, signal.SIGSTOP)
            time.sleep(PERIOD * (1 - share))
            os.kill(process, signal.SIGCONT)
            time.sleep(PERIOD * share)

    try:
        with _beside(stop):
            yield
    finally:
        os.kill(process, signal.SIGCONT)


@contextmanager
def _beside(work: Callable[[], None], *, stranger: bool = False) -> Iterator[None]:
    if pid := os.fork():
        STRANGERS.update({pid} if stranger else ())
        try:
            yield
        finally:
            STRANGERS.discard(pid)
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        return
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    ctypes.CDLL(None).prctl(
        PR_SET_PDEATHSIG, signal.SIGKILL
    )  # nobody is left behind, come what may
    try:
        work()
    finally:
        os._exit(1)
