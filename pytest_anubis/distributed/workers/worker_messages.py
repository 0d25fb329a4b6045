"""Receives the workers' messages: their tests, their events, what they are doing.

Messages are handled in the thread of each worker's connection, so an event is in the journal before the
controller's main thread gets the report of its test.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pytest_anubis.core.events import (
    BlockerFound,
    Event,
    TestRan,
    TestsPlanned,
    TestStarted,
)
from pytest_anubis.distributed.containment.watchdog import (
    END_SECONDS,
    Deadline,
    Overdue,
    Watchdog,
    deadline_of,
)
from pytest_anubis.distributed.dispatch.tasks import Task, make_task
from pytest_anubis.session.context import Sink
from pytest_anubis.settings import Settings
from pytest_anubis.store.journal.journal_events import event_from_plain


class WorkerMessages:
    """The received messages of all workers, and the facts in them.

    Args:
        watchdog: Gets the deadline of what each worker does.
        costs: Measured seconds by benchmark id.
        apart: Every lane of accelerators has cores of its own.

    Attributes:
        tasks: Worker -> its collected tests.
        known: Node id -> task.
        components: Node id -> component of its mark.
        usage: Mistake in a mark or plugin; empty if there is none.
        troubles: Errors, one line each.
        began: Start of the first test, by the monotonic clock; None before.
        ended: End of the last test so far.
        leaving: Text and exit status of a test that ends the run; None if there is none.
    """

    def __init__(
        self,
        settings: Settings,
        sink: Sink,
        watchdog: Watchdog,
        costs: Mapping[str, float] | None = None,
        *,
        apart: bool = True,
    ) -> None:
        self.tasks: dict[str, tuple[Task, ...]] = {}
        self.known: dict[str, Task] = {}
        self.components: dict[str, str] = {}
        self.usage = ""
        self.troubles: list[str] = []
        self.began: float | None = None
        self.ended: float | None = None
        self.leaving: tuple[str, int | None] | None = None
        self._settings = settings
        self._sink = sink
        self._watchdog = watchdog
        self._costs = costs or {}
        self._apart = apart
        self._since: dict[str, float] = {}
        self._running: dict[str, str] = {}  # worker -> test
        self._deadlines: dict[str, Deadline] = {}  # worker -> deadline of its running test
        self._overran: dict[str, Overdue] = {}  # test -> its missed deadline
        self._failed: set[str] = set()  # running tests that have failed within their deadline
        self._plan: TestsPlanned | None = None

    def receive(self, worker: str, lane: str, message: Any) -> None:
        """Handle one message; never raises, because an exception would close the worker's channel."""
        try:
            kind, content = message
            if kind == "event":
                self._event(worker, lane, event_from_plain(content))
            elif kind == "doing":
                self._doing(worker, *content)
            elif kind == "tasks":
                self._collected(worker, content)
            elif kind == "over":
                self._note_if_late(worker, *content)
            elif kind == "leaving":
                self._leaving(*content)
            elif kind == "trouble":
                self._trouble(f"{worker}: {content}")
            elif kind == "usage":
                self.usage = content
        except Exception as error:
            self._trouble(f"a message of {worker} could not be used: {error!r}")

    def _trouble(self, line: str) -> None:
        self.troubles.append(line)
        # A run with lost messages must not be accepted.
        self._sink(BlockerFound(text=line))

    def overran(self, test: str) -> Overdue | None:
        """Return, once, the missed deadline of a test that ended by itself; None if it was in time."""
        return self._overran.pop(test, None)

    def _note_if_late(self, worker: str, test: str, failed: bool) -> None:
        """Note whether a test that has failed or ended was late, before its report arrives.

        A failure within the deadline counts as such, however long the teardown takes.
        """
        deadline = self._deadlines.get(worker)
        seconds = self.seconds(worker)
        if deadline is None or self.running(worker) != test or test in self._failed:
            return
        if seconds <= deadline.seconds:
            if failed:
                self._failed.add(test)
        else:
            end = f"it ended by itself after {seconds:.1f} s"
            self._overran[test] = Overdue(deadline=deadline, survived=end)

    def _leaving(self, test: str, text: str, status: int | None) -> None:
        who = test or "a file that was collected"
        line = f"{who} ended the run by pytest.exit: {text}"
        self._sink(BlockerFound(text=line, found_anew=True))
        self.leaving = (text, status)

    def seconds(self, worker: str) -> float:
        """Return the seconds since a worker began its current activity."""
        return time.monotonic() - self._since.get(worker, time.monotonic())

    def running(self, worker: str) -> str:
        """Return a worker's running test, empty if none."""
        return self._running.get(worker, "")

    def _event(self, worker: str, lane: str, event: Event) -> None:
        if isinstance(event, TestsPlanned):
            if event == self._plan or not (event.tests or event.elsewhere):
                return  # every worker sends the same plan
            self._plan = event
        elif isinstance(event, TestStarted):
            event = replace(event, worker=worker, lane=lane)
        self._sink(event)

    def _collected(self, worker: str, described: list[dict[str, Any]]) -> None:
        tasks = []
        for one in described:
            deadline = deadline_of(
                cost=one["cost"],
                measured=self._costs.get(one["benchmark"]),
                mark=one.pop("timeout"),
                least=one.pop("least", None),
                limit=self._settings.timeout,
                profile=self._settings.profile,
            )
            self.components[one["test"]] = one.pop("component")
            timed: dict[str, Any] = {"deadline": deadline.seconds, "why": deadline.source}
            tasks.append(make_task(**one, **timed, apart=self._apart))
        self.tasks[worker] = tuple(tasks)
        self.known.update((task.test, task) for task in tasks)

    def _doing(self, worker: str, what: str, test: str) -> None:
        deadline = None
        if what == "test":
            task = self.known[test]
            deadline = Deadline(task.deadline or float("inf"), task.why)
        elif what == "end":
            deadline = Deadline(END_SECONDS, "for ending")
        now = time.monotonic()
        if self.began is None and what == "test":
            self.began = now
        last = self._running.pop(worker, "")
        if last and self.began is not None:
            self.ended = now
            start, end = self._since[worker] - self.began, now - self.began
            span = {"start": round(start, 4), "end": round(end, 4)}
            self._sink(TestRan(test=last, worker=worker, **span))
        if what == "test":
            self._running[worker] = test
            self._deadlines[worker] = deadline or Deadline(float("inf"), "")
            self._failed.discard(test)
        self._since[worker] = now
        self._watchdog.begins(worker, deadline)
