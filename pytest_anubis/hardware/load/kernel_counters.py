"""Read what the kernel counts for this run and for others: CPU time, waiting and stolen time.

`clear_moments` reads it around every round; `host_load` is for whole measurements.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pytest_anubis.hardware.cgroup import ControlGroup
from pytest_anubis.hardware.load.host_load import TICK
from pytest_anubis.hardware.load.process_load import KERNEL_THREAD, is_allowed
from pytest_anubis.hardware.text_files import Files, key_values

RESCAN = 0.1
"""Seconds after which the list of this run's processes and threads is read again."""


@dataclass(frozen=True, slots=True)
class Counts:
    """The kernel's counts so far, in seconds."""

    others: float = 0.0  # CPU time of other processes
    waited: float = 0.0  # time for which threads of this run waited for a CPU
    stolen: float = 0.0  # CPU time that the hypervisor gave to others
    # CPU time of processes that were never listed and are not this run's; in a container, only of
    # its control group, and 0 with version 1, which does not count it
    unseen: float = 0.0


class KernelCounters:
    """Reader of this run's waiting, of other processes' CPU time and of stolen time.

    Args:
        own: Returns the ids of this run's processes.
        allowed: Names of commands, as shell patterns, that may run on a quiet machine.
        files: Reads /proc.
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
        self._whole = not in_container(self._files)
        folders = [] if self._whole else ControlGroup(self._files).quota_folders
        self._group = f"{folders[0][0]}/cpu.stat" if folders else ""
        self._others: dict[int, int] = {}  # process -> nanoseconds at the last reading
        self._ours: dict[int, int] = {}  # likewise
        self._quiet: dict[int, int] = {}  # likewise, for allowed commands
        self._ignored: set[int] = set()  # the kernel's threads
        self._used = self._own_used = 0
        self._last = time.monotonic_ns()
        self._listed = False
        self._threads: list[str] = []
        self._scanned = -RESCAN

    def read(self) -> Counts:
        """Return the counts so far."""
        self._list()
        now = time.monotonic_ns()
        used, ended = _advance(self._others)
        # A process that ended since the last reading may have used a CPU until now.
        self._used += used + ended * (now - self._last)
        self._own_used += _advance(self._ours)[0] + _advance(self._quiet)[0]
        self._last = now
        waited = 0
        for path in self._threads:
            fields = self._files.quick(path).split()
            waited += int(fields[1]) if len(fields) == 3 else 0
        line = self._files.quick("/proc/stat", limit=1).partition("\n")[0].split()[1:9]
        user, nice, system, *_, stolen = map(int, line) if len(line) == 8 else (0,) * 4
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        seen = (self._used + self._own_used) / 1e9 + children.ru_utime + children.ru_stime
        all_used = (user + nice + system) * TICK
        if not self._whole:  # /proc/stat also counts the CPU time of other containers
            usage = key_values(self._files.quick(self._group)).get("usage_usec", "")
            all_used = int(usage) * 1e-6 if usage.isdigit() else seen
        return Counts(self._used / 1e9, waited / 1e9, stolen * TICK, all_used - seen)

    def renew(self) -> None:
        """List this run's processes and threads anew if the list is older than `RESCAN`."""
        if time.monotonic() - self._scanned <= RESCAN:
            return
        own = set(map(int, self._own()))
        for pid in self._ours.keys() - own:
            self._others[pid] = self._ours.pop(pid)
        for pid in own - self._ours.keys():
            listed = self._others.pop(pid, 0) or self._quiet.pop(pid, 0)
            self._ours[pid] = listed or _clock(pid)
        self._threads = [
            f"/proc/{pid}/task/{thread}/schedstat"
            for pid in own
            for thread in self._files.names(f"/proc/{pid}/task")
        ]
        self._scanned = time.monotonic()

    def _list(self) -> None:
        """Add processes that have begun; all their CPU time was used since the last reading."""
        present = {int(name) for name in self._files.entries("/proc") if name.isdigit()}
        self._ignored &= present
        known = (self._others.keys(), self._ours.keys(), self._quiet.keys(), self._ignored)
        for pid in sorted(present.difference(*known)):
            head, _, rest = self._files.quick(f"/proc/{pid}/stat").rpartition(")")
            fields = rest.split()
            if len(fields) <= 6:  # it has ended
                continue
            parent, flags = int(fields[1]), int(fields[6])
            if flags & KERNEL_THREAD:
                self._ignored.add(pid)
                continue
            allowed = is_allowed(head.partition("(")[2], self._allowed)
            kind = self._ours if parent in self._ours else self._quiet if allowed else self._others
            kind[pid] = 0 if self._listed else _clock(pid)
        self._listed = True


def _advance(known: dict[int, int]) -> tuple[int, int]:
    """Update the readings; return the nanoseconds used since the last ones and how many processes ended."""
    used = ended = 0
    for pid, before in list(known.items()):
        if now := _clock(pid):
            used += max(0, now - before)
            known[pid] = now
        else:
            del known[pid]
            ended += 1
    return used, ended


def _clock(pid: int) -> int:
    """Return the nanoseconds of CPU time of a process; 0 if it has ended."""
    try:
        return time.clock_gettime_ns((~pid << 3) | 2)  # Linux: MAKE_PROCESS_CPUCLOCK
    except OSError:
        return 0


def in_container(files: Files) -> bool:
    """Return whether this process runs in a container, which does not see the kernel's threads."""
    return files.quick("/proc/2/comm").strip() != "kthreadd"
