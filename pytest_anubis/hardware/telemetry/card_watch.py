"""Watch all cards during a run: error counters between tests, the kernel log, and NVML's events.

Calls that may hang run in separate threads, and no caller waits for them longer than a deadline. One process
keeps NVML open during the run, so the others can open it quickly even without driver persistence.
`hardware_watch` uses it.
"""

from __future__ import annotations

import ctypes
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from pytest_anubis.hardware.inventory.nvml import Nvml, code_of
from pytest_anubis.hardware.telemetry.amd_sensors import AmdSource
from pytest_anubis.hardware.telemetry.card_facts import (
    EVENT_XID,
    EVENTS,
    Fact,
    counter_facts,
    event_fact,
    link_facts,
    log_facts,
    lost_facts,
    module_facts,
    silent_facts,
)
from pytest_anubis.hardware.telemetry.error_places import ErrorPlaces
from pytest_anubis.hardware.telemetry.host_sensors import Reading, Source
from pytest_anubis.hardware.telemetry.kernel_log import KernelLog, kernel_events
from pytest_anubis.hardware.telemetry.nvidia_sensors import NvidiaSource
from pytest_anubis.hardware.telemetry.telemetry_sampler import FIRST, opened, read_all

LAST = 15.0
"""Seconds within which the last reading must come: a busy driver always answers sooner."""

PACE = 1.0
"""Minimum seconds between two readings of the counters: one of eight cards takes some tens of milliseconds in
the driver that measurements use too, and there may be many trivial tests."""

WAIT = 500
"""Milliseconds for which NVML waits for an event, and therefore the maximum delay of the last one."""

LOG_PACE = 5.0
"""Maximum seconds between two readings of the kernel log, whose ring buffer is limited."""

LOG_LOST = Fact(
    sort="log-lost",
    name="kernel log",
    text="messages of the kernel were overwritten before they could be read",
    source="kernel log",
)

MAX_REPEATS = 20
"""Maximum number of equal reports about a card: a failing link reports thousands, and people read the journal
too."""

_TIMEOUT = 10  # NVML's code for "no event came"

Report = Callable[[Sequence[Fact], bool], None]
"""Receives facts, and whether they complete a reading of all counters."""


class CardWatch:
    """A watch of all cards, which reads error counters on request and receives the driver's messages.

    Args:
        report: Receives the facts, in threads of the watch.
        sources: Sources to read; default NVIDIA's and AMD's cards.
        log: The kernel's log; None leaves it out.
        first: Seconds within which the first reading must come; without persistence it starts the driver.
        deadline: Seconds within which the last reading must come.
        pace: Minimum seconds between two readings.
        wait: Milliseconds for which NVML waits for an event.

    Attributes:
        without_events: Card -> why it sends no events; set before the first reading is ready.
    """

    def __init__(
        self,
        report: Report,
        *,
        sources: Sequence[Source] | None = None,
        log: KernelLog | None = None,
        first: float = FIRST,
        deadline: float = LAST,
        pace: float = PACE,
        wait: int = WAIT,
    ) -> None:
        self._report = report
        self._sources: list[Source] = (
            list(sources) if sources is not None else [NvidiaSource(), AmdSource()]
        )
        self._log = log
        self._places = ErrorPlaces()
        self._first_deadline = first
        self._deadline = deadline
        self._pace = pace
        self._wait = wait
        self._requests: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._ready = threading.Event()
        self._done = threading.Event()
        self._hurry = threading.Event()
        self._stop = threading.Event()
        self._repeats: Counter[tuple[str, str, str]] = Counter()
        self._reporting = threading.Lock()
        self._over = False  # later facts do not belong to the run
        self._pending = False  # a reading was requested and has not begun
        self._silent = False
        self._failed: list[str] = []  # sources that could not be opened
        self._listener: _Listener | None = None
        self.without_events: dict[str, str] = {}
        self._thread = threading.Thread(target=self._serve, name="anubis-card-watch", daemon=True)

    def start(self) -> None:
        """Open everything and take the first reading, without waiting for it."""
        self._thread.start()

    def wait_ready(self) -> bool:
        """Wait for the first reading, with which all others are compared; False if it does not come."""
        if not self._ready.wait(self._first_deadline):
            self._gave_up(self._first_deadline)
        return self._ready.is_set()

    def look(self) -> None:
        """Request a reading of the counters, unless one is pending; never waits.

        A reading that does not end is reported at the end of the run. A slow driver hides nothing, because
        counters only grow.
        """
        if not self._pending:
            self._pending = True
            self._requests.put("look")

    def finish(self) -> None:
        """Take the last reading, report it and release everything, at the latest at the deadline.

        Nothing is reported afterwards, even if a driver that hangs answers later.
        """
        if not self._thread.is_alive() and not self._ready.is_set():
            return  # never started
        self._hurry.set()
        self._requests.put("last")
        if not self._done.wait(self._deadline):
            self._gave_up(self._deadline)
        self._stop.set()
        if self._log is not None:
            if not self._done.is_set():  # the thread hangs, so the kernel log is read here
                self._send(self._log_facts(last=True), False)
            self._log.close()
        with self._reporting:
            self._over = True

    def _send(self, facts: Sequence[Fact], complete: bool) -> None:
        with self._reporting:
            if not self._over:
                self._report(facts, complete)

    def _gave_up(self, limit: float) -> None:
        if not self._silent:
            self._silent = True
            text = (
                f"the driver's library did not answer within {limit:g} s: no error counter was read"
            )
            self._send([Fact(sort="card-silent", name="error counters", text=text)], False)

    def _serve(self) -> None:
        self._sources = opened(self._sources, self._failed)
        first = before = self._read()
        began = last = time.monotonic()
        self._listen()
        self._ready.set()
        request = ""
        while request != "last":
            try:
                request = self._requests.get(timeout=LOG_PACE)
            except queue.Empty:
                if facts := self._new(self._log_facts()):
                    self._send(facts, False)
                continue
            if request != "last" and (rest := last + self._pace - time.monotonic()) > 0:
                self._hurry.wait(rest)
            if self._stop.is_set():
                break
            self._pending = False
            after = self._read()
            last = time.monotonic()
            facts = [
                *lost_facts(after.lost),
                *counter_facts(before, after),
                *link_facts(first, after, last - began),
                *(silent_facts(after.lost) if request == "last" else ()),
                *self._log_facts(last=request == "last"),
            ]
            if request == "last" and self._listener is not None:
                self._listener.drain(self._deadline / 2)
            before = _kept(before, after)
            self._send(self._new(facts), True)
        self._done.set()
        self._stop.set()
        # Closing a library while another thread waits in it may crash the process.
        if self._listener is None or self._listener.ended(self._deadline):
            for source in self._sources:
                source.close()

    def _log_facts(self, *, last: bool = False) -> list[Fact]:
        """Return the facts from new lines of the kernel log, with `LOG_LOST` if messages are missing.

        The last ones of a run say where the errors of its memory modules are.
        """
        if self._log is None:
            return []
        lines = self._log.new_lines()
        self._places.read(lines)
        facts = list(log_facts(kernel_events(lines)))
        facts += module_facts(self._places.modules()) if last else []
        return [*facts, LOG_LOST] if self._log.lost else facts

    def _receive(self, fact: Fact) -> None:
        """Report the fact from an event of NVML."""
        if new := self._new([fact]):
            self._send(new, False)

    def _new(self, facts: Sequence[Fact]) -> list[Fact]:
        """Return the facts to report: states once, errors and messages at most `MAX_REPEATS` times."""
        new = []
        for fact in facts:
            state = fact.source == "counters" and not fact.sort.startswith(
                ("uncorrected", "deferred")
            )
            key = (fact.sort, fact.name, fact.part or fact.place)
            if self._repeats[key] < (1 if state else MAX_REPEATS):
                new.append(fact)
            self._repeats[key] += 1
        return new

    def _read(self) -> Reading:
        found = read_all(self._sources, counters=True)
        return replace(found, lost=(*self._failed, *found.lost))

    def _listen(self) -> None:
        nvidia = next((one for one in self._sources if isinstance(one, NvidiaSource)), None)
        if nvidia is not None and nvidia.handles:
            self._listener = _Listener(
                nvidia.nvml, nvidia.handles, self._receive, self._stop, self._wait
            )
            self.without_events = self._listener.start()


class _Listener:
    """A thread that receives NVML's events, which also reach containers that cannot read the kernel log.

    Args:
        handles: Card -> its handle.
        receive: Receives the fact of each event.
        stop: Set at the end of the run.
        wait: Milliseconds for which NVML waits for an event.
    """

    def __init__(
        self,
        nvml: Nvml,
        handles: dict[str, Any],
        receive: Callable[[Fact], None],
        stop: threading.Event,
        wait: int,
    ) -> None:
        self._nvml = nvml
        self._handles = handles
        self._receive = receive
        self._stop = stop
        self._wait = wait
        self._quiet = threading.Event()  # no event is waiting
        self._set: Any = None
        self._thread: threading.Thread | None = None

    def start(self) -> dict[str, str]:
        """Register for the events of each card and start the thread.

        Returns:
            Card -> why it sends no XIDs, such as "Not Supported (NVML error 3)".
        """
        self._set = self._nvml.ask("events", [], "nvmlEventSetCreate")
        if self._set is None:
            return dict.fromkeys(self._handles, "the library makes no set of events")
        without_events = {}
        for part, handle in self._handles.items():
            has = self._nvml.ask("events", [], "nvmlDeviceGetSupportedEventTypes", handle)
            wanted = EVENTS & int(has) if has is not None else EVENTS
            refused = self._nvml.refusal("nvmlDeviceRegisterEvents", handle, wanted, self._set)
            if refused or not wanted & EVENT_XID:
                without_events[part] = refused or "it has no events for XIDs"
        if len(without_events) < len(self._handles):
            self._thread = threading.Thread(
                target=self._run, name="anubis-nvml-events", daemon=True
            )
            self._thread.start()
        else:
            self._set = None
        return without_events

    def drain(self, seconds: float) -> None:
        """Wait until all events so far are reported, at most `seconds`."""
        if self._set is not None:
            self._quiet.clear()
            self._quiet.wait(seconds)

    def ended(self, seconds: float) -> bool:
        """Wait at most `seconds` until the thread has left the library; return whether it has."""
        if self._thread is not None:
            self._thread.join(seconds)
        return self._thread is None or not self._thread.is_alive()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                event = self._nvml.wait_event(self._set, self._wait)
            except Exception as error:  # the library is gone, or its card
                if code_of(error) != _TIMEOUT:
                    # No more events will come; the counters report a lost card (XID 79) as well.
                    self._stop.wait(self._wait / 1000)
                self._quiet.set()
                continue
            part = self._part(event.device)
            fact = event_fact(part, int(event.eventType), int(event.eventData))
            if fact is not None:
                self._receive(fact)

    def _part(self, handle: Any) -> str:
        """Return the card with this handle; handles are compared by the address that they point to."""
        mine = _address(handle)
        for part, other in self._handles.items():
            if _address(other) == mine:
                return part
        return ""


def _address(handle: Any) -> Any:
    try:
        return ctypes.cast(handle, ctypes.c_void_p).value
    except (ctypes.ArgumentError, TypeError):
        return handle


def _kept(before: Reading, after: Reading) -> Reading:
    """Return the reading to compare the next one with: a counter that was not read keeps its last value."""
    counters = {
        part: {**before.counters.get(part, {}), **after.counters.get(part, {})}
        for part in {*before.counters, *after.counters}
    }
    return Reading(counters=counters)
