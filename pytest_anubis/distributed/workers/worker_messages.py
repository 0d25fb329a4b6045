"""What workers say through their channels: their tests, their events, what they are doing.

Messages are taken in the thread of each worker's connection, as they come: an event is in the journal
before the controller's main thread has even heard that the test is over.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from pytest_anubis.core.measurement import Measurement
from pytest_anubis.distributed.containment.watchdog import LEAVING, Deadline, Watchdog, deadline_of
from pytest_anubis.distributed.dispatch.tasks import Task, make_task
from pytest_anubis.session.context import Sink
from pytest_anubis.settings import Settings
from pytest_anubis.store.journal import journal_events as events


class Listener:
    """Takes the messages of all workers.

    Args:
        settings: The run's settings.
        sink: Takes every event.
        watchdog: Learns what workers do.
        costs: Measured seconds by benchmark id.

    Attributes:
        tasks: Worker -> what it has collected.
        known: Node id -> task.
        components: Node id -> component of its mark.
        usage: What is wrong with a mark; empty if nothing is.
        troubles: Messages that could not be used, one line each.
        began: When the first test began, by the monotonic clock; None before.
        ended: When the last test so far ended.
    """

    def __init__(
        self,
        settings: Settings,
        sink: Sink,
        watchdog: Watchdog,
        costs: Mapping[str, float] | None = None,
    ) -> None:
        self.tasks: dict[str, tuple[Task, ...]] = {}
        self.known: dict[str, Task] = {}
        self.components: dict[str, str] = {}
        self.usage = ""
        self.troubles: list[str] = []
        self.began: float | None = None
        self.ended: float | None = None
        self._settings = settings
        self._sink = sink
        self._watchdog = watchdog
        self._kept: dict[str, list[Measurement]] = {}
        self._attempts: dict[str, list[Measurement]] = {}
        self._costs = costs or {}
        self._since: dict[str, float] = {}
        self._running: dict[str, str] = {}  # worker -> test
        self._plan: list[Any] | None = None

    def hear(self, worker: str, lane: str, message: Any) -> None:
        """Take one message; never raises, since that would close the worker's channel."""
        try:
            kind, content = message
            if kind == "event":
                self._event(worker, lane, content)
            elif kind == "doing":
                self._doing(worker, *content)
            elif kind == "tasks":
                self._collected(worker, content)
            elif kind == "usage":
                self.usage = content
        except Exception as error:
            self.troubles.append(f"a message of {worker} could not be used: {error!r}")

    def kept(self, test: str) -> list[Measurement]:
        """Return what a test has measured so far, and forget it."""
        return self._kept.pop(test, [])

    def attempts(self, test: str) -> list[Measurement]:
        """Return what a test has measured so far that did not count, and forget it."""
        return self._attempts.pop(test, [])

    def seconds(self, worker: str) -> float:
        """Return for how long a worker has been doing what it does."""
        return time.monotonic() - self._since.get(worker, time.monotonic())

    def running(self, worker: str) -> str:
        """Return the test that a worker runs, empty if none."""
        return self._running.get(worker, "")

    def _event(self, worker: str, lane: str, event: dict[str, Any]) -> None:
        kind = event["event"]
        if kind == "planned":
            if event["tests"] == self._plan or not event["tests"]:
                return  # every worker plans the same
            self._plan = event["tests"]
        elif kind == "test_started":
            event["worker"], event["lane"] = worker, lane
            self._kept.pop(event["test"], None)
            self._attempts.pop(event["test"], None)
        self._sink(event)
        if kind == "measurement":
            self._kept.setdefault(event["test"], []).append(events.measurement_from_event(event))
        elif kind == "attempt":
            self._attempts.setdefault(event["test"], []).append(
                events.measurement_from_event(event)
            )

    def _collected(self, worker: str, described: list[dict[str, Any]]) -> None:
        tasks = []
        for one in described:
            deadline = deadline_of(
                cost=one["cost"],
                measured=self._costs.get(one["benchmark"]),
                mark=one.pop("timeout"),
                limit=self._settings.timeout,
                profile=self._settings.profile,
            )
            self.components[one["test"]] = one.pop("component")
            tasks.append(make_task(**one, deadline=deadline.seconds, why=deadline.source))
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
            self._sink({"event": "ran", "test": last, "worker": worker, **span})
        if what == "test":
            self._running[worker] = test
        self._since[worker] = now
        self._watchdog.doing(worker, what, deadline, test)
