"""Who uses the CPUs: the processes that are not ours, by name, at a bounded cost."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from pytest_anubis.hardware.text_files import Files

BUDGET = 0.005
"""CPU seconds that one look at all processes may take, of measurements that take tenths: enough for some
hundred. Those that were busy at the last look come first, so that who matters is seen on a full node too."""

KERNEL_THREAD = 0x00200000
"""Bit of a process's flags that marks a thread of the kernel (PF_KTHREAD of linux/sched.h)."""

FORGET = 60.0
"""Seconds for which a process id is taken for that of a kernel thread: they end too, and ids come again."""

COMM = 15
"""Characters of a command's name that the kernel keeps."""

START = 0.01
"""Seconds to which the start of a process is known: the clock tick in which the kernel tells it."""

NAMED = 3
"""Processes that one phrase names; the rest is summed up."""

LEAST = 0.05
"""CPUs' worth of time below which no process is named: a shell or a daemon next to the one that matters."""


@dataclass(frozen=True, slots=True)
class ProcessTime:
    """What one process had used when it was looked at; CPU seconds.

    Attributes:
        name: Its command's name, as the kernel keeps it.
        parent: Id of its parent.
        started: When it started, seconds since the machine did.
        own: By itself, all threads.
        children: By those of its children that have ended and been waited for.
    """

    name: str
    parent: int
    started: float
    own: float
    children: float


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One look at the processes that are not ours.

    Attributes:
        when: Seconds since the machine started.
        processes: By id; kernel threads and our own are left out.
        complete: All of them were seen: there was time, and none ended just before its turn.
        ours: Our own, by id: what they had used goes to a stranger if he waits for them in our stead.
    """

    when: float
    processes: Mapping[int, ProcessTime]
    complete: bool = True
    ours: Mapping[int, ProcessTime] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Stranger:
    """A process that used CPU time between two looks.

    Attributes:
        pid: Its id.
        name: Its command's name.
        cpus: CPUs' worth of time, its children's included that ended meanwhile.
    """

    pid: int
    name: str
    cpus: float

    def __str__(self) -> str:
        return f"{self.name} (pid {self.pid}) {self.cpus:.1f}"


class ProcessReader:
    """Looks at other processes again and again.

    Args:
        files: Where /proc lies.
        tick: Seconds of one clock tick.
    """

    def __init__(self, files: Files, tick: float) -> None:
        self._files = files
        self._tick = tick
        self._kernel: dict[int, float] = {}  # kernel thread -> until when that is believed
        self._used: dict[int, float] = {}  # process -> what it had used at the last look
        self._busy: dict[int, float] = {}  # process -> what it used between the last two

    def read(self, ours: Mapping[int, ProcessTime], kernel: Collection[str] = ()) -> Snapshot:
        """Look at the processes that are strangers, the busiest of the last look first.

        Args:
            ours: What our own processes have used, by id.
            kernel: Ids of kernel threads as far as they are known.
        """
        begin, spent = time.monotonic(), time.thread_time()
        when = _since_boot()
        pids = [int(name) for name in self._files.entries("/proc") if name.isdigit()]
        threads = set(map(int, kernel))
        known = threads.union(ours)
        pids = [p for p in pids if p not in known and self._kernel.get(p, 0.0) <= begin]
        # Among equals the newest first: whoever came beside us is younger than the daemons.
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
                complete = False  # whoever waited for it may have been read before that
            if time.thread_time() - spent > BUDGET:
                complete = complete and pid == pids[-1]
                break
        used = {pid: one.own + one.children for pid, one in found.items()}
        self._busy = {pid: total - self._used.get(pid, total) for pid, total in used.items()}
        self._used = used
        return Snapshot(when, found, complete, ours)

    def process(self, pid: int) -> ProcessTime | None:
        """Return what a process has used; None for a kernel thread, a nameless one if it is gone."""
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


def strangers(begin: Snapshot, end: Snapshot) -> tuple[Stranger, ...]:
    """Return who used CPU time between two looks, most first.

    What ended meanwhile is gone; its time is found with its parent, once that has waited for it. All that it
    ever used is: what it had used before the first look is taken off again.

    Args:
        begin: The first look.
        end: The second.
    """
    seconds = max(end.when - begin.when, 1e-9)
    # Of what was not seen the first time nobody knows what it had used by then.
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
            continue  # it was not seen the first time: nobody knows what it used since
        if used > 0:
            found.append(Stranger(pid, now.name, used / seconds))
    return tuple(sorted(found, key=lambda one: (-one.cpus, one.pid)))


def _ended(begin: Snapshot, end: Snapshot) -> tuple[dict[int, float], float]:
    """Return what processes that ended between two looks had used before the first; CPU seconds.

    Returns:
        By their parent, if that lives on; and of all whose parent has ended as well. Their time is with an
        ancestor or with whoever adopts orphans (process 1 or a subreaper), and nobody can say with whom.
    """
    first, last = ({**look.ours, **look.processes} for look in (begin, end))
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
    """Return the name of a process's command as the kernel keeps it; empty if it is gone."""
    return _shown(Files().quick(f"/proc/{pid}/comm").strip())


def is_allowed(name: str, patterns: Iterable[str]) -> bool:
    """Return whether a command's name is on an allow-list of shell patterns; the kernel cuts names short."""
    return any(fnmatchcase(name, pattern) or name == pattern[:COMM] for pattern in patterns)


def named(found: Iterable[Stranger], total: float) -> str:
    """Say who used how many CPUs' worth of time; empty where nobody can be named and nothing is missing.

    Args:
        found: Most first.
        total: CPUs' worth of time that others used in all.
    """
    seen = [one for one in found if one.cpus >= LEAST]
    parts = [str(one) for one in seen[:NAMED]]
    more = sum(one.cpus for one in seen[NAMED:])
    if more:
        parts.append(f"{len(seen) - NAMED} more {more:.1f}")
    # Another container, the host, or too short-lived to be seen twice.
    unseen = total - sum(one.cpus for one in seen)
    if unseen >= max(LEAST, total / 3):
        parts.append(f"processes that cannot be seen from here {unseen:.1f}")
    return ", ".join(parts)


def _shown(name: str) -> str:
    """Return a name that a terminal can show: a process may call itself anything."""
    return "".join(c if c.isprintable() else "?" for c in name)


def _same(one: ProcessTime, other: ProcessTime | None) -> bool:
    return other is not None and one.started == other.started


def _since_boot() -> float:
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime(clock)
