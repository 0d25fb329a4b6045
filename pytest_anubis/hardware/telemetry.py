"""Sampling sensors around measurements, in a thread of its own that a dead sensor cannot take along.

Everything that may hang (a vendor library whose card fell off the bus) happens in the sampling thread.
The measuring thread only hands over requests and waits for an answer within a deadline; when none comes,
telemetry is given up for the rest of the run, and every envelope says so.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Self

from pytest_anubis.hardware.envelope import Envelope, make_envelope
from pytest_anubis.hardware.kernel_log import KernelLog, kernel_events
from pytest_anubis.hardware.load import LoadReader
from pytest_anubis.hardware.sensors import HostSource, Reading, Source
from pytest_anubis.hardware.sensors_amd import AmdSource
from pytest_anubis.hardware.sensors_nvidia import NvidiaSource

INTERVAL = 0.2
"""Seconds between samples: clocks and power of a card change within about 0.1 s, and five readings a
second cost well under a percent of one core (see benchmarks/telemetry_disturbance.py)."""

DEADLINE = 5.0
"""Seconds within which the sensors must answer; NVML's slowest calls take some tens of milliseconds."""

COST_SHARE = 0.05
"""Largest share of one thread's time that sampling may take, most of it waiting in a driver: slow sensors
are read less often."""

MOST_SAMPLES = 2000
"""Samples kept of one measurement; of a longer one every second is dropped and the pace halved."""


@dataclass(slots=True)
class Around:
    """Handed out at the beginning of a measurement; `envelope` is there after its end."""

    envelope: Envelope = field(default_factory=lambda: Envelope(seconds=0.0))


class Telemetry:
    """Samples sources around measurements.

    ::

        with Telemetry() as telemetry:
            with telemetry.around() as around:
                measure()
            print(around.envelope.evidence)

    Args:
        sources: What to read; default the host and all cards.
        interval: Seconds between samples.
        deadline: Seconds within which the sensors must answer.
        root: Process whose tree counts as our own when a card's users are looked at.
        log: The kernel's log; None leaves it out.

    Attributes:
        dead: Why telemetry was given up; empty while it works.
    """

    def __init__(
        self,
        sources: Iterable[Source] | None = None,
        *,
        interval: float = INTERVAL,
        deadline: float = DEADLINE,
        root: int | None = None,
        log: Path | None = Path("/dev/kmsg"),
    ) -> None:
        self._sources = list(sources) if sources is not None else default_sources()
        self._interval = interval
        self._deadline = deadline
        self._load = LoadReader(root=root)
        self._log_path = log
        self._log: KernelLog | None = None
        self._requests: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[tuple[Reading, list[tuple[float, Reading]]]] = (
            queue.SimpleQueue()
        )
        self._thread = threading.Thread(target=self._serve, name="anubis-telemetry", daemon=True)
        self._failed: list[str] = []
        self.dead = ""

    def __enter__(self) -> Self:
        if self._log_path is not None:
            self._log = KernelLog(self._log_path)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._requests.put("close")
        # A thread that hangs in a vendor library is left behind; it is a daemon.
        self._thread.join(timeout=0.0 if self.dead else self._deadline)
        if self._log is not None:
            self._log.close()

    @contextmanager
    def around(self) -> Iterator[Around]:
        """Sample while the block runs; never raises for a sensor, and never waits beyond the deadline."""
        if self._log is not None:
            self._log.new_lines()  # what happened before is not this measurement's
        around = Around()
        begin, _ = self._request("begin")
        started = time.monotonic()
        try:
            yield around
        finally:
            seconds = time.monotonic() - started
            end, samples = self._request("end")
            around.envelope = self._envelope(begin, samples, end, seconds)

    def _envelope(
        self,
        begin: Reading,
        samples: Sequence[tuple[float, Reading]],
        end: Reading,
        seconds: float,
    ) -> Envelope:
        ours: set[int] = set()
        visible: set[int] = set()
        if begin.users or end.users:
            ours = {int(process) for process in self._load.tree()}
            listed = {pid for reading in (begin, end) for u in reading.users.values() for pid in u}
            visible = {pid for pid in listed if Path(f"/proc/{pid}").exists()}
        lost = [*self._failed, *([self.dead] if self.dead else [])]
        if self._log is not None and self._log.unreadable:
            lost.append(self._log.unreadable)
        return make_envelope(
            replace(begin, lost=(*lost, *begin.lost)),
            samples,
            end,
            seconds=seconds,
            events=kernel_events(self._log.new_lines() if self._log else []),
            ours=ours,
            visible=visible,
        )

    def _request(
        self, what: Literal["begin", "end"]
    ) -> tuple[Reading, list[tuple[float, Reading]]]:
        if self.dead:
            return Reading(), []
        self._requests.put(what)
        try:
            return self._answers.get(timeout=self._deadline)
        except queue.Empty:
            self.dead = f"telemetry: the sensors did not answer within {self._deadline:g} s"
            return Reading(), []

    def _serve(self) -> None:
        """The sampling thread: wait for requests; sample between ``begin`` and ``end``."""
        self._open()
        samples: list[tuple[float, Reading]] = []
        started: float | None = None
        pause = self._interval
        while True:
            try:
                request = self._requests.get(timeout=None if started is None else pause)
            except queue.Empty:
                request = "sample"
            before = time.monotonic()
            if request == "begin":
                reading, samples, pause = self._read(counters=True), [], self._interval
                started = time.monotonic()
                self._answers.put((reading, []))
            elif request == "sample" and started is not None:
                samples.append((before - started, self._read(counters=False)))
                pause = max(pause, (time.monotonic() - before) / COST_SHARE)
                if len(samples) >= MOST_SAMPLES:
                    del samples[1::2]
                    pause *= 2
            elif request == "end":
                started = None
                self._answers.put((self._read(counters=True), samples))
            elif request == "close":
                break
        for source in self._sources:
            source.close()

    def _open(self) -> None:
        """Open all sources; one that cannot be opened is left out, and every envelope says so."""
        opened = []
        for source in self._sources:
            try:
                source.open()
                opened.append(source)
            except Exception as error:  # whatever a vendor library comes up with
                self._failed.append(f"{type(source).__name__}: {type(error).__name__}: {error}")
        self._sources = opened

    def _read(self, counters: bool) -> Reading:
        """Read all sources; one that fails altogether does not take the others along."""
        found = []
        for source in self._sources:
            try:
                found.append(source.read(counters))
            except Exception as error:  # the last resort: a sensor may never stop a measurement
                name = type(source).__name__
                found.append(Reading(lost=(f"{name}: {type(error).__name__}: {error}",)))
        return merge(found)


def merge(readings: Iterable[Reading]) -> Reading:
    """Join readings of different parts into one."""
    values: dict[str, Any] = {}
    counters: dict[str, Any] = {}
    users: dict[str, Any] = {}
    lost: list[str] = []
    for reading in readings:
        values.update(reading.values)
        counters.update(reading.counters)
        users.update(reading.users)
        lost.extend(reading.lost)
    return Reading(values=values, counters=counters, users=users, lost=tuple(lost))


def default_sources(uuids: Collection[str] | None = None) -> list[Source]:
    """Return the sources of this machine: the host, NVIDIA's cards and AMD's.

    Args:
        uuids: Only these cards of NVIDIA, and none of AMD; None: all.
    """
    if uuids is not None:
        return [HostSource(), NvidiaSource(uuids)]
    return [HostSource(), NvidiaSource(), AmdSource()]


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
