"""The worker's side: tells the controller what is planned and measured, at once, and obeys its order.

Everything travels through a channel of our own that the controller hands over in xdist's ``workerinput``:
it works before tests are scheduled, and what was sent survives the sudden death of this process.
"""

from __future__ import annotations

import faulthandler
import gc
import os
import sys
import threading
from collections.abc import Callable, Generator
from typing import Any

import pytest

from pytest_anubis.codec import to_plain
from pytest_anubis.core.events import Event
from pytest_anubis.distributed.containment.leftovers import Leftovers
from pytest_anubis.distributed.containment.processes import (
    STACK_SIGNAL,
    adopt_orphans,
)
from pytest_anubis.distributed.workers.outgoing import Outgoing, Reports, interactor_of
from pytest_anubis.distributed.workers.process_cores import NearCard
from pytest_anubis.distributed.workers.raised_by_tests import RaisedByTests
from pytest_anubis.session.collecting.benchmark_mark import (
    benchmark_mark,
    is_benchmark,
    not_applicable,
    timeout_mark,
)
from pytest_anubis.session.collecting.device_parameters import benchmark_id, device_of
from pytest_anubis.session.context import RunContext, Sink, add_part
from pytest_anubis.session.measuring.conditions import conditions_watch
from pytest_anubis.session.measuring.recorder import earlier_key
from pytest_anubis.session.running.exit_guard import die_with_parent
from pytest_anubis.store.journal.journal_events import event_to_plain

CONTEXT = "anubis"
"""Key in ``workerinput``: the facts of the run, as plain data."""

CHANNEL = "anubis_channel"
"""Key in ``workerinput``: our channel."""

STACK_FILE = "anubis_stack_file"
"""Key in ``workerinput``: where to write what the threads are doing when asked; empty if far away."""

IDLE = "anubis_idle"
"""Key in ``workerinput``: true for a worker that only takes the place of one that died too often."""

NEAR = "anubis_near"
"""Key in ``workerinput``: card -> the CPUs near it, for its tests."""


def register(config: pytest.Config, context: RunContext, worker_input: dict[str, Any]) -> Sink:
    """Prepare a worker and return its sink, which sends every event to the controller at once.

    Args:
        config: The worker's configuration.
        context: The facts of the run.
        worker_input: What the controller sent.
    """
    worker = Worker(worker_input[CHANNEL], interactor_of(config))
    add_part(config, worker, "anubis-worker")
    if worker_input.get(IDLE):
        add_part(config, Idle(), "anubis-idle")
    rearm = _prepare_process(worker_input.get(STACK_FILE, ""))
    reports = Reports(worker.trouble, config.rootpath)
    interactor = interactor_of(config)
    if interactor is not None:
        reports.attach(interactor)
    add_part(config, reports, "anubis-outgoing")
    add_part(config, RaisedByTests(worker.leaving), "anubis-raised")
    add_part(config, Leftovers(config, worker.event, rearm), "anubis-leftovers")
    if worker_input.get(NEAR):
        add_part(config, NearCard(worker_input[NEAR]), "anubis-near-card")
    # The controller counts failures of all workers and stops in time; a worker that stopped by itself
    # would end the whole run as "interrupted".
    config.option.maxfail = 0
    return worker.event


def asking(config: pytest.Config) -> Callable[[list[dict[str, Any]]], dict[str, Any]]:
    """Return what asks the controller for the choice of benchmarks."""
    ask: Callable[[list[dict[str, Any]]], dict[str, Any]]
    ask = config.pluginmanager.get_plugin("anubis-worker").ask  # type: ignore[union-attr]  # ours
    return ask


class Worker:
    """Sends the plan and all events, and runs no test that the controller did not release.

    Args:
        channel: Our channel to the controller.
        interactor: xdist's plugin in this worker; None if there is none that we know.
    """

    def __init__(self, channel: Any, interactor: Any = None) -> None:
        self._interactor = interactor
        self._outgoing = Outgoing(channel.send, self.trouble)
        self._troubled = Outgoing(channel.send, lambda _: None)  # nothing is left to say it with
        self._released: int | None = None
        self._answer: dict[str, Any] = {}
        self._answered = threading.Event()
        self._items: dict[str, int] = {}
        self._collected = False
        channel.setcallback(self._receive)

    def send(self, kind: str, content: Any = None) -> None:
        """Send one message; plain types only, since anything else would end the session."""
        self._outgoing((kind, to_plain(content)))

    def event(self, event: Event) -> None:
        """Send one event."""
        self._outgoing(("event", event_to_plain(event)))

    def trouble(self, line: str) -> None:
        """Tell what nothing may be accepted after, in one line."""
        self._troubled(("trouble", line))

    def leaving(self, test: str, text: str, status: int | None) -> None:
        """Tell that a test wants to end the run."""
        self.send("leaving", [test, text, status])

    def ask(self, described: list[dict[str, Any]]) -> dict[str, Any]:
        """Ask the controller which benchmarks to leave out, and wait for its answer.

        All workers get the same, since the controller chooses once. Its deadline for starting and
        collecting bounds the wait.
        """
        self.send("candidates", described)
        self._answered.wait()
        return self._answer

    def _receive(self, message: Any) -> None:
        kind, content = message
        if kind == "last":
            self._released = content
        elif kind == "selection":
            self._answer = content
            self._answered.set()

    @pytest.hookimpl(wrapper=True)
    def pytest_collection(self, session: pytest.Session) -> Generator[None, Any, Any]:
        """Tell what is wrong with a mark or a plugin, which would otherwise look like a crash or a hang."""
        try:
            result = yield
            if not self._collected and not session.config.pluginmanager.has_plugin("anubis-idle"):
                raise pytest.UsageError(
                    "no tests were collected: a pytest_collection hook of a plugin or conftest came "
                    "before pytest's own and returned something; let it return None"
                )
            return result
        except pytest.UsageError as error:
            self.send("usage", str(error))
            raise

    # First: the controller must know the tests before xdist tells it that collection is done.
    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Tell what the tests need, so that the controller can place them."""
        if any(is_benchmark(item) for item in session.items):
            watch = conditions_watch(session.config)
            if watch is not None:
                watch.prepare()  # now, while nobody measures, and not within the first test
        self._collected = True
        self._items = {item.nodeid: number for number, item in enumerate(session.items)}
        self.send("tasks", [_describe(item) for item in session.items])
        self.send("doing", ["waiting", ""])

    # xdist starts what a worker holds when it shuts the worker down, be it to end the run early; what
    # must run alone would then run beside something else.
    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> bool | None:
        """Refuse a test that is started only because the run ends."""
        refused = self._released != self._items.get(item.nodeid) and earlier_key not in item.stash
        if nextitem is None and refused:
            return True
        self.send("doing", ["test", item.nodeid])
        return None

    # First: the controller must know whether the test was late before it hears of its teardown.
    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Tell that the test has failed or ended, while its deadline still holds."""
        if self._interactor is not None and report.nodeid in self._items:
            # xdist sends a report with the number of the test that it started, which a visit at the end
            # of the run is none of.
            self._interactor.item_index = self._items[report.nodeid]
        if report.when == "teardown" or report.failed:
            self.send("over", [report.nodeid, report.failed])

    @pytest.hookimpl(wrapper=True, tryfirst=True, specname="pytest_runtest_protocol")
    def pytest_anubis_around_test(self) -> Generator[None, Any, Any]:
        """Tell that nothing runs any more, also where another plugin has swallowed the test."""
        try:
            return (yield)
        finally:
            self.send("doing", ["waiting", ""])

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """Leave the device to others: a cached block of its memory is not free to them."""
        self.send("doing", ["end", ""])
        torch = sys.modules.get("torch")
        if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized():
            gc.collect()
            torch.cuda.empty_cache()


class Idle:
    """Keeps a worker from importing any test: its lane was given up."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self) -> bool:
        """Collect nothing."""
        return True


def _describe(item: pytest.Item) -> dict[str, Any]:
    mark = benchmark_mark(item)
    return {
        "test": item.nodeid,
        "benchmark": benchmark_id(item),
        "component": mark.component,
        "device": device_of(item),
        "scope": mark.scope,
        "timing": mark.timing,
        "resources": sorted(mark.resources),
        "cost": mark.cost,
        "timeout": timeout_mark(item),
        "least": mark.deadline,
        "applies": not not_applicable(item),
    }


def _prepare_process(stack_file: str) -> Callable[[], None] | None:
    """Let the kernel end this process with its controller, and let it tell where it hangs.

    Returns:
        What makes it answer again when a test has changed that; None where it never does.
    """
    adopt_orphans()
    if not stack_file:
        return None  # on another machine: its parent is a proxy, and nobody there reads the file
    die_with_parent()
    # A bare descriptor, open until the process ends.
    descriptor = os.open(stack_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)

    def rearm() -> None:
        faulthandler.unregister(STACK_SIGNAL)
        faulthandler.register(STACK_SIGNAL, file=descriptor, all_threads=True, chain=False)

    rearm()
    return rearm
