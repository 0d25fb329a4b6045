"""Watching all cards for a whole run: error counters between tests, the kernel log, and NVML's events.

Whatever may hang does so in threads of its own; nobody waits for them beyond a deadline. One process holds
NVML open for the run, so that opening it costs the others nothing where the driver does not persist.
"""

from __future__ import annotations

import ctypes
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
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
    silent_facts,
)
from pytest_anubis.hardware.telemetry.host_sensors import Reading, Source
from pytest_anubis.hardware.telemetry.kernel_log import KernelLog, kernel_events
from pytest_anubis.hardware.telemetry.nvidia_sensors import NvidiaSource
from pytest_anubis.hardware.telemetry.telemetry_sampler import FIRST, merge

LAST = 15.0
"""Seconds within which the last look must come: longer than any answer of a driver that is only busy."""

PACE = 1.0
"""Seconds between two looks at the counters, at least: a look at eight cards takes some tens of milliseconds
in drivers that measurements share, and trivial tests are many."""

WAIT = 500
"""Milliseconds for which NVML is asked to wait for an event, and so long the last one may take."""

LOG_PACE = 5.0
"""Seconds after which the kernel log is read where nothing else happens: its ring has limited room."""

LOG_LOST = Fact(
    sort="log-lost",
    name="kernel log",
    text="messages of the kernel were overwritten before they could be read",
    source="kernel log",
)

MOST_REPEATS = 20
"""Times that one and the same report of a card is told: a link that fails reports thousands, and people read
the journal too."""

_TIMEOUT = 10  # NVML's code for "no event came"

Tell = Callable[[Sequence[Fact], bool], None]
"""Takes facts, and whether a look at all counters is complete with them."""


class CardWatch:
    """Looks at the error counters of all cards when asked, and listens to the driver.

    Args:
        tell: Takes what was found, from threads of the watch.
        sources: What to read; default NVIDIA's cards and AMD's.
        log: The kernel's log; None leaves it out.
        first: Seconds within which the first reading must come: without persistence the driver starts then.
        deadline: Seconds within which the last must.
        pace: Seconds between two looks, at least.
        wait: Milliseconds for which NVML is asked to wait for an event.

    Attributes:
        without_events: Card -> why no event of it can be heard; known when the first reading is there.
    """

    def __init__(
        self,
        tell: Tell,
        *,
        sources: Sequence[Source] | None = None,
        log: KernelLog | None = None,
        first: float = FIRST,
        deadline: float = LAST,
        pace: float = PACE,
        wait: int = WAIT,
    ) -> None:
        self._tell = tell
        self._sources: list[Source] = (
            list(sources) if sources is not None else [NvidiaSource(), AmdSource()]
        )
        self._log = log
        self._first_deadline, self._deadline, self._pace = first, deadline, pace
        self._wait = wait
        self._requests: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._ready, self._done = threading.Event(), threading.Event()
        self._hurry, self._stop = threading.Event(), threading.Event()
        self._told: Counter[tuple[str, str, str]] = Counter()
        self._saying = threading.Lock()
        self._over = False  # what is heard now is no part of the run any more
        self._pending = False  # a look was asked for and has not begun to answer
        self._silent = False
        self._failed: list[str] = []  # sources that could not be opened
        self._listener: _Listener | None = None
        self.without_events: dict[str, str] = {}
        self._thread = threading.Thread(target=self._serve, name="anubis-card-watch", daemon=True)

    def start(self) -> None:
        """Open everything and take the first reading, without waiting for it."""
        self._thread.start()

    def wait_ready(self) -> bool:
        """Wait for the first reading, which all others are compared with; False when it does not come."""
        if not self._ready.wait(self._first_deadline):
            self._gave_up(self._first_deadline)
        return self._ready.is_set()

    def look(self) -> None:
        """Ask for a look at the counters; never waits, and one that is under way serves as well.

        A look that does not end is told at the end of the run: counters only grow, so nothing is missed by a
        driver that is slow meanwhile.
        """
        if not self._pending:
            self._pending = True
            self._requests.put("look")

    def finish(self) -> None:
        """Take the last look, tell what it shows, and let go of everything; bounded by the deadline.

        Nothing is told any more afterwards, whenever a driver that hangs may answer.
        """
        if not self._thread.is_alive() and not self._ready.is_set():
            return  # never started
        self._hurry.set()
        self._requests.put("last")
        if not self._done.wait(self._deadline):
            self._gave_up(self._deadline)
        self._stop.set()
        if self._log is not None:
            if not self._done.is_set():  # the thread hangs: what the kernel says is asked here
                self._say(self._log_facts(), False)
            self._log.close()
        with self._saying:
            self._over = True

    def _say(self, facts: Sequence[Fact], complete: bool) -> None:
        with self._saying:
            if not self._over:
                self._tell(facts, complete)

    def _gave_up(self, limit: float) -> None:
        if not self._silent:
            self._silent = True
            text = (
                f"the driver's library did not answer within {limit:g} s: no error counter was read"
            )
            self._say([Fact(sort="card-silent", name="error counters", text=text)], False)

    def _serve(self) -> None:
        for source in list(self._sources):
            try:
                source.open()
            except Exception as error:  # whatever a vendor library comes up with
                self._sources.remove(source)
                self._failed.append(f"{type(source).__name__}: {type(error).__name__}: {error}")
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
                    self._say(facts, False)
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
                *self._log_facts(),
            ]
            if request == "last" and self._listener is not None:
                self._listener.drain(self._deadline / 2)
            before = _kept(before, after)
            self._say(self._new(facts), True)
        self._done.set()
        self._stop.set()
        # A library that is closed under a thread which waits in it may take the process along.
        if self._listener is None or self._listener.ended(self._deadline):
            for source in self._sources:
                source.close()

    def _log_facts(self) -> list[Fact]:
        """Return what the kernel log says since the last time, and whether a part of that is lost."""
        if self._log is None:
            return []
        facts = list(log_facts(kernel_events(self._log.new_lines())))
        return [*facts, LOG_LOST] if self._log.lost else facts

    def _heard(self, fact: Fact) -> None:
        """Tell what an event of NVML says."""
        if new := self._new([fact]):
            self._say(new, False)

    def _new(self, facts: Sequence[Fact]) -> list[Fact]:
        """Return facts that are to be told: states once, errors and messages each time, but never a flood."""
        new = []
        for fact in facts:
            state = fact.source == "counters" and not fact.sort.startswith(
                ("uncorrected", "deferred")
            )
            key = (fact.sort, fact.name, fact.part or fact.place)
            if self._told[key] < (1 if state else MOST_REPEATS):
                new.append(fact)
            self._told[key] += 1
        return new

    def _read(self) -> Reading:
        found = [Reading(lost=tuple(self._failed))]
        for source in self._sources:
            try:
                found.append(source.read(counters=True))
            except Exception as error:  # a sensor may never stop a run
                name = type(source).__name__
                found.append(Reading(lost=(f"{name}: {type(error).__name__}: {error}",)))
        return merge(found)

    def _listen(self) -> None:
        nvidia = next((one for one in self._sources if isinstance(one, NvidiaSource)), None)
        if nvidia is not None and nvidia.handles:
            self._listener = _Listener(
                nvidia.nvml, nvidia.handles, self._heard, self._stop, self._wait
            )
            self.without_events = self._listener.start()


class _Listener:
    """Waits for NVML's events in a thread of its own: they reach containers that cannot read the kernel log.

    Args:
        handles: Card -> its handle.
        stop: Set when nobody wants to hear more.
        wait: Milliseconds for which NVML is asked to wait.
    """

    def __init__(
        self,
        nvml: Nvml,
        handles: dict[str, Any],
        heard: Callable[[Fact], None],
        stop: threading.Event,
        wait: int,
    ) -> None:
        self._nvml = nvml
        self._handles = handles
        self._heard = heard
        self._stop = stop
        self._wait = wait
        self._quiet = threading.Event()  # no event is waiting to be told
        self._set: Any = None
        self._thread: threading.Thread | None = None

    def start(self) -> dict[str, str]:
        """Register for the events that each card has, and listen.

        Returns:
            Card -> why its XIDs will not be heard, such as "Not Supported (NVML error 3)".
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
        """Wait until what has happened so far is reported, at most so long."""
        if self._set is not None:
            self._quiet.clear()
            self._quiet.wait(seconds)

    def ended(self, seconds: float) -> bool:
        """Wait until nobody is inside the library any more, at most so long, and say whether that is so."""
        if self._thread is not None:
            self._thread.join(seconds)
        return self._thread is None or not self._thread.is_alive()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                event = self._nvml.wait_event(self._set, self._wait)
            except Exception as error:  # the library is gone, or its card
                if code_of(error) != _TIMEOUT:
                    # No event will come: XID 79 is one that the counters tell as well.
                    self._stop.wait(self._wait / 1000)
                self._quiet.set()
                continue
            part = self._part(event.device)
            fact = event_fact(part, int(event.eventType), int(event.eventData))
            if fact is not None:
                self._heard(fact)

    def _part(self, handle: Any) -> str:
        """Return whose handle this is; the bindings' pointers are equal by what they point at."""
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
    """Return the reading that the next is compared with: a counter that was not read keeps what it was."""
    counters = {
        part: {**before.counters.get(part, {}), **after.counters.get(part, {})}
        for part in {*before.counters, *after.counters}
    }
    return Reading(counters=counters)
