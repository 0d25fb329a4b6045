"""Writes the hardware's own reports during the run (XIDs, error counters, kernel messages) to the journal.

`start` uses it.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest

from pytest_anubis.core.events import COUNTERS, KERNEL_LOG, HardwareFound
from pytest_anubis.core.run import EVIDENCE
from pytest_anubis.hardware.telemetry.card_watch import CardWatch
from pytest_anubis.hardware.telemetry.kernel_log import KernelLog
from pytest_anubis.report.text.safe_text import printable
from pytest_anubis.session.context import Card, RunContext, Sink, cards_of

if TYPE_CHECKING:
    from pytest_anubis.core.run_state import RunState
    from pytest_anubis.hardware.telemetry.card_facts import Fact


LATE = 5.0
"""Seconds after a test in which a message of the driver may still belong to it: a driver reports an XID only
after it has tried to recover, and its messages are read every half a second."""

EARLY = 1.0
"""Seconds for which a message of the driver waits for its test, whose start a worker reports apart."""


class HardwareWatch:
    """Plugin of the controller that reads the cards' error counters between tests and at the end."""

    def __init__(
        self,
        context: RunContext,
        state: RunState,
        sink: Sink,
        *,
        log: KernelLog | None = None,
        watch: CardWatch | None = None,
    ) -> None:
        self._cards = cards_of(context)
        self._known = {
            str(card.get("pci") or "").lower()
            for card in context.inventory.get("accelerators") or ()
        }
        self._measuring = context.settings.mode == "measure"
        self._state = state
        self._sink = sink
        self._log = log or KernelLog()
        self._watch = watch or CardWatch(self.record, log=self._log)
        self._recent: dict[str, None] = {}  # tests that ran since all counters were last read
        self._ended: dict[str, float] = {}  # test -> its end, the newest last
        self._in_vain = (
            False  # a message has waited without success, and no test has reported since
        )
        self._lock = threading.Lock()  # the watch calls from threads of its own
        self._begun = False

    @property
    def places(self) -> tuple[str, ...]:
        """The watched sources of reports, as `RunStarted.looked_at` names them."""
        counters = (COUNTERS,) if self._cards else ()
        return counters if self._log.unreadable else (KERNEL_LOG, *counters)

    def pytest_report_header(self) -> list[str]:
        """Say which messages are missed if the kernel log cannot be read."""
        if not self._cards or not self._log.unreadable:
            return []
        return [
            f"anubis: {self._log.unreadable}: XIDs are taken from NVML's events; messages of switches, of "
            "AMD's driver and of the host are not seen (in a container, pass /dev/kmsg and CAP_SYSLOG)"
        ]

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Take the first reading, with which all others are compared."""
        if not session.config.option.collectonly:
            self._begun = True
            self._watch.start()

    # First, because no test may begin before the counters are known.
    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self) -> None:
        """Wait for the first reading."""
        if self._begun and self._cards:
            self._watch.wait_ready()

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Read the counters whenever a test has ended."""
        with self._lock:
            self._recent[report.nodeid] = None
            self._in_vain = False
            self._ended.pop(report.nodeid, None)
            self._ended[report.nodeid] = time.monotonic()
        if report.when not in ("setup", "call"):  # its teardown, or a crash
            self._watch.look()

    # Before the run decides.
    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """Read the counters a last time."""
        if self._begun:
            self._watch.finish()

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print which cards' XIDs were missed, and in a measuring run the hardware's reports."""
        if missed := self._missed_xids():
            terminalreporter.write_line(printable(f"anubis: {missed}"), yellow=True)
        if not self._measuring or not self._state.begun:
            return
        for event in self._state.record().hardware:
            if event.sort == EVIDENCE:
                continue
            part = f"{event.part}: " if event.part else ""
            line = f"anubis: the hardware reported: {part}{event.text}; nothing is learned from this run"
            terminalreporter.write_line(printable(line), red=True)

    def _missed_xids(self) -> str:
        """Return one line on the cards whose XIDs neither the kernel log nor NVML's events report."""
        without_events = self._watch.without_events if self._log.unreadable else {}
        parts = [card.place for card in self._cards if card.part in without_events]
        if not parts:
            return ""
        why = "; ".join(dict.fromkeys(without_events.values()))
        return (
            f"XIDs of {', '.join(parts)} were not received, only error counters were read: NVML registers "
            f"no events ({why}), and {self._log.unreadable} (in a container, pass /dev/kmsg and CAP_SYSLOG)"
        )

    def record(self, facts: Sequence[Fact], complete: bool) -> None:
        """Write facts to the journal, each with the tests that ran on its card meanwhile.

        Args:
            facts: Reports of the hardware.
            complete: All counters were read, so tests that ended before cannot cause later facts.
        """
        if not complete:
            self._await_tests(facts)
        with self._lock:
            running = self._state.interrupted
            recent = tuple(dict.fromkeys((*self._recent, *running)))
            lately = self._lately()
            if complete:
                self._recent = dict.fromkeys(running)
        for fact in facts:
            card = self._card(fact)
            if card is None and (fact.part or any(_same(fact.place, one) for one in self._known)):
                continue  # a card that is not under test
            if fact.sort == "card-silent" and not self._cards:
                continue  # no card is under test
            elsewhere = fact.place if card is None else ""
            self._sink(
                HardwareFound(
                    sort=fact.sort,
                    name=fact.name,
                    text=fact.text,
                    part=card.place if card is not None else elsewhere,
                    device=card.device if card is not None else "",
                    tests=self._on(
                        recent if fact.source == "counters" else lately,
                        card.device if card is not None else "",
                    ),
                    source=fact.source,
                    module=fact.module,
                )
            )

    def _card(self, fact: Fact) -> Card | None:
        return next(
            (c for c in self._cards if c.part == fact.part or _same(fact.place, c.address)), None
        )

    def _lately(self) -> tuple[str, ...]:
        """Return the tests that run or ended a moment ago; the lock is held."""
        since = time.monotonic() - LATE
        self._ended = {test: when for test, when in self._ended.items() if when >= since}
        return tuple(dict.fromkeys((*self._ended, *self._recent, *self._state.interrupted)))

    def _await_tests(self, facts: Sequence[Fact]) -> None:
        """Wait until workers have reported the tests that messages of the driver belong to."""
        cards = [self._card(fact) for fact in facts if fact.source != "counters"]
        until = time.monotonic() + EARLY
        for device in {card.device for card in cards if card is not None}:
            while not self._in_vain:
                with self._lock:
                    lately = self._lately()
                if self._on(lately, device):
                    break
                self._in_vain = time.monotonic() >= until
                time.sleep(EARLY / 20)

    def _on(self, tests: Sequence[str], device: str) -> tuple[str, ...]:
        """Return the tests that used a device; a test without a device may have used any."""
        planned = self._state.planned
        names = {test: planned[test].device if test in planned else "" for test in tests}
        mine = [t for t, name in names.items() if device and device in re.split(r"[^\w:]+", name)]
        return tuple(mine or (t for t, name in names.items() if not device or ":" not in name))


def _same(place: str, address: str) -> bool:
    """Compare PCI addresses, which drivers write with or without function, with short or long domain."""
    if not place or not address:
        return False
    one, other = (_short(text) for text in (place, address))
    return one == other


def _short(address: str) -> str:
    domain, _, rest = address.lower().partition(":")
    return f"{domain.lstrip('0') or '0'}:{rest.partition('.')[0]}"
