"""The pace of the host: short probes in turns with the rounds of a measurement.

What makes a shared host slower (a lower clock, a neighbour on the other hyperthread, lost slices of time)
changes within a second, so only a probe that runs between two rounds sees what the rounds see. A probe is a
fixed piece of work of its kind; its time, beside that of the other probes of the same kind, is the pace.
"""

from __future__ import annotations

import fcntl
import hashlib
import mmap
import os
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from pytest_anubis.hardware.text_files import Files

Take = Callable[[], list[float]]
Pace = tuple[tuple[str, tuple[float, ...]], ...]
"""(Kind, seconds of a probe beside each value) pairs."""

SHARE = 0.08
"""Part of a long round's time that is spent on probes behind it: below a tenth, what measuring may cost."""

READINGS = 4
"""Readings of every probe behind a round, at least: with one the reading's own noise hides the pace. Beside
rounds of 20 ms on a shared machine the spread that four left was half to nine tenths of that which one left;
more were no better."""

STALE = 0.05
"""Seconds after which a reading is not that of what begins now: the pauses between bursts are longer."""

MOST_REPEATS = 20
"""Readings behind one round, at most: of rounds of seconds that is some .1 s, and more tells nothing new."""

MOST_SPENT = 0.02
"""Seconds of readings behind a short round after which none is begun but the first of each kind: as long as
such a round. Where others have the CPUs a reading takes many times its half a millisecond, the product's most
of all, whose threads wait for each other; it then is a mean over many slices of time by itself."""

HASHED = 1 << 19
"""Bytes that the probe of arithmetic hashes: about half a millisecond, out of a core's own cache."""

SIDE = 320
"""Side of the matrices whose product is a probe: about half a millisecond on two cores."""

STREAMED, STREAM_STEP = 96 << 20, 2 << 20
"""Bytes that the probe of memory walks through, and those of one reading: far more than a core's own caches,
some of a millisecond."""

SENT, MESSAGES = 1 << 16, 30
"""Bytes of one message that the probe of the kernel sends to itself, and how many: about a millisecond."""

BLOCK, ON_DISK = 1 << 18, 1 << 23
"""Bytes that the probe of the disk reads and writes at a time, and of its file: half a millisecond on a
fast drive, and more than one of its own pages."""

WAITING = "waiting"
"""The kind that is no probe but the kernel's own account of the rounds: how much longer they took because
others had the CPUs that their threads asked for."""

MOST_WAITING = 100.0
"""Largest ratio of what the rounds took to what they ran: nothing is known of one that hardly ran."""


class Pacer:
    """Reads the pace before and after every round of a measurement.

    Args:
        kinds: Keys of `PROBES`, and `WAITING`; a kind that this host has not is left out.
        clock: Reads seconds.
        files: Reads the kernel's account.
        folder: On the disk that is measured; None for the folder of temporary files.
    """

    def __init__(
        self,
        kinds: Collection[str],
        clock: Callable[[], float] = time.perf_counter,
        files: Files | None = None,
        folder: Path | None = None,
    ) -> None:
        self._clock = clock
        self._files = files or Files()
        self._folder = folder
        self._opened = ExitStack()
        self._kinds = tuple(kinds)
        self._probes: dict[str, Callable[[], object]] = {}
        self._waiting = WAITING in kinds and self._account() is not None
        self._failed: set[str] = set()
        self._found: dict[str, list[float]] = {}
        self._before: dict[str, float] = {}
        self._read_at = -STALE

    def between(self, take: Take) -> Take:
        """Return the same measurement of one round, with a reading before it and one after it."""
        self._prepare()

        def paced() -> list[float]:
            begin = self._clock()
            if not self._before or begin - self._read_at > STALE:
                self._before = self._read(0.0)
            account = self._account() if self._waiting else None
            begin = self._clock()
            fresh = take()
            took = self._clock() - begin
            found = {WAITING: self._longer(account)} if account is not None else {}
            after = self._read(took)
            found |= {kind: (self._before[kind] + new) / 2 for kind, new in after.items()}
            for kind, seconds in found.items():
                self._found.setdefault(kind, []).extend([seconds] * len(fresh))
            self._before = after
            return fresh

        return paced if self._probes or self._waiting else take

    def taken(self, count: int) -> Pace:
        """Return what was read beside the values since the last call, and forget it.

        Args:
            count: Values of the measurement; readings of another number, as of a measurement that stopped
                half-way, belong to none.
        """
        found, self._found, self._before = self._found, {}, {}
        return tuple((kind, tuple(each)) for kind, each in found.items() if len(each) == count)

    def close(self) -> None:
        """Close what the probes have opened."""
        self._opened.close()

    def _prepare(self) -> None:
        """Make the probes that there are not yet: another test may have loaded what one needs."""
        for kind in self._kinds:
            if kind in PROBES and kind not in self._probes and kind not in self._failed:
                try:
                    made = PROBES[kind](self._opened, self._folder)
                    made()  # pays for pages and caches
                except (OSError, MemoryError):  # without it a measurement is what it was
                    if kind != "product":  # torch may be loaded by a later test
                        self._failed.add(kind)
                else:
                    self._probes[kind] = made

    def _read(self, beside: float) -> dict[str, float]:
        """Read every probe, longer behind a long round; return the mean seconds of each.

        The mean and not the least: a slice of time that a neighbour took is what the rounds lose as well.
        """
        spent = dict.fromkeys(self._probes, 0.0)
        done = 0
        while not done or _more(done, sum(spent.values()), beside):
            for kind, probe in list(self._probes.items()):
                begin = self._clock()
                try:
                    probe()
                except OSError:  # a full or broken disk: the benchmark says so, its pace is unknown
                    del self._probes[kind], spent[kind]
                    self._failed.add(kind)
                    continue
                spent[kind] += self._clock() - begin
            done += 1
        self._read_at = self._clock()
        return {kind: seconds / done for kind, seconds in spent.items()}

    def _account(self) -> tuple[float, float] | None:
        """Return seconds that this process, its threads and their children ran, and that they waited.

        What the hypervisor gave to others counts as waiting. None where the kernel does not say.
        """
        ran = waited = 0.0
        processes = ["self"]
        for process in processes:  # grows while children are found
            folder = f"/proc/{process}/task"
            try:
                threads = [entry.name for entry in self._files.path(folder).iterdir()]
            except OSError:
                continue  # a child that has ended
            for thread in threads:
                numbers = self._files.quick(f"{folder}/{thread}/schedstat").split()
                if len(numbers) == 3:
                    ran += int(numbers[0]) / 1e9
                    waited += int(numbers[1]) / 1e9
                processes += self._files.quick(f"{folder}/{thread}/children").split()
        if not ran:
            return None
        stolen = self._files.quick("/proc/stat").partition("\n")[0].split()
        return ran, waited + (int(stolen[8]) * TICK if len(stolen) > 8 else 0.0)

    def _longer(self, before: tuple[float, float]) -> float:
        """Return by which factor what was run since then took longer for waiting."""
        ran, waited = (
            new - old for new, old in zip(self._account() or before, before, strict=True)
        )
        if waited <= 0:
            return 1.0
        return min(1 + waited / ran, MOST_WAITING) if ran > 0 else MOST_WAITING


def _more(done: int, spent: float, beside: float) -> bool:
    """Return whether every probe is read once more, after so many readings of each.

    Args:
        done: Readings of each, at least one.
        spent: Seconds that all of them took.
        beside: Seconds of the round that they stand behind; 0 of none.
    """
    if done < READINGS:
        return spent < max(MOST_SPENT, SHARE * beside)
    return 0 < spent < SHARE * beside and done < MOST_REPEATS


TICK = 1 / os.sysconf("SC_CLK_TCK")
"""Seconds of the unit in which the kernel counts stolen time."""


def _arithmetic(*_: object) -> Callable[[], object]:
    """Hash bytes that stay in a core's cache: the clock, and what a neighbour on it leaves."""
    data = bytes(HASHED)
    return lambda: hashlib.sha256(data).digest()


def _product(*_: object) -> Callable[[], object]:
    """Multiply two matrices on all threads of the benchmark: each waits for the slowest, as its own do."""
    torch = sys.modules.get("torch")
    if torch is None:
        raise OSError("no benchmark here computes with torch")
    one, other, out = (torch.ones(SIDE, SIDE) for _ in range(3))
    return lambda: torch.mm(one, other, out=out)


def _memory(*_: object) -> Callable[[], object]:
    """Copy a stretch of memory, each time another one, so that no core's own cache holds it."""
    import numpy as np

    source, target = (np.ones(STREAMED // 8) for _ in range(2))
    step, at = STREAM_STEP // 8, 0

    def walk() -> None:
        nonlocal at
        np.copyto(target[at : at + step], source[at : at + step])
        at = (at + step) % len(source)

    return walk


def _network(opened: ExitStack, *_: object) -> Callable[[], object]:
    """Send to oneself through the loopback interface: system calls and the network stack."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        sender = opened.enter_context(socket.create_connection(server.getsockname(), timeout=1.0))
        receiver = opened.enter_context(server.accept()[0])
    data, taken = bytes(SENT), memoryview(bytearray(SENT))

    def send() -> None:
        with _on_the_last_cpu():
            for _ in range(MESSAGES):
                sender.sendall(data)
                left = SENT
                while left:
                    left -= receiver.recv_into(taken[:left])

    return send


@contextmanager
def _on_the_last_cpu() -> Iterator[None]:
    """Stay on the last CPU, as the benchmarks of the loopback do: a neighbour slows one core at a time."""
    if not hasattr(os, "sched_setaffinity"):  # such a system cannot be asked to
        yield
        return
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def _disk(opened: ExitStack, folder: Path | None) -> Callable[[], object]:
    """Read and write blocks of a file of its own past the page cache, each time others."""
    descriptor, name = tempfile.mkstemp(prefix="anubis-pace-", dir=folder)
    with ExitStack() as stack:
        stack.callback(os.close, descriptor)
        Path(name).unlink()  # at once: whoever is killed leaves nothing
        # Of the file that is open: its name could be another's by now.
        direct = fcntl.fcntl(descriptor, fcntl.F_GETFL) | getattr(os, "O_DIRECT", 0)
        fcntl.fcntl(descriptor, fcntl.F_SETFL, direct)
        block = stack.enter_context(mmap.mmap(-1, BLOCK))  # in whole pages, as O_DIRECT wants
        for at in range(0, ON_DISK, BLOCK):
            os.pwritev(descriptor, [block], at)
        opened.push(stack.pop_all())
    at = 0

    def reach() -> None:
        nonlocal at
        os.preadv(descriptor, [block], at)
        os.pwritev(descriptor, [block], at)
        at = (at + BLOCK) % ON_DISK

    return reach


PROBES: dict[str, Callable[[ExitStack, Path | None], Callable[[], object]]] = {
    "compute": _arithmetic,
    "product": _product,
    "memory": _memory,
    "network": _network,
    "disk": _disk,
}
"""Kind -> makes its probe; OSError where this process or host has none of that kind."""


def kinds_for(resources: Collection[str]) -> tuple[str, ...]:
    """Return the kinds of probes that can tell something about a benchmark.

    Args:
        resources: What it occupies by its mark; network stack and disk are probed where they are among it.
    """
    own = (kind for kind in ("network", "disk") if kind in resources)
    return ("compute", "product", "memory", *own, WAITING)
