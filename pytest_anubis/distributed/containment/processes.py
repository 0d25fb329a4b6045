"""Functions on processes: how one died, where it hangs, how to kill it with its descendants.

The controller, the watchdog and `leftovers` use them. They also adopt orphans and count out-of-memory kills.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

STACK_SIGNAL = signal.SIGRTMIN + 7
"""Signal that makes a worker dump the stacks of its threads; torch, MPI and glibc use others."""

_WORDS = {
    signal.SIGSEGV: "segmentation fault",
    signal.SIGBUS: "bus error",
    signal.SIGABRT: "abort",
    signal.SIGFPE: "arithmetic exception",
    signal.SIGILL: "illegal instruction",
    signal.SIGKILL: "killed",
    signal.SIGTERM: "terminated",
}
_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h


@dataclass(frozen=True, slots=True)
class Death:
    """How a process ended."""

    signal: int | None = None  # number of the signal that ended it, None if it exited
    status: int | None = None  # its exit status, None if a signal ended it

    def __str__(self) -> str:
        if self.signal is not None:
            try:
                number = signal.Signals(self.signal)
            except ValueError:
                return f"signal {self.signal}"
            return f"{_WORDS.get(number, 'signal')} ({number.name})"
        return f"exit with status {self.status}"


def how_it_died(pid: int, patience: float = 2.0) -> Death | None:
    """Return how a child of this process ended, without reaping it.

    Returns:
        None if it is no child, was reaped already, or still lives.
    """
    until = time.monotonic() + patience
    while True:
        try:
            found = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except OSError:
            return None
        if found is not None:
            if found.si_code == os.CLD_EXITED:
                return Death(status=found.si_status)
            return Death(signal=found.si_status)
        if time.monotonic() >= until:
            return None
        time.sleep(0.02)


def is_gone(pid: int) -> bool:
    """Return whether the process has ended; a zombie counts as ended."""
    state = _stat(pid)
    return state is None or state[0] in "ZX"


def wait_gone(pids: Iterable[int], patience: float = 10.0) -> None:
    """Wait until processes have ended, at most `patience` seconds."""
    until = time.monotonic() + patience
    for pid in pids:
        while not is_gone(pid) and time.monotonic() < until:
            time.sleep(0.02)


def descendants(pid: int) -> list[int]:
    """Return the process ids of all descendants, by /proc."""
    children: defaultdict[int, list[int]] = defaultdict(list)
    for entry in Path("/proc").glob("[0-9]*"):
        stat = _stat(int(entry.name))
        if stat is not None:
            children[stat[1]].append(int(entry.name))
    found = list(children[pid])
    for child in found:  # grows while it is walked
        found += children[child]
    return found


def kill_tree(pid: int) -> None:
    """Kill a process and its descendants, after stopping it so that it starts no new ones."""
    _signal(pid, signal.SIGSTOP)
    for child in [*descendants(pid), pid]:
        _signal(child, signal.SIGKILL)


def stack_of(pid: int, file: Path, patience: float = 0.5) -> str:
    """Return the stacks of a worker's threads; empty if it does not answer.

    A signal handler in C writes them, so it works even while a thread never releases the interpreter's lock.
    """
    if not file.exists():  # the worker has no handler yet, so the signal would kill it
        return ""
    _signal(pid, STACK_SIGNAL)
    until = time.monotonic() + patience
    size = -1
    while time.monotonic() < until:
        time.sleep(0.05)
        now = file.stat().st_size if file.exists() else 0
        if now and now == size:
            break
        size = now
    try:
        return file.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def adopt_orphans() -> None:
    """Make orphaned descendants children of this process; Linux only.

    Otherwise a process that was started through a shell or detached itself would run on unnoticed.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def memory_kills() -> int | None:
    """Return how many processes the kernel has killed for lack of memory so far, None if unknown."""
    try:
        text = Path("/proc/vmstat").read_text(encoding="ascii")
    except OSError:
        return None
    for line in text.splitlines():
        name, _, count = line.partition(" ")
        if name == "oom_kill":
            return int(count)
    return None


def _stat(pid: int) -> tuple[str, int] | None:
    """Return state and parent of a process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    rest = text.rpartition(")")[2].split()  # the name in brackets may contain anything
    return rest[0], int(rest[1])


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(OSError):
        os.kill(pid, number)
