"""What workers say through their channels: their tests, their events, what they are doing.

Messages are taken in the thread of each worker's connection, as they come: an event is in the journal
before the controller's main thread has even heard that the test is over.
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
    LEAVING,
    Deadline,
    Overdue,
    Watchdog,
    deadline_of,
)
from pytest_anubis.distributed.dispatch.tasks import Task, make_task
from pytest_anubis.session.context import Sink
from pytest_anubis.settings import Settings
from pytest_anubis.store.journal.journal_events import event_from_plain


class Listener:
    """Takes the messages of all workers.

    Args:
        settings: The run's settings.
        sink: Takes every event.
        watchdog: Learns what workers do.
        costs: Measured seconds by benchmark id.
        apart: Every lane of accelerators has cores of its own.

    Attributes:
        tasks: Worker -> what it has collected.
        known: Node id -> task.
        components: Node id -> component of its mark.
        usage: What is wrong with a mark; empty if nothing is.
        troubles: Messages that could not be used, one line each.
        began: When the first test began, by the monotonic clock; None before.
        ended: When the last test so far ended.
        leaving: Text and exit status with which a test wants to end the run; None while none does.
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
        self._deadlines: dict[str, Deadline] = {}  # worker -> that of the test that it runs
        self._overran: dict[str, Overdue] = {}  # test -> the deadline that it did not keep
        self._failed: set[str] = set()  # tests that run and failed within their deadline
        self._plan: TestsPlanned | None = None

    def hear(self, worker: str, lane: str, message: Any) -> None:
        """Take one message; never raises, since that would close the worker's channel."""
        try:
            kind, content = message
            if kind == "event":
                self._event(worker, lane, event_from_plain(content))
            elif kind == "doing":
                self._doing(worker, *content)
            elif kind == "tasks":
                self._collected(worker, content)
            elif kind == "over":
                self._over(worker, *content)
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
        # Nothing is accepted on half of what was said.
        self._sink(BlockerFound(text=line))

    def overran(self, test: str) -> Overdue | None:
        """Return, once, the deadline that a test did not keep although it ended by itself; else None."""
        return self._overran.pop(test, None)

    def _over(self, worker: str, test: str, failed: bool) -> None:
        """A test has failed or ended, the report is on its way: from here on it is known whether it was late.

        What failed in time has failed, however long its teardown takes.
        """
        deadline, seconds = self._deadlines.get(worker), self.seconds(worker)
        if deadline is None or self.running(worker) != test or test in self._failed:
            return
        if seconds <= deadline.seconds:
            if failed:
                self._failed.add(test)
        else:
            end = f"it ended by itself after {seconds:.1f} s"
            self._overran[test] = Overdue(doing="test", test=test, deadline=deadline, survived=end)

    def _leaving(self, test: str, text: str, status: int | None) -> None:
        who = test or "a file that was collected"
        line = f"{who} ended the run by pytest.exit: {text}"
        self._sink(BlockerFound(text=line, found_anew=True))
        self.leaving = (text, status)

    def seconds(self, worker: str) -> float:
        """Return for how long a worker has been doing what it does."""
        return time.monotonic() - self._since.get(worker, time.monotonic())

    def running(self, worker: str) -> str:
        """Return the test that a worker runs, empty if none."""
        return self._running.get(worker, "")

    def _event(self, worker: str, lane: str, event: Event) -> None:
        if isinstance(event, TestsPlanned):
            if event == self._plan or not (event.tests or event.elsewhere):
                return  # every worker plans the same
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
            deadline = Deadline(LEAVING, "for ending")
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
        self._watchdog.doing(worker, what, deadline, test)
