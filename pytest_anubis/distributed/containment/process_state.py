"""The state of a process that a test can change for later tests: how it is read and restored.

`Leftovers` reads it around every test, which takes about 0.05 ms. `leftovers` and `process_cores` use it.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pytest_anubis.distributed.containment.processes import STACK_SIGNAL, descendants, is_gone

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGALRM, STACK_SIGNAL)
"""Signals that end, interrupt or time a test; libraries set others once and on purpose."""

THREAD_SETTINGS = (
    "OMP_NUM_THREADS", "OMP_PROC_BIND", "OMP_PLACES", "OMP_SCHEDULE", "OMP_DYNAMIC", "GOMP_CPU_AFFINITY",
    "KMP_AFFINITY", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER",
    "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK",
)  # fmt: skip
"""Variables that affect the speed of later tests: threads, their CPUs, visible devices."""

HELPERS = (
    "multiprocessing.resource_tracker", "multiprocessing.forkserver", "multiprocessing.semaphore_tracker",
    "joblib.externals.loky", "compile_worker",
)  # fmt: skip
"""Parts of the command lines of processes that a library starts once and needs later: Python's own trackers,
joblib's and torch's workers."""

_TRIES = 10
"""Readings of an empty command line; zombies and kernel threads have none at all."""

_PAUSE = 0.02
"""Seconds between these readings."""

_MAX_COMMAND_LENGTH = 80
"""Reported characters of a command line."""


@dataclass(frozen=True, slots=True)
class Aspect:
    """One thing that a test may leave changed."""

    name: str  # for people
    read: Callable[[], Any]  # returns its value; values are compared
    # Puts an earlier value back; raises OSError or ValueError if it cannot
    restore: Callable[[Any], object]


def _folder() -> str | None:
    try:
        return os.getcwd()  # noqa: PTH109  # chdir takes it back as it is, and it is faster
    except FileNotFoundError:
        return None


def _umask() -> int:
    mask = os.umask(0o077)  # the only way to read it; files of other threads are private meanwhile
    os.umask(mask)
    return mask


def _file(descriptor: int) -> tuple[int, int] | None:
    try:
        found = os.fstat(descriptor)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _set_variable(name: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value


def _soft_limit(which: int) -> int:
    return resource.getrlimit(which)[0]


def _set_soft_limit(which: int, soft: int) -> None:
    resource.setrlimit(which, (soft, resource.getrlimit(which)[1]))


def torch_threads() -> int | None:
    """Return the number of torch's threads; None if torch is not, or not completely, loaded."""
    count: Callable[[], int] | None = getattr(sys.modules.get("torch"), "get_num_threads", None)
    return None if count is None else count()


def set_torch_threads(count: int | None) -> None:
    """Set the number of torch's threads; does nothing for None, or if torch is not loaded."""
    if count is not None and torch_threads() not in (None, count):
        sys.modules["torch"].set_num_threads(count)


class ProcessState:
    """The state of this process that all tests share.

    Args:
        rearm: Restores the handler of our stack signal; None if the process has none.
    """

    def __init__(self, rearm: Callable[[], None] | None = None) -> None:
        self._rearm = rearm
        self._saved = {number: os.dup(number) for number in range(3) if _file(number) is not None}
        self.aspects = {aspect.name: aspect for aspect in self._all()}

    def close(self) -> None:
        """Close the copies of the standard streams."""
        for copy in self._saved.values():
            os.close(copy)
        self._saved.clear()

    def read(self) -> dict[str, Any]:
        """Return the value of every aspect by its name."""
        return {name: aspect.read() for name, aspect in self.aspects.items()}

    def restore(self, name: str, value: Any) -> bool:
        """Restore a value, and return whether that worked."""
        aspect = self.aspects[name]
        with suppress(OSError, ValueError, TypeError):
            aspect.restore(value)
        return bool(aspect.read() == value)

    def adopt(self, name: str) -> None:
        """Accept the current value as the one to restore later."""
        number = name.removeprefix("descriptor ")
        if number != name and _file(int(number)) is not None:
            copy = self._saved.pop(int(number), None)
            if copy is not None:
                os.close(copy)
            self._saved[int(number)] = os.dup(int(number))

    def _all(self) -> list[Aspect]:
        read: Callable[[], Any]
        restore: Callable[[Any], object]
        found = [
            Aspect("working folder", _folder, os.chdir),
            Aspect("umask", _umask, os.umask),
            Aspect(
                "CPU affinity",
                lambda: frozenset(os.sched_getaffinity(0)),
                lambda cpus: os.sched_setaffinity(0, cpus),
            ),
            Aspect(
                "niceness",
                lambda: os.getpriority(os.PRIO_PROCESS, 0),
                lambda nice: os.setpriority(os.PRIO_PROCESS, 0, nice),
            ),
            Aspect(
                "blocked signals",
                lambda: frozenset(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
                lambda mask: signal.pthread_sigmask(signal.SIG_SETMASK, mask),
            ),
            Aspect(
                "timer of SIGALRM",
                lambda: signal.getitimer(signal.ITIMER_REAL)[0] > 0,
                lambda _: signal.setitimer(signal.ITIMER_REAL, 0),
            ),
            Aspect("threads of torch", torch_threads, set_torch_threads),
        ]
        for number in SIGNALS:
            label = "stack signal" if number == STACK_SIGNAL else signal.Signals(number).name
            read, restore = partial(signal.getsignal, number), partial(self._set_handler, number)
            found.append(Aspect(f"handler of {label}", read, restore))
        for name in sorted(n for n in dir(resource) if n.startswith("RLIMIT_")):
            limit = getattr(resource, name)
            with suppress(OSError, ValueError):  # not every kernel has every one
                resource.getrlimit(limit)
                if name != "RLIMIT_OFILE":  # the same as NOFILE
                    read, restore = partial(_soft_limit, limit), partial(_set_soft_limit, limit)
                    found.append(Aspect(f"limit {name}", read, restore))
        for name in THREAD_SETTINGS:
            read, restore = partial(os.environ.get, name), partial(_set_variable, name)
            found.append(Aspect(f"variable {name}", read, restore))
        for number in range(3):
            read, restore = partial(_file, number), partial(self._reopen, number)
            found.append(Aspect(f"descriptor {number}", read, restore))
        for name in ("stdin", "stdout", "stderr"):
            read, restore = partial(getattr, sys, name), partial(setattr, sys, name)
            found.append(Aspect(f"sys.{name}", read, restore))
        return found

    def _set_handler(self, number: int, handler: Any) -> None:
        signal.signal(number, handler)
        if number == STACK_SIGNAL and self._rearm is not None:
            self._rearm()

    def _reopen(self, number: int, _: Any) -> None:
        if number in self._saved:
            os.dup2(self._saved[number], number, inheritable=True)
        else:
            os.close(number)  # it was closed from the start


def children() -> set[int]:
    """Return the process ids of this process's running children."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return set()  # the usual case, at the cost of one call
    found: set[int] = set()
    try:
        for task in Path("/proc/self/task").iterdir():
            found.update(map(int, (task / "children").read_text(encoding="ascii").split()))
    except FileNotFoundError:  # a kernel without that file, or a thread that has just ended
        found = set(descendants(os.getpid()))
    return {pid for pid in found if not is_gone(pid)}


def command_of(pid: int) -> str:
    """Return the beginning of a process's command line; empty if the process is gone or has none.

    While a process executes another program, the command line is empty for a moment, so it is read again.
    """
    raw = b""
    for _ in range(_TRIES):
        try:
            raw = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return ""
        if raw:
            break
        time.sleep(_PAUSE)
    text = raw.replace(b"\0", b" ").decode("utf-8", "backslashreplace").strip()
    return text if len(text) <= _MAX_COMMAND_LENGTH else f"{text[:_MAX_COMMAND_LENGTH]}..."


def is_helper(pid: int) -> bool:
    """Return whether a process belongs to a library that needs it later (`HELPERS`)."""
    try:
        raw = Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace")
    except OSError:
        return False
    return any(word in raw for word in HELPERS)
