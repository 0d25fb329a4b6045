"""The worker's side of a run: sends plan and events to the controller at once, and obeys its order of tests.

All messages use a channel of our own, which the controller passes in xdist's ``workerinput``. It works before
tests are scheduled, and messages that were sent survive the sudden death of this process. Errors by which a
test ends pytest cost one test (a KeyboardInterrupt) or the run (``pytest.exit``): `RaisedByTests`.
"""

from __future__ import annotations

import faulthandler
import gc
import os
import signal
import sys
import threading
from collections.abc import Callable, Generator
from typing import Any

import pytest

from pytest_anubis.codec import to_plain
from pytest_anubis.core.events import Event
from pytest_anubis.distributed.containment.leftovers import Leftovers
from pytest_anubis.distributed.containment.processes import STACK_SIGNAL, adopt_orphans
from pytest_anubis.distributed.workers.outgoing import SafeSender, SendableReports, interactor_of
from pytest_anubis.distributed.workers.process_cores import NearCard
from pytest_anubis.session.collecting.benchmark_mark import (
    benchmark_mark,
    is_benchmark,
    not_applicable,
    timeout_mark,
)
from pytest_anubis.session.collecting.device_parameters import benchmark_id, device_of
from pytest_anubis.session.context import add_part
from pytest_anubis.session.measuring.conditions import conditions_watch
from pytest_anubis.session.measuring.recorder import earlier_key
from pytest_anubis.session.running.exit_guard import die_with_parent
from pytest_anubis.store.journal.journal_events import event_to_plain

CONTEXT = "anubis"
"""Key in ``workerinput``: the facts of the run, as plain data."""

CHANNEL = "anubis_channel"
"""Key in ``workerinput``: our channel."""

STACK_FILE = "anubis_stack_file"
"""Key in ``workerinput``: file for the stacks of this worker's threads; empty on another machine."""

IDLE = "anubis_idle"
"""Key in ``workerinput``: true for a worker of a lane that was given up."""

NEAR = "anubis_near"
"""Key in ``workerinput``: card -> the CPUs near it, for its tests."""


def register(config: pytest.Config, worker_input: dict[str, Any]) -> Worker:
    """Prepare a worker; return the plugin that sends every event to the controller at once."""
    interactor = interactor_of(config)
    worker = Worker(worker_input[CHANNEL], interactor)
    add_part(config, worker, "anubis-worker")
    if worker_input.get(IDLE):
        add_part(config, Idle(), "anubis-idle")
    rearm = _prepare_process(worker_input.get(STACK_FILE, ""))
    reports = SendableReports(worker.trouble, config.rootpath)
    if interactor is not None:
        reports.attach(interactor)
    add_part(config, reports, "anubis-outgoing")
    add_part(config, RaisedByTests(worker.leaving), "anubis-raised")
    add_part(config, Leftovers(config, worker.event, rearm), "anubis-leftovers")
    if worker_input.get(NEAR):
        add_part(config, NearCard(worker_input[NEAR]), "anubis-near-card")
    # The controller counts the failures of all workers. A worker that stopped by itself would end the whole
    # run as "interrupted".
    config.option.maxfail = 0
    return worker


class Worker:
    """Plugin that sends the plan and all events, and refuses tests that the controller did not release."""

    def __init__(self, channel: Any, interactor: Any = None) -> None:
        self._interactor = interactor
        self._outgoing = SafeSender(channel.send, self.trouble)
        self._troubled = SafeSender(channel.send, lambda _: None)  # there is no other way to report
        self._released: int | None = None
        self._answer: dict[str, Any] = {}
        self._answered = threading.Event()
        self._items: dict[str, int] = {}
        self._collected = False
        channel.setcallback(self._receive)

    def send(self, kind: str, content: Any = None) -> None:
        """Send one message, converted to plain types."""
        self._outgoing((kind, to_plain(content)))

    def event(self, event: Event) -> None:
        """Send one event."""
        self._outgoing(("event", event_to_plain(event)))

    def trouble(self, line: str) -> None:
        """Send one line that prevents acceptance."""
        self._troubled(("trouble", line))

    def leaving(self, test: str, text: str, status: int | None) -> None:
        """Report that a test ends the run."""
        self.send("leaving", [test, text, status])

    def ask(self, described: list[dict[str, Any]]) -> dict[str, Any]:
        """Ask the controller which benchmarks to leave out, and wait for its answer.

        All workers get the same answer. The deadline for start and collection limits the wait.
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
        """Report a mistake in a mark or plugin, which would otherwise look like a crash or a hang."""
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

    # First, because the controller must know the tests before xdist reports the collection.
    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Send what the tests need, so that the controller can place them."""
        if any(is_benchmark(item) for item in session.items):
            watch = conditions_watch(session.config)
            if watch is not None:
                watch.prepare()  # now, before any test measures
        self._collected = True
        self._items = {item.nodeid: number for number, item in enumerate(session.items)}
        self.send("tasks", [_describe(item) for item in session.items])
        self.send("doing", ["waiting", ""])

    # When xdist shuts a worker down, even to end the run early, the worker starts the test that it holds.
    # An exclusive test would then overlap with others.
    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> bool | None:
        """Refuse a test that starts only because the run ends."""
        refused = self._released != self._items.get(item.nodeid) and earlier_key not in item.stash
        if nextitem is None and refused:
            return True
        self.send("doing", ["test", item.nodeid])
        return None

    # First, because the controller must know whether the test was late before it gets the teardown's report.
    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Report that the test has failed or ended, while its deadline still applies."""
        if self._interactor is not None and report.nodeid in self._items:
            # xdist sends a report with the number of the test that it started last, which is wrong for a
            # further visit at the end of the run.
            self._interactor.item_index = self._items[report.nodeid]
        if report.when == "teardown" or report.failed:
            self.send("over", [report.nodeid, report.failed])

    @pytest.hookimpl(wrapper=True, tryfirst=True, specname="pytest_runtest_protocol")
    def pytest_anubis_around_test(self) -> Generator[None, Any, Any]:
        """Report that no test is running, also if another plugin has swallowed the test."""
        try:
            return (yield)
        finally:
            self.send("doing", ["waiting", ""])

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """Report the end, and free torch's cached memory of the device for others."""
        self.send("doing", ["end", ""])
        torch = sys.modules.get("torch")
        if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized():
            gc.collect()
            torch.cuda.empty_cache()


class Idle:
    """Plugin of a worker whose lane was given up: it imports no test."""

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
    """Let the kernel kill this process with its controller, and install the handler for stack dumps.

    Returns:
        A function that installs the handler again, after a test has changed it; None without a handler.
    """
    adopt_orphans()
    if not stack_file:
        return None  # on another machine the parent is a proxy, and no controller reads the file
    die_with_parent()
    # A bare descriptor, open until the process ends.
    descriptor = os.open(stack_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)

    def rearm() -> None:
        faulthandler.unregister(STACK_SIGNAL)
        faulthandler.register(STACK_SIGNAL, file=descriptor, all_threads=True, chain=False)

    rearm()
    return rearm


_Exit: Any = pytest.exit.Exception


class TestRaised(Exception):
    """The failure of a test that raised an error which would have ended its worker."""

    __test__ = False
    __module__ = "builtins"  # so that the short test summary shows the bare name


class RaisedByTests:
    """Plugin that keeps such errors from ending the worker.

    A real interrupt reaches a worker as a signal, from the controller, or from execnet after the controller
    has gone. A KeyboardInterrupt without a signal is the test's own, and fails it like any exception.

    Args:
        leaving: Takes node id, text and exit status of a test that ends the run.
    """

    def __init__(self, leaving: Callable[[str, str, int | None], None]) -> None:
        self._leaving = leaving
        self._signalled = False
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._interrupt)

    def _interrupt(self, number: int, frame: Any) -> None:
        self._signalled = True
        raise KeyboardInterrupt

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_setup(self) -> Generator[None, Any, Any]:
        """Turn a KeyboardInterrupt of the test's own into its failure, in each phase."""
        try:
            return (yield)
        except KeyboardInterrupt as error:
            if self._signalled:
                raise
            raised = TestRaised(f"the test raised KeyboardInterrupt {error}".rstrip())
            raise raised.with_traceback(error.__traceback__) from None

    pytest_runtest_call = pytest_runtest_setup
    pytest_runtest_teardown = pytest_runtest_setup

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Tell the controller which test ends the run, because xdist would consider the worker dead."""
        try:
            return (yield)
        except _Exit as error:
            self._leaving(item.nodeid, str(error.msg), error.returncode)
            raise

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection(self) -> Generator[None, Any, Any]:
        """Do the same for a file that ends the run while it is imported."""
        try:
            return (yield)
        except _Exit as error:
            self._leaving("", str(error.msg), error.returncode)
            raise
