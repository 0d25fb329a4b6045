"""What the kernel counts of this run and of others: CPU time, waiting, time that a hypervisor took."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pytest_anubis.hardware.load.process_load import KERNEL_THREAD, is_allowed
from pytest_anubis.hardware.text_files import Files

RESCAN = 0.1
"""Seconds after which the list of processes is read again."""

TICK = 1 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Counts:
    """What the kernel has counted so far, in seconds.

    Attributes:
        others: CPU time of other processes.
        waited: Time for which threads of this run waited for a CPU.
        stolen: CPU time that the hypervisor gave to others.
        unseen: CPU time of neither this run nor a process that was listed; 0 in a container, which may not
            use most of the CPUs that the kernel counts.
    """

    others: float = 0.0
    waited: float = 0.0
    stolen: float = 0.0
    unseen: float = 0.0


class Account:
    """What the kernel counts of this run's own waiting, of other processes and of stolen time.

    Args:
        own: Returns the ids of the processes of this run.
        allowed: Names of commands, as shell patterns, that are part of a quiet machine.
        files: Where /proc lies.
    """

    def __init__(
        self,
        own: Callable[[], Sequence[str]],
        allowed: Sequence[str] = (),
        files: Files | None = None,
    ) -> None:
        self._own = own
        self._allowed = allowed
        self._files = files or Files()
        self._kernel: set[int] = set()
        self._others: dict[int, int] = {}  # process -> nanoseconds at the last reading
        self._ours: dict[int, int] = {}  # likewise
        self._used = self._own_used = 0
        self._whole = not in_container(self._files)
        self._threads: list[str] = []
        self._scanned = -RESCAN

    def read(self) -> Counts:
        """Return what was counted so far."""
        self._used += _used_since(self._others)
        self._own_used += _used_since(self._ours)
        waited = 0
        for path in self._threads:
            fields = self._files.quick(path).split()
            waited += int(fields[1]) if len(fields) == 3 else 0
        line = self._files.quick("/proc/stat", most=1).partition("\n")[0].split()[1:9]
        user, nice, system, *_, stolen = map(int, line) if len(line) == 8 else (0,) * 4
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        seen = (self._used + self._own_used) / 1e9 + ended.ru_utime + ended.ru_stime
        unseen = (user + nice + system) * TICK - seen if self._whole else 0.0
        return Counts(self._used / 1e9, waited / 1e9, stolen * TICK, unseen)

    def renew(self) -> None:
        """Read the list of processes and threads if it is old: a round needs the same one at both ends."""
        if time.monotonic() - self._scanned > RESCAN:
            self._scan()

    def _scan(self) -> None:
        own = set(map(int, self._own()))
        found = []
        for pid in (int(name) for name in self._files.entries("/proc") if name.isdigit()):
            if pid in own or pid in self._kernel:
                continue
            head, _, rest = self._files.quick(f"/proc/{pid}/stat").rpartition(")")
            fields = rest.split()
            if len(fields) > 6 and int(fields[6]) & KERNEL_THREAD:
                self._kernel.add(pid)
            elif not is_allowed(head.partition("(")[2], self._allowed):
                found.append(pid)
        self._others = {pid: self._others.get(pid, 0) for pid in found}
        self._ours = {pid: self._ours.get(pid, 0) for pid in own}
        self._threads = [
            f"/proc/{pid}/task/{thread}/schedstat"
            for pid in own
            for thread in self._files.names(f"/proc/{pid}/task")
        ]
        self._scanned = time.monotonic()


def _used_since(known: dict[int, int]) -> int:
    """Return the nanoseconds that processes used since the last reading, and keep this one.

    The time of a process before its first reading does not count, nor does that of one that has ended.
    """
    total = 0
    for pid, before in list(known.items()):
        try:
            used = time.clock_gettime_ns(_clock_of(pid))
        except OSError:  # it has ended
            del known[pid]
            continue
        total += max(0, used - before) if before else 0
        known[pid] = used
    return total


def _clock_of(pid: int) -> int:
    """Return the id of the clock that counts a process's CPU time (linux: ``MAKE_PROCESS_CPUCLOCK``)."""
    return (~pid << 3) | 2


def in_container(files: Files) -> bool:
    """Return whether this is a container, which sees no threads of the kernel."""
    return files.quick("/proc/2/comm").strip() != "kthreadd"
