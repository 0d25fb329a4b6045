"""Find by name, at a bounded cost, the processes of others that use the CPUs."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from pytest_anubis.hardware.text_files import Files

BUDGET = 0.005
"""CPU seconds that one snapshot may take, in measurements of tenths of a second: enough for some hundred
processes. Processes that were busy before are read first, so the relevant ones are seen on a full node
too."""

KERNEL_THREAD = 0x00200000
"""Bit of a process's flags that marks a thread of the kernel (PF_KTHREAD of linux/sched.h)."""

FORGET = 60.0
"""Seconds for which a process id is assumed to be a kernel thread's: they end too, and ids are reused."""

COMM = 15
"""Characters of a command's name that the kernel keeps."""

START = 0.01
"""Resolution in seconds of a process's start time: the kernel's clock tick."""

MAX_NAMED = 3
"""Maximum number of processes that one phrase names; the rest are summed up."""

MIN_NAMED_CPUS = 0.05
"""Minimum CPUs' worth of time of a process that is named, which leaves out shells and daemons."""


@dataclass(frozen=True, slots=True)
class ProcessTime:
    """CPU seconds of one process so far."""

    name: str  # its command's name, as the kernel keeps it
    parent: int  # id of its parent
    started: float  # its start, in seconds since boot
    own: float  # CPU seconds of all its threads
    children: float  # CPU seconds of its children that have ended and been waited for


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The processes of others at one moment."""

    when: float  # seconds since boot
    processes: Mapping[int, ProcessTime]  # processes by id, without kernel threads and our own
    # All of them were read: there was time, and none ended just before it was read
    complete: bool = True
    # Our own processes by id: their time is charged to another process if that one waits for them
    ours: Mapping[int, ProcessTime] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OtherProcess:
    """A process of others that used CPU time between two snapshots."""

    pid: int  # its id
    name: str  # its command's name
    cpus: float  # CPUs' worth of time, including its children that ended meanwhile

    def __str__(self) -> str:
        return f"{self.name} (pid {self.pid}) {self.cpus:.1f}"


class ProcessReader:
    """Reader of successive snapshots.

    Args:
        files: Reads /proc.
        tick: Seconds of one clock tick.
    """

    def __init__(self, files: Files, tick: float) -> None:
        self._files = files
        self._tick = tick
        self._kernel: dict[int, float] = {}  # kernel thread -> until when this is assumed
        self._used: dict[int, float] = {}  # process -> its CPU time at the last snapshot
        self._busy: dict[int, float] = {}  # process -> its CPU time between the last two

    def read(self, ours: Mapping[int, ProcessTime], kernel: Collection[str] = ()) -> Snapshot:
        """Read the processes of others, first those that were busiest at the last snapshot.

        Args:
            ours: CPU time of our own processes, by id.
            kernel: Ids of known kernel threads.
        """
        begin, spent = time.monotonic(), time.thread_time()
        when = _since_boot()
        pids = [int(name) for name in self._files.entries("/proc") if name.isdigit()]
        threads = set(map(int, kernel))
        known = threads.union(ours)
        pids = [p for p in pids if p not in known and self._kernel.get(p, 0.0) <= begin]
        # Among equals the newest first: a process that began during the run is newer than the daemons.
        pids.sort(key=lambda pid: (-self._busy.get(pid, 0.0), -pid))
        found: dict[int, ProcessTime] = {}
        complete = True
        for pid in pids:
            one = self.process(pid)
            if one is None:
                self._kernel[pid] = begin + FORGET
            elif one.name:
                found[pid] = one
            else:
                complete = False  # it has ended, and its parent may have been read before that
            if time.thread_time() - spent > BUDGET:
                complete = complete and pid == pids[-1]
                break
        used = {pid: one.own + one.children for pid, one in found.items()}
        self._busy = {pid: total - self._used.get(pid, total) for pid, total in used.items()}
        self._used = used
        return Snapshot(when, found, complete, ours)

    def process(self, pid: int) -> ProcessTime | None:
        """Return a process's CPU time; None for a kernel thread, an empty name if the process has ended."""
        head, _, rest = self._files.quick(f"/proc/{pid}/stat").rpartition(")")
        fields = rest.split()
        if len(fields) < 20:
            return ProcessTime("", 0, 0.0, 0.0, 0.0)
        if int(fields[6]) & KERNEL_THREAD:
            return None
        user, system, child_user, child_system = (int(text) * self._tick for text in fields[11:15])
        return ProcessTime(
            name=_shown(head.partition("(")[2]) or "?",
            parent=int(fields[1]),
            started=int(fields[19]) * self._tick,
            own=user + system,
            children=child_user + child_system,
        )


def other_processes(begin: Snapshot, end: Snapshot) -> tuple[OtherProcess, ...]:
    """Return the processes that used CPU time between two snapshots, busiest first.

    The whole time of a process that ended meanwhile is added to its parent once the parent has waited for it;
    the part that it had used before the first snapshot is subtracted again.

    Args:
        begin: The first snapshot.
        end: The second snapshot.
    """
    seconds = max(end.when - begin.when, 1e-9)
    # Without complete snapshots the earlier time of a process that has ended may be unknown.
    known = begin.complete and end.complete
    gone, adopted = _ended(begin, end)
    found = []
    for pid, now in end.processes.items():
        before = begin.processes.get(pid)
        if before is not None and _same(before, now):
            earlier = gone.get(pid, 0.0) + adopted
            children = max(0.0, now.children - before.children - earlier)
            used = now.own - before.own + (children if known else 0.0)
        elif now.started >= begin.when - START:
            used = now.own + now.children
        else:
            continue  # missing in the first snapshot: its time since then is unknown
        if used > 0:
            found.append(OtherProcess(pid, now.name, used / seconds))
    return tuple(sorted(found, key=lambda one: (-one.cpus, one.pid)))


def _ended(begin: Snapshot, end: Snapshot) -> tuple[dict[int, float], float]:
    """Return the CPU seconds, before the first snapshot, of processes that ended between two snapshots.

    Returns:
        The seconds by parent, if it still runs; and the sum for those whose parent has ended as well. Their
        time is charged to an ancestor or to the process that adopts orphans (process 1 or a subreaper); which
        one is unknown.
    """
    first, last = ({**one.ours, **one.processes} for one in (begin, end))
    lives = {pid for pid, one in first.items() if _same(one, last.get(pid))}
    gone: dict[int, float] = {}
    adopted = 0.0
    for pid, one in first.items():
        if pid in lives:
            continue
        if one.parent in lives:
            gone[one.parent] = gone.get(one.parent, 0.0) + one.own + one.children
        else:
            adopted += one.own + one.children
    return gone, adopted


def command_name(pid: int) -> str:
    """Return the name of a process's command as the kernel keeps it; empty if the process has ended."""
    return _shown(Files().quick(f"/proc/{pid}/comm").strip())


def is_allowed(name: str, patterns: Iterable[str]) -> bool:
    """Return whether a command's name matches a shell pattern; the kernel keeps only `COMM` characters."""
    return any(fnmatchcase(name, pattern) or name == pattern[:COMM] for pattern in patterns)


def named(found: Iterable[OtherProcess], total: float) -> str:
    """Describe which processes used how many CPUs' worth of time; empty if there is nothing to name.

    Args:
        found: Processes, busiest first.
        total: CPUs' worth of time that all others used.
    """
    seen = [one for one in found if one.cpus >= MIN_NAMED_CPUS]
    parts = [str(one) for one in seen[:MAX_NAMED]]
    more = sum(one.cpus for one in seen[MAX_NAMED:])
    if more:
        parts.append(f"{len(seen) - MAX_NAMED} more {more:.1f}")
    # The rest runs in another container or on the host, or is too short-lived to be in two snapshots.
    unseen = total - sum(one.cpus for one in seen)
    if unseen >= max(MIN_NAMED_CPUS, total / 3):
        parts.append(f"processes that cannot be seen from here {unseen:.1f}")
    return ", ".join(parts)


def _shown(name: str) -> str:
    """Return a name without characters that a terminal cannot show: a process may have any name."""
    return "".join(c if c.isprintable() else "?" for c in name)


def _same(one: ProcessTime, other: ProcessTime | None) -> bool:
    return other is not None and one.started == other.started


def _since_boot() -> float:
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime(clock)
