"""Sample sensors around measurements, in a separate thread so that a dead sensor cannot block the test.

All calls that may hang, such as into a vendor library whose card fell off the bus, are made in the sampling
thread. The measuring thread sends requests and waits for an answer until a deadline. If none comes, telemetry
is given up for the rest of the run, and every envelope says so.
"""

from __future__ import annotations

import math
import queue
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Self

from pytest_anubis.hardware.load.host_load import LoadReader
from pytest_anubis.hardware.load.process_load import command_name
from pytest_anubis.hardware.telemetry.amd_sensors import AmdSource
from pytest_anubis.hardware.telemetry.host_sensors import HOST, Asked, HostSource, Reading, Source
from pytest_anubis.hardware.telemetry.kernel_log import KernelLog, kernel_events
from pytest_anubis.hardware.telemetry.measurement_envelope import Envelope, make_envelope
from pytest_anubis.hardware.telemetry.network_counters import NetworkSource
from pytest_anubis.hardware.telemetry.nvidia_sensors import NvidiaSource

INTERVAL = 0.2
"""Seconds between samples: clocks and power of a card change within about 0.1 s, and five readings a
second cost well under a percent of one core (see docs/decisions.md)."""

DEADLINE = 5.0
"""Seconds within which the sensors must answer; NVML's slowest calls take some tens of milliseconds."""

FIRST = 60.0
"""Seconds within which the first answer must come. Without persistence the driver starts every card when NVML
is opened, which takes some seconds for each, and nine processes wait for each other."""

COUNTERS_EVERY = 2
"""Samples per reading of the counters, times the cards that are read: `standard` measures a card for 6.5 s,
and twelve readings show since when a counter rises. One card's take half a millisecond of the interpreter, as
ten samples do. The host's, in a file for each CPU, are read before and after only."""

COST_SHARE = 0.05
"""Maximum share of one thread's time for sampling, most of which is waiting in a driver: slow sensors are
read less often. The same holds for counters, of which NVLinks and AMD's blocks have many."""

FRESH = 0.25
"""Seconds for which a reading with counters also serves as the beginning of the next test: a reading of eight
cards takes some milliseconds, too long for a trivial test to wait."""

LINGER = 1.0
"""Seconds for which sampling continues after the last request. It is longer than `FRESH`, so the thread still
samples after a mark that reuses an earlier reading."""

MAX_SAMPLES = 2000
"""Maximum number of samples of one measurement; at this number every second one is dropped and the interval
is doubled."""


@dataclass(slots=True)
class Observation:
    """The telemetry of one measurement; `envelope` is set at its end."""

    envelope: Envelope = field(default_factory=lambda: Envelope(seconds=0.0))


@dataclass(frozen=True, slots=True)
class Mark:
    """A moment at which an envelope can begin."""

    when: float  # the moment, by the monotonic clock
    lines: int  # number of lines of the kernel log read by then


class Telemetry:
    """A sampler of sources around measurements.

    ::

        with Telemetry() as telemetry:
            with telemetry.around() as around:
                measure()
            print(around.envelope.evidence)

    Args:
        sources: Sources to read; default the host and all cards.
        interval: Seconds between samples.
        deadline: Seconds within which the sensors must answer.
        first: The same for the first answer.
        root: Process whose tree counts as our own among a card's users.
        log: The kernel's log; None leaves it out.
        allowed: Names of commands, as shell patterns, that may use a card meanwhile.

    Attributes:
        counted: Cards whose counters are read during a measurement as well; empty: all.
        dead: Why telemetry was given up; empty while it works.
    """

    def __init__(
        self,
        sources: Iterable[Source] | None = None,
        *,
        interval: float = INTERVAL,
        deadline: float = DEADLINE,
        first: float = FIRST,
        root: int | None = None,
        log: Path | None = Path("/dev/kmsg"),
        allowed: Sequence[str] = (),
    ) -> None:
        self._sources = list(sources) if sources is not None else default_sources()
        self._interval = interval
        self._deadline = deadline
        self._first = max(first, deadline)
        self._opened = threading.Event()
        self._load = LoadReader(root=root)
        self._allowed = allowed
        self._log_path = log
        self._log: KernelLog | None = None
        self._requests: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[_Seen] = queue.SimpleQueue()
        self._lines: list[str] = []  # of the kernel log, since the oldest mark
        self._asked = float("-inf")  # when counters were last requested without waiting
        self._mark: Mark | None = None
        self._thread = threading.Thread(target=self._serve, name="anubis-telemetry", daemon=True)
        self._failed: list[str] = []
        self.counted: Collection[str] = ()
        self.dead = ""

    def __enter__(self) -> Self:
        if self._log_path is not None:
            self._log = KernelLog(self._log_path)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._requests.put("close")
        # A thread that hangs in a vendor library is left running; it is a daemon.
        self._thread.join(timeout=0.0 if self.dead else self._deadline)
        if self._log is not None:
            self._log.close()

    @contextmanager
    def around(self) -> Iterator[Observation]:
        """Sample while the block runs, without raising for a sensor or waiting beyond the deadline."""
        known = self._read_log()  # earlier messages do not belong to this measurement
        around = Observation()
        begin = self._request("begin").end
        started = time.monotonic()
        try:
            yield around
        finally:
            seconds = time.monotonic() - started
            seen = self._request("end")
            samples = _between(seen.samples, started, started + seconds)
            self._read_log()
            around.envelope = self._envelope(begin, samples, seen.end, seconds, self._lines[known:])

    def mark(self) -> Mark:
        """Mark this moment, without waiting for any sensor; it replaces the mark before.

        Sampling continues from here until `since` is called or the next test is marked.
        """
        now = time.monotonic()
        if now - self._asked > FRESH:  # trivial tests share a reading
            self._asked = now
            if not self.dead:
                self._requests.put("counters")
        self._lines.clear()
        self._mark = Mark(now, self._read_log())
        return self._mark

    def since(self, mark: Mark) -> Envelope:
        """Return the envelope of the time since the latest mark, waiting as `around` does at its end.

        Counters are compared with the last reading at or before the mark (at most `FRESH` seconds older),
        else with the first one after it.
        """
        seconds = time.monotonic() - mark.when
        seen = self._request("end")
        self._read_log()
        begin = next((one for when, one in reversed(seen.counted) if when <= mark.when), None)
        if begin is None:
            begin = seen.counted[0][1] if seen.counted else seen.end
        samples = _between(seen.samples, mark.when, mark.when + seconds)
        return self._envelope(begin, samples, seen.end, seconds, self._lines[mark.lines :])

    def unmark(self) -> None:
        """Remove the mark: no envelope since then will be requested."""
        self._mark = None

    def _read_log(self) -> int:
        """Read the kernel's new messages; return the number of lines read so far."""
        if self._log is not None:
            self._lines += self._log.new_lines()
        return len(self._lines)

    def _envelope(
        self,
        begin: Reading,
        samples: Sequence[tuple[float, Reading]],
        end: Reading,
        seconds: float,
        lines: list[str],
    ) -> Envelope:
        ours: set[int] = set()
        visible: dict[int, str] = {}
        if begin.users or end.users:
            ours = {int(process) for process in self._load.tree()}
            listed = {pid for reading in (begin, end) for u in reading.users.values() for pid in u}
            visible = {pid: command_name(pid) for pid in listed if Path(f"/proc/{pid}").exists()}
        lost = [*self._failed, *([self.dead] if self.dead else [])]
        if self._log is not None and self._log.unreadable:
            lost.append(self._log.unreadable)
        return make_envelope(
            replace(begin, lost=(*lost, *begin.lost)),
            samples,
            end,
            seconds=seconds,
            events=kernel_events(lines),
            ours=ours,
            visible=visible,
            allowed=self._allowed,
            counted=self._counted(begin),
        )

    def _request(self, what: Literal["begin", "end"]) -> _Seen:
        if self.dead:
            return _Seen()
        self._requests.put(what)
        if not self._opened.wait(self._first):
            return self._given_up(self._first)
        try:
            return self._answers.get(timeout=self._deadline)
        except queue.Empty:
            return self._given_up(self._deadline)

    def _given_up(self, limit: float) -> _Seen:
        self.dead = f"telemetry: the sensors did not answer within {limit:g} s"
        return _Seen()

    def _serve(self) -> None:
        """Run the sampling thread: answer requests, and sample while an envelope may be requested."""
        self._sources = opened(self._sources, self._failed)
        self._opened.set()
        samples: list[tuple[float, Reading]] = []
        counted: list[tuple[float, Reading]] = []
        pause, every, busy, until = self._interval, COUNTERS_EVERY, False, 0.0
        cards: Collection[str] = ()
        while True:
            sampling = busy or self._mark is not None or time.monotonic() < until
            try:
                request = self._requests.get(timeout=pause if sampling else None)
            except queue.Empty:
                request = "sample"
            if request == "close":
                break
            counting = len(samples) % every == every - 1
            before = time.monotonic()
            reading = read_all(self._sources, request != "sample" or (counting and cards))
            took = time.monotonic() - before
            if request == "sample":
                samples.append((before, reading))
                if not counting:
                    pause = max(pause, took / COST_SHARE)
                if len(samples) >= MAX_SAMPLES:
                    # Readings with counters are few, and all at odd places.
                    samples[:] = [
                        one
                        for place, one in enumerate(samples)
                        if place % 2 == 0 or one[1].counters
                    ]
                    pause *= 2
                continue
            counted.append((before, reading))
            cards = self._counted(reading)
            took *= len(cards) / max(1, len(reading.counters))
            least = COUNTERS_EVERY * max(1, len(cards))
            every = max(least, math.ceil(took / COST_SHARE / self._interval))
            busy, until = request == "begin", time.monotonic() + LINGER
            if request != "counters":
                self._answers.put(_Seen(reading, tuple(samples), tuple(counted)))
            mark = self._mark
            if request != "end" and (mark is None or request == "counters"):
                samples, pause = [], self._interval
            del counted[: _needless(counted, mark)]
        for source in self._sources:
            source.close()

    def _counted(self, reading: Reading) -> Collection[str]:
        """Return the cards of a reading whose counters are read during a measurement."""
        cards = reading.counters.keys() - {HOST}
        return cards.intersection(self.counted) or cards


@dataclass(frozen=True, slots=True)
class _Seen:
    """The sampling thread's answer: the requested reading, samples, and readings with counters, by time."""

    end: Reading = field(default_factory=Reading)
    samples: tuple[tuple[float, Reading], ...] = ()
    counted: tuple[tuple[float, Reading], ...] = ()


def _between(
    samples: Sequence[tuple[float, Reading]], begin: float, end: float
) -> list[tuple[float, Reading]]:
    """Return the samples between two times, with the seconds since the first."""
    return [(when - begin, one) for when, one in samples if begin <= when <= end]


def _needless(counted: Sequence[tuple[float, Reading]], mark: Mark | None) -> int:
    """Return the number of readings with counters before the one at which a mark's envelope begins."""
    last = mark.when if mark is not None else float("inf")
    return max(0, sum(when <= last for when, _ in counted) - 1)


def opened(sources: Iterable[Source], failed: list[str]) -> list[Source]:
    """Open sources; return those that could be opened, and add a note about each other one to `failed`."""
    found = []
    for source in sources:
        try:
            source.open()
            found.append(source)
        except Exception as error:  # vendor libraries raise anything
            failed.append(_failure(source, error))
    return found


def read_all(sources: Iterable[Source], counters: Asked) -> Reading:
    """Read sources; one that fails is noted as lost and does not affect the others."""
    found = []
    for source in sources:
        try:
            found.append(source.read(counters))
        except Exception as error:  # a sensor must never stop a measurement
            found.append(Reading(lost=(_failure(source, error),)))
    return merge(found)


def _failure(source: Source, error: Exception) -> str:
    return f"{type(source).__name__}: {type(error).__name__}: {error}"


def merge(readings: Iterable[Reading]) -> Reading:
    """Join readings of different parts into one."""
    values: dict[str, Any] = {}
    counters: dict[str, Any] = {}
    users: dict[str, Any] = {}
    lost: list[str] = []
    for reading in readings:
        values.update(reading.values)
        for part, counts in reading.counters.items():
            counters[part] = {**counters.get(part, {}), **counts}
        users.update(reading.users)
        lost.extend(reading.lost)
    return Reading(values=values, counters=counters, users=users, lost=tuple(lost))


def default_sources(uuids: Collection[str] | None = None) -> list[Source]:
    """Return the sources of this machine: the host, NVIDIA's cards, AMD's, and the network.

    Args:
        uuids: Only these cards of NVIDIA, and no AMD cards; None: all cards.
    """
    if uuids is not None:
        return [HostSource(), NvidiaSource(uuids), NetworkSource()]
    return [HostSource(), NvidiaSource(), AmdSource(), NetworkSource()]


def take_readings(
    sources: Sequence[Source], count: int, interval: float = INTERVAL
) -> list[Reading]:
    """Read sources `count` times with counters, e.g. to record a node."""
    for source in sources:
        source.open()
    try:
        readings = []
        for number in range(count):
            if number:
                time.sleep(interval)
            readings.append(merge(source.read(counters=True) for source in sources))
        return readings
    finally:
        for source in sources:
            source.close()
