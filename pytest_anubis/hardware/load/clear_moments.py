"""Clear moments: those in which nobody else slows the host down.

A round of a measurement is clear where the kernel saw nobody else on the cores meanwhile. On a virtual
machine, or in a container, the kernel shows only a part of the others: another guest on the other hyperthread
makes everything slower for a second or a minute, and no counter moves. So there every round also stands
between two readings of a probe, the same short calculation on all cores at once, and both have to be near the
best.
On hardware of one's own nobody can hide: a slow core or a low clock is the machine's, and its values count.

Values are chosen by this and never corrected: what is slow in a clear moment is the hardware's.
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
from pytest_anubis.hardware.load.kernel_account import Account, in_container
from pytest_anubis.hardware.text_files import Files

Take = Callable[[], list[float]]

ITERATIONS = 600
"""Rounds of HMAC-SHA-512 in one chunk of the probe: .3 ms on a core of 2023. The hash stays in the core's
first cache, keeps several of its units busy (a neighbour on the other hyperthread shows) and runs without
Python's lock."""

LEAD, CHUNKS = 2, 6
"""Chunks of a reading that do not count, and those that do. Threads of the round before spin for some tenths
of a millisecond, and the probe's own threads have to wake up."""

MOST_THREADS = 16
"""Cores that are probed at most, spread over all: more threads would wait for Python's lock between
chunks."""

NEAR = 1.10
"""A reading is near the best ones of its own measurement up to this ratio. Modes of a shared host are 1.3 to
1.6; what ran just before moves readings by a few percent."""

FAR = 1.25
"""A reading this far from the host's best one is not clear, whatever the rest of its measurement shows. What
a benchmark leaves behind (a low clock after wide vectors or long waits for memory) moves it by up to .19."""

OTHERS, OF_LIMIT = 0.03, 0.15
"""CPUs' worth of time that other processes may use during a clear round: daemons of a small quiet host use
.01. On many cores it is this part of what the operator lets them use before a machine is not quiet."""

STOLEN = 0.005
"""Share of its CPUs' time that the hypervisor may take from a clear round."""

KNOWN = 20
"""Measurements of one benchmark whose quickest readings are kept, to tell those of later ones."""

EXCUSED_WAIT = 0.05
"""Part of a clear round for which its threads may wait for a CPU longer than in the quickest quarter."""

UNSEEN, OF_CPUS, BLOCK = 0.25, 0.05, 0.5
"""CPUs' worth of time, and part of all CPUs, that processes may use which live too briefly to be listed, over
blocks of rounds of so many seconds: the kernel counts the sum in ticks of its clock."""

ENOUGH = 10
"""Readings of one measurement whose quickest tenth is one that counts."""

SELDOM = 20
"""Of so many values it takes one more until they are counted anew."""

LOST = 10.0
"""Seconds after which a thread of the probe is taken for lost."""

STALE = 0.05
"""Seconds after which a reading no longer represents the moment before a round."""


class Probe:
    """The same calculation on all cores at once; a daemon thread on each core waits for its turn.

    Args:
        cpus: Where it runs; default all that this process may use. Of more than `MOST_THREADS`, or than its
            control group has time for, some are taken, spread over all.
    """

    def __init__(self, cpus: Sequence[int] | None = None) -> None:
        usable = sorted(os.sched_getaffinity(0) if cpus is None else cpus)
        most = max(1, min(MOST_THREADS, usable_threads()))
        self._cpus = usable[:: -(-len(usable) // most)]
        self._begin()

    def _begin(self) -> None:
        """Start the threads; those of before, if there are any, wait for ever."""
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
            while left and self._done.acquire(timeout=LOST):
                left -= 1
        finally:
            if (
                left
            ):  # interrupted by a time-out of the test, or in a forked process without the threads
                self._begin()
        return max(self._seconds) or LOST

    def _work(
        self,
        place: int,
        start: threading.Semaphore,
        done: threading.Semaphore,
        seconds: list[float],
    ) -> None:
        with contextlib.suppress(
            OSError
        ):  # a core that was taken away: the thread runs where it may
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
    """What was seen around one round.

    Attributes:
        probe: The slower one of the readings before and after it, seconds.
        others: CPUs' worth of time that other processes used.
        waited: Seconds for which this run's own threads waited for a CPU, by its length.
        stolen: Share of the CPUs' time that the hypervisor gave to others.
        unseen: Seconds of CPU time that processes used which were not listed.
        seconds: Length of the round.
    """

    probe: float
    others: float = 0.0
    waited: float = 0.0
    stolen: float = 0.0
    unseen: float = 0.0
    seconds: float = 0.0


class Host:
    """The host as one process sees it; keeps the best reading so far.

    Args:
        own: Returns the ids of the processes of this run.
        best: The best reading that is known from before; 0 if none is.
        allowed: Names of commands, as shell patterns, that are part of a quiet machine.
        probe: Reads the moment.
        account: Reads the kernel's counts.
        shared: Others may run on this hardware that the kernel does not show; None looks.
        limit: Share of the CPUs that others may use on a machine that counts as quiet.
        beside: By benchmark and metric, the quickest readings of earlier measurements: what runs just before
            a reading moves it.

    Attributes:
        best: The best reading so far: what a core does when nobody else is there; 0 where nothing is hidden.
        beside: As above, with those of this run.
        others: CPUs' worth of time that others may use during a clear round.
        unseen: CPUs' worth of time that processes may use which were not listed.
    """

    def __init__(
        self,
        own: Callable[[], Sequence[str]],
        best: float = 0.0,
        allowed: Sequence[str] = (),
        *,
        probe: Callable[[], float] | None = None,
        account: Account | None = None,
        shared: bool | None = None,
        limit: float = 0.0,
        beside: Mapping[str, Sequence[float]] | None = None,
    ) -> None:
        hidden = others_may_hide() if shared is None else shared
        self._probe = (probe or Probe().read) if hidden else None
        self._account = account or Account(own, allowed)
        self.best = best if hidden else 0.0
        self.beside = {name: list(known) for name, known in (beside or {}).items()}
        self._cpus = len(os.sched_getaffinity(0))
        self.others = max(OTHERS, OF_LIMIT * limit * self._cpus)
        self.unseen = max(UNSEEN, OF_CPUS * (os.cpu_count() or 1), self.others)
        self._last, self._when = 0.0, -STALE

    def read(self) -> float:
        """Take one reading; 0 where nothing is hidden."""
        if self._probe is None:
            return 0.0
        self._last = self._probe()
        self._when = time.monotonic()
        self.best = min(self.best or self._last, self._last)
        return self._last

    def before(self) -> float:
        """Return the reading before a round: the one after the last round, if that has just ended."""
        return self._last if time.monotonic() - self._when < STALE else self.read()

    def around(self, take: Take) -> tuple[list[float], Moment]:
        """Take one round between two readings; return its values and what was seen."""
        self._account.renew()
        before = self.before()
        old, begin = self._account.read(), time.perf_counter()
        values = take()
        seconds = max(time.perf_counter() - begin, 1e-9)
        new, after = self._account.read(), self.read()
        return values, Moment(
            probe=max(before, after),
            others=max(0.0, new.others - old.others) / seconds,
            waited=max(0.0, new.waited - old.waited) / seconds,
            stolen=max(0.0, new.stolen - old.stolen) / seconds / self._cpus,
            unseen=new.unseen - old.unseen,
            seconds=seconds,
        )

    def remember(self, name: str, reading: float) -> None:
        """Keep the quickest reading of one measurement."""
        if name and reading:
            self.beside[name] = [*self.beside.get(name, ()), reading][-KNOWN:]


class Rounds:
    """The rounds of one measurement, each with its moment.

    Args:
        host: Takes the readings.
        name: Benchmark and metric; empty where nothing is known of earlier ones.

    Attributes:
        values: All values in time order.
    """

    def __init__(self, host: Host, name: str = "") -> None:
        self._host = host
        self._name = name
        known = host.beside.get(name)
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
        """Return whether so many values are clear; with many of them it is worked out now and then."""
        count = len(self.values)
        if count >= max(wanted, self._due):
            self._due, self._clear = count + count // SELDOM, sum(self.clear())
        return self._clear >= wanted

    def some_of(self, wanted: int) -> bool:
        """Return whether some values are clear, but fewer than so many."""
        return 0 < sum(self.clear()) < wanted

    def clear(self) -> list[bool]:
        """Return which values are clear, by all that is known now."""
        if not self._moments:
            return []
        probe = min(self._quickest(), self._known or FAR * self._host.best)
        waited = NEAR * _quantile([one.waited for one in self._moments], 0.25)
        most = min(NEAR * probe, FAR * self._host.best)
        return [
            one.probe <= most
            and one.others <= self._host.others
            and one.waited <= (0.0 if beset else waited) + EXCUSED_WAIT
            and one.stolen <= STOLEN
            for one, beset in zip(self._moments, self._beset(), strict=True)
        ]

    def _beset(self) -> list[bool]:
        """Return for each value whether processes that were not listed used the CPUs about then.

        Their own waiting for a CPU then is no excuse for the threads of a round.
        """
        blocks: list[list[Moment]] = [[]]
        for one in self._moments:
            if sum(other.seconds for other in blocks[-1]) >= BLOCK:
                blocks.append([])
            blocks[-1].append(one)
        found: list[bool] = []
        for block in blocks:
            seconds = max(sum(one.seconds for one in block), BLOCK)
            beset = sum(one.unseen for one in block) > self._host.unseen * seconds
            found += [beset] * len(block)
        return found

    @property
    def shared(self) -> bool:
        """Whether others may run on this hardware that the kernel does not show."""
        return self._host.best > 0

    @property
    def slowdown(self) -> float:
        """By which factor the quickest readings of this measurement are slower than in earlier ones.

        Where there are none it is by how much they are `FAR` from the host's best, if they are.
        """
        usual = self._known or FAR * self._host.best
        return max(1.0, self._quickest() / usual) if self._moments and usual else 1.0

    def ended(self) -> None:
        """Keep the quickest readings for later measurements of the same."""
        quickest = self._quickest() if len(self._moments) >= ENOUGH else math.inf
        if quickest <= FAR * self._host.best:
            self._host.remember(self._name, quickest)

    def _quickest(self) -> float:
        return _quantile([one.probe for one in self._moments], 0.1)


def others_may_hide(files: Files | None = None) -> bool:
    """Return whether others may run on this hardware that the kernel does not show.

    They may beside a virtual machine, as far as processor, hypervisor or firmware tell, and beside a
    container, which sees no threads of the kernel.
    """
    files = files or Files()
    return in_container(files) or is_virtual(files)


def _quantile(numbers: Sequence[float], share: float) -> float:
    return sorted(numbers)[int(share * (len(numbers) - 1))]
