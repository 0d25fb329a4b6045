"""Read counters of the host's load: CPU time, steal, stalls (PSI), throttling and disk traffic.

`disturbance` compares two readings, at the ends of a whole measurement.

All counters only grow, so the difference of two `Load` values is exact to the nanosecond or the clock tick,
however rarely they are read.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pytest_anubis.hardware.cgroup import ControlGroup, Throttling
from pytest_anubis.hardware.load.process_load import ProcessReader, ProcessTime, Snapshot
from pytest_anubis.hardware.text_files import Files

TICK = 1.0 / os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 0.01
_SECTOR = 512

# Id of the parent of all kernel threads; inside a container another process has this id.
_KERNEL_PARENT = "2"

# Kernel threads that exist once per CPU and use next to no time, or (ksoftirqd) time that counts as
# interrupts. They are not worth reading on a machine with hundreds of CPUs.
_HOUSEKEEPING = ("cpuhp/", "migration/", "idle_inject/", "ksoftirqd/", "watchdog/", "rcu_", "irq/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """One reading of all counters; None for a counter that the kernel or the container does not show."""

    when: float  # seconds of a monotonic clock
    # CPU seconds of all processes in user and kernel mode. Interrupts are left out, as they may
    # serve any process.
    busy: float | None = None
    # CPU seconds that the hypervisor gave to others while we wanted them
    steal: float | None = None
    own: float | None = None  # CPU seconds of our process and all its descendants
    # CPU seconds of the kernel's own threads (write-back, encryption, ...)
    kernel: float | None = None
    # ``cpu some``, ``memory some``, ``io full``, ... -> seconds in which tasks stalled
    stalls: dict[str, float]
    # Clock when `stalls` was read, somewhat later than `when`; None: at the same time
    stalls_when: float | None = None
    throttling: Throttling | None = None  # throttling by the control group's quota so far
    disk: int | None = None  # bytes that all disks have read and written
    own_disk: int | None = None  # bytes of `disk` that our process and its descendants requested
    processes: Snapshot | None = None  # CPU time of each process that is not ours


class LoadReader:
    """Reader of `Load` values.

    Args:
        files: Reads /proc.
        root: Process whose tree counts as our own; default this process.
    """

    def __init__(self, files: Files | None = None, root: int | None = None) -> None:
        self._files = files or Files()
        self._root = root or os.getpid()
        self._group = ControlGroup(self._files)
        self.quota = self._group.quota()
        self._idle_threads: set[str] = set()
        self._kernel: list[str] = []  # ids of the kernel's threads
        self._processes = ProcessReader(self._files, TICK)

    def read(self) -> Load:
        """Read everything."""
        when = time.monotonic()
        busy, steal = self._cpu()
        tree = self.tree()
        ours = self._own(tree)
        kernel = self._kernel_threads()
        stalls_when, stalls = time.monotonic(), self._stalls()
        return Load(
            when=when,
            busy=busy,
            steal=steal,
            own=sum(one.own + one.children for one in ours.values()) if ours else None,
            kernel=kernel,
            stalls=stalls,
            stalls_when=stalls_when if stalls else None,
            throttling=self._group.throttling(),
            disk=self._disk(),
            own_disk=sum(map(self._disk_of, tree)) if tree else None,
            processes=None if busy is None else self._processes.read(ours, self._kernel),
        )

    def rates(self) -> tuple[float, float, float, float]:
        """Return clock, busy and stolen CPU seconds and the CPU stall, which are cheap to read often."""
        busy, steal = self._cpu()
        when, stalls = time.monotonic(), self._stalls(("cpu",))
        return when, busy or 0.0, steal or 0.0, stalls.get("cpu some", 0.0)

    def _cpu(self) -> tuple[float | None, float | None]:
        line = self._files.quick("/proc/stat", limit=1).partition("\n")[0].split()
        if len(line) < 9 or line[0] != "cpu":
            return None, None
        user, nice, system = (int(text) * TICK for text in line[1:4])
        return user + nice + system, int(line[8]) * TICK

    def _stalls(self, kinds: tuple[str, ...] = ("cpu", "memory", "io")) -> dict[str, float]:
        found: dict[str, float] = {}
        for what in kinds:
            for line in self._files.quick(f"/proc/pressure/{what}").splitlines():
                kind, _, rest = line.partition(" ")
                total = rest.rpartition("total=")[2]
                if total.isdigit():
                    found[f"{what} {kind}"] = int(total) * 1e-6
        return found

    def _own(self, tree: Sequence[str]) -> dict[int, ProcessTime]:
        """Return the CPU time of each process in our tree.

        The time of a process includes its children that have ended and been waited for, so no time is lost or
        counted twice when a child ends between two readings.
        """
        found = {}
        for pid in map(int, tree):
            one = self._processes.process(pid)
            if one is not None:
                found[pid] = _finely(one) if pid == os.getpid() else one
        return found

    def tree(self) -> list[str]:
        """Return the ids of our root process and all its descendants."""
        found, waiting = [], [str(self._root)]
        while waiting:
            process = waiting.pop()
            threads = self._files.names(f"/proc/{process}/task")
            if threads:
                found.append(process)
            for thread in threads:
                children = self._files.quick(f"/proc/{process}/task/{thread}/children")
                waiting.extend(children.split())
        return found

    def _disk_of(self, process: str) -> int:
        total = 0
        for line in self._files.quick(f"/proc/{process}/io").splitlines():
            name, _, value = line.partition(": ")
            if name in ("read_bytes", "write_bytes") and value.isdigit():
                total += int(value)
        return total

    def _kernel_threads(self) -> float | None:
        parent = f"/proc/{_KERNEL_PARENT}"
        if self._files.quick(f"{parent}/comm").strip() != "kthreadd":
            return None
        ticks = 0
        self._kernel = self._files.quick(f"{parent}/task/{_KERNEL_PARENT}/children").split()
        for thread in self._kernel:
            if thread in self._idle_threads:
                continue
            name, _, rest = self._files.quick(f"/proc/{thread}/stat").rpartition(")")
            fields = rest.split()
            if name.partition("(")[2].startswith(_HOUSEKEEPING):
                self._idle_threads.add(thread)
            elif len(fields) > 12:
                ticks += int(fields[11]) + int(fields[12])
        return ticks * TICK

    def _disk(self) -> int | None:
        """Return bytes of all whole disks, read and written."""
        whole = {
            n for n in self._files.names("/sys/block") if not n.startswith(("loop", "ram", "zram"))
        }
        total, seen = 0, False
        for line in self._files.quick("/proc/diskstats").splitlines():
            fields = line.split()
            # Stacked devices (dm, md) would count their disks' traffic a second time.
            if len(fields) > 9 and fields[2] in whole and not fields[2].startswith(("dm-", "md")):
                seen = True
                total += (int(fields[5]) + int(fields[9])) * _SECTOR
        return total if seen else None


def _finely(one: ProcessTime) -> ProcessTime:
    """Return this process's own CPU time with a finer resolution than the clock tick of /proc."""
    own, children = (
        usage.ru_utime + usage.ru_stime
        for usage in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )
    return replace(one, own=own, children=children)


def share_of_time(part: float, whole: float) -> float:
    """Return the ratio of two differences of counters, limited to 0 to 1.

    The kernel sums stalls by the clocks of its CPUs, and this reader may have to wait for a CPU between
    reading its clock and the sum. On a busy machine the stalls can therefore seem longer than the time that
    passed.
    """
    return min(1.0, max(0.0, part) / whole) if whole > 0 else 0.0
