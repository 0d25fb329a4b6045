"""Choose the clear moments of a measurement: rounds in which nothing else slowed the host down.

A round is clear if the kernel saw no other work on the cores during it. In a virtual machine or a container
the kernel does not see everything: another guest on the same core's second hyperthread can slow everything
for a second or a minute without moving any counter. There a probe, a short calculation on all cores at once,
runs before and after every round, and both readings must be near the best. On bare metal nothing is hidden: a
slow core or a low clock is a property of the machine, and its values count.

Values are selected and never corrected: a slow value in a clear moment is due to the hardware. `conditions`
monitors the rounds of a host with it.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pytest_anubis.hardware.cgroup import usable_threads
from pytest_anubis.hardware.inventory.host_inventory import is_virtual
from pytest_anubis.hardware.load.kernel_counters import KernelCounters, in_container
from pytest_anubis.hardware.text_files import Files

Take = Callable[[], list[float]]

ITERATIONS = 600
"""Rounds of HMAC-SHA-512 in one chunk of the probe: 0.3 ms on a core of 2023. The hash stays in the core's
first cache, keeps several execution units busy (so work on the other hyperthread shows) and runs without
Python's global lock."""

LEAD = 2
"""First chunks of a reading, which do not count: threads of the round before spin for some tenths of a
millisecond, and the probe's own threads have to wake up."""

CHUNKS = 6
"""Chunks of a reading that count."""

MAX_PROBED_CORES = 16
"""Maximum number of probed cores, spread over all: more threads would wait for Python's global lock between
chunks."""

NEAR = 1.10
"""Maximum ratio of a clear reading to the best ones of its own or earlier measurements of the metric. On a
shared host readings cluster at 1.3 to 1.6; the work just before a reading changes it by a few percent."""

FAR = 1.25
"""Maximum ratio of a clear reading to the host's best one, whatever the rest of its measurement shows. The
after-effects of a benchmark (a low clock after wide vectors or long waits for memory) change it by up to
19 %."""

OTHERS = 0.03
"""CPUs' worth of time that other processes may use during a clear round: the daemons of a small quiet host
use 0.01."""

SHARE_OF_LIMIT = 0.15
"""On many cores, other processes may use this share of the operator's limit for a quiet machine instead."""

STOLEN = 0.005
"""Share of the CPUs' time that the hypervisor may take during a clear round."""

KEPT_READINGS = 20
"""Measurements of one metric whose fastest readings are kept for comparison with later ones."""

EXCUSED_WAIT = 0.05
"""Share of a clear round for which its threads may wait for a CPU beyond the usual wait; a quarter of the
rounds wait no longer than that."""

UNSEEN = 0.25
"""CPUs' worth of time that processes may use that live too briefly to be listed."""

UNSEEN_SHARE = 0.05
"""On many CPUs, such processes may use this share of all CPUs instead."""

BLOCK = 0.5
"""Seconds of the blocks of rounds over which unlisted processes are counted, because the kernel counts their
time in ticks of its clock."""

MIN_READINGS = 10
"""Minimum number of readings in a measurement whose fastest tenth is kept."""

RECOUNT_SHARE = 20
"""Clear values are counted again after one more value for every `RECOUNT_SHARE` values."""

PROBE_TIMEOUT = 10.0
"""Seconds after which a thread of the probe counts as lost."""

STALE = 0.05
"""Seconds after which a reading no longer describes the moment before a round."""


class Probe:
    """A short calculation that runs on all cores at once, in one daemon thread per core.

    Args:
        cpus: CPUs to probe; default all that this process may use. If there are more than
            `MAX_PROBED_CORES`, or than the control group's quota covers, a subset spread over all is probed.
    """

    def __init__(self, cpus: Sequence[int] | None = None) -> None:
        usable = sorted(os.sched_getaffinity(0) if cpus is None else cpus)
        count = max(1, min(MAX_PROBED_CORES, usable_threads()))
        self._cpus = usable[:: -(-len(usable) // count)]
        self._begin()

    def _begin(self) -> None:
        """Start new threads; earlier ones, if there are any, wait for ever."""
        self._start = [threading.Semaphore(0) for _ in self._cpus]
        self._done = threading.Semaphore(0)
        self._seconds = [0.0] * len(self._cpus)
        for place, start in enumerate(self._start):
            work = (place, start, self._done, self._seconds)
            threading.Thread(target=self._work, args=work, name="anubis-probe", daemon=True).start()

    def read(self) -> float:
        """Return the seconds of one chunk on the slowest core."""
        left = len(self._start)
        try:
            for start in self._start:
                start.release()
            while left and self._done.acquire(timeout=PROBE_TIMEOUT):
                left -= 1
        finally:
            # Interrupted by a time-out of the test, or in a forked process without the threads.
            if left:
                self._begin()
        return max(self._seconds) or PROBE_TIMEOUT

    def _work(
        self,
        place: int,
        start: threading.Semaphore,
        done: threading.Semaphore,
        seconds: list[float],
    ) -> None:
        with contextlib.suppress(OSError):  # the core was taken away: the thread runs elsewhere
            os.sched_setaffinity(0, {self._cpus[place]})
        while True:
            start.acquire()
            took = []
            for _ in range(LEAD + CHUNKS):
                begin = time.perf_counter()
                hashlib.pbkdf2_hmac("sha512", b"pytest-anubis", b"clear moment", ITERATIONS)
                took.append(time.perf_counter() - begin)
            seconds[place] = sorted(took[LEAD:])[CHUNKS // 2]
            done.release()


@dataclass(frozen=True, slots=True)
class Moment:
    """The state of the host around one round."""

    probe: float  # the slower of the probe's readings before and after the round, in seconds
    others: float = 0.0  # CPUs' worth of time that other processes used
    # Time for which this run's own threads waited for a CPU, relative to the round's length
    waited: float = 0.0
    stolen: float = 0.0  # share of the CPUs' time that the hypervisor gave to others
    unseen: float = 0.0  # seconds of CPU time of processes that were not listed
    seconds: float = 0.0  # length of the round


class HostMonitor:
    """One process's view of the host's load, with the best reading of the probe so far.

    Args:
        own: Returns the ids of this run's processes.
        best: The best reading from earlier runs; 0 without one.
        allowed: Names of commands, as shell patterns, that may run on a quiet machine.
        probe: Takes a reading.
        counters: Reads the kernel's counters.
        shared: Whether work that the kernel does not show may run on this hardware; None detects it.
        limit: Share of the CPUs that others may use on a quiet machine.
        quickest: By benchmark and metric, the fastest readings of earlier measurements; the work just before
            a reading influences it.

    Attributes:
        best: The best reading so far, that of an otherwise idle core; 0 if nothing is hidden.
        quickest: As above, with the readings of this run.
        others: CPUs' worth of time that other processes may use during a clear round.
        unseen: CPUs' worth of time that unlisted processes may use.
    """

    def __init__(
        self,
        own: Callable[[], Sequence[str]],
        best: float = 0.0,
        allowed: Sequence[str] = (),
        *,
        probe: Callable[[], float] | None = None,
        counters: KernelCounters | None = None,
        shared: bool | None = None,
        limit: float = 0.0,
        quickest: Mapping[str, Sequence[float]] | None = None,
    ) -> None:
        hidden = others_may_hide() if shared is None else shared
        self._probe = (probe or Probe().read) if hidden else None
        self._counters = counters or KernelCounters(own, allowed)
        self.best = best if hidden else 0.0
        self.quickest = {name: list(known) for name, known in (quickest or {}).items()}
        self._cpus = len(os.sched_getaffinity(0))
        self.others = max(OTHERS, SHARE_OF_LIMIT * limit * self._cpus)
        self.unseen = max(UNSEEN, UNSEEN_SHARE * (os.cpu_count() or 1), self.others)
        self._last = 0.0
        self._when = -STALE

    def read(self) -> float:
        """Take one reading of the probe; 0 if nothing is hidden."""
        if self._probe is None:
            return 0.0
        self._last = self._probe()
        self._when = time.monotonic()
        self.best = min(self.best or self._last, self._last)
        return self._last

    def before(self) -> float:
        """Return the reading before a round, reusing the one after the last round if it is recent."""
        return self._last if time.monotonic() - self._when < STALE else self.read()

    def around(self, take: Take) -> tuple[list[float], Moment]:
        """Take one round between two readings; return its values and the state of the host."""
        self._counters.renew()
        before = self.before()
        old, begin = self._counters.read(), time.perf_counter()
        values = take()
        seconds = max(time.perf_counter() - begin, 1e-9)
        new, after = self._counters.read(), self.read()
        return values, Moment(
            probe=max(before, after),
            others=max(0.0, new.others - old.others) / seconds,
            waited=max(0.0, new.waited - old.waited) / seconds,
            stolen=max(0.0, new.stolen - old.stolen) / seconds / self._cpus,
            unseen=new.unseen - old.unseen,
            seconds=seconds,
        )

    def remember(self, name: str, reading: float) -> None:
        """Keep the fastest reading of one measurement."""
        if name and reading:
            self.quickest[name] = [*self.quickest.get(name, ()), reading][-KEPT_READINGS:]


class MonitoredRounds:
    """The rounds of one measurement, each with the state of the host around it.

    Args:
        host: Takes the readings.
        name: Benchmark and metric, to find readings of earlier measurements; empty for none.

    Attributes:
        values: All values in time order.
    """

    def __init__(self, host: HostMonitor, name: str = "") -> None:
        self._host = host
        self._name = name
        known = host.quickest.get(name)
        self._known = _quantile(known, 0.25) if known else 0.0
        self._moments: list[Moment] = []
        self._due = self._clear = 0
        self.values: list[float] = []

    def take(self, round_: Take) -> list[float]:
        """Take one round; return its values."""
        values, moment = self._host.around(round_)
        self.values += values
        self._moments += [moment] * len(values)
        return values

    def enough(self, wanted: int) -> bool:
        """Return whether `wanted` values are clear; many values are recounted only now and then."""
        count = len(self.values)
        if count >= max(wanted, self._due):
            self._due = count + count // RECOUNT_SHARE
            self._clear = sum(self.clear())
        return self._clear >= wanted

    def some_of(self, wanted: int) -> bool:
        """Return whether some values are clear, but fewer than `wanted`."""
        return 0 < sum(self.clear()) < wanted

    def clear(self) -> list[bool]:
        """Return for each value whether it is clear, judged by all rounds so far."""
        if not self._moments:
            return []
        probe = min(self._quickest(), self._known or FAR * self._host.best)
        waited = NEAR * _quantile([one.waited for one in self._moments], 0.25)
        max_probe = min(NEAR * probe, FAR * self._host.best)
        return [
            one.probe <= max_probe
            and one.others <= self._host.others
            and one.waited <= (0.0 if disturbed else waited) + EXCUSED_WAIT
            and one.stolen <= STOLEN
            for one, disturbed in zip(self._moments, self._disturbed(), strict=True)
        ]

    def _disturbed(self) -> list[bool]:
        """Return for each value whether unlisted processes used much CPU time around its round.

        In such a round the usual waiting of this run's threads for a CPU is not excused.
        """
        blocks: list[list[Moment]] = [[]]
        for one in self._moments:
            if sum(other.seconds for other in blocks[-1]) >= BLOCK:
                blocks.append([])
            blocks[-1].append(one)
        found: list[bool] = []
        for block in blocks:
            seconds = max(sum(one.seconds for one in block), BLOCK)
            disturbed = sum(one.unseen for one in block) > self._host.unseen * seconds
            found += [disturbed] * len(block)
        return found

    @property
    def shared(self) -> bool:
        """Whether work that the kernel does not show may run on this hardware."""
        return self._host.best > 0

    @property
    def slowdown(self) -> float:
        """Factor, at least 1, by which this measurement's fastest readings are slower than earlier ones.

        Without earlier ones the reference is `FAR` times the host's best reading.
        """
        usual = self._known or FAR * self._host.best
        return max(1.0, self._quickest() / usual) if self._moments and usual else 1.0

    def ended(self) -> None:
        """Keep the fastest readings for later measurements of the same metric."""
        quickest = self._quickest() if len(self._moments) >= MIN_READINGS else math.inf
        if quickest <= FAR * self._host.best:
            self._host.remember(self._name, quickest)

    def _quickest(self) -> float:
        return _quantile([one.probe for one in self._moments], 0.1)


def others_may_hide(files: Files | None = None) -> bool:
    """Return whether work that the kernel does not show may run on this hardware.

    This is so in a virtual machine, as reported by processor, hypervisor or firmware, and in a container.
    """
    files = files or Files()
    return in_container(files) or is_virtual(files)


def _quantile(numbers: Sequence[float], share: float) -> float:
    return sorted(numbers)[int(share * (len(numbers) - 1))]
