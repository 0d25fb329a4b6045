"""The adapter between xdist's scheduler protocol and the dispatcher; thin, and it never raises.

An exception inside a scheduler ends the whole session with an internal error, and with it what other
workers are measuring. So what goes wrong here is reported as a failed collection, and the run ends in
order.
"""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import pytest

from pytest_anubis.distributed.dispatch.dispatcher import (
    Dispatcher,
    DispatchError,
    Instruction,
    Send,
)
from pytest_anubis.distributed.dispatch.prediction import Plan, plan
from pytest_anubis.distributed.dispatch.tasks import Certificates, Lane, Task, lane_of
from pytest_anubis.hardware.inventory.host_inventory import usable_cpus

OVERHEAD = 0.03
"""Seconds that every test needs besides its own: fixtures, reports, and the way to its worker and back."""

END = 0.12
"""Seconds of a CPU that a worker needs to end; all of them end at about the same time."""

_DIFFERENCES = 20  # lines shown of how two collections differ


class Office(Protocol):
    """What the scheduler needs to know from the controller, and tells it."""

    def lane_of(self, node: Any) -> str:
        """Return the name of the lane that a worker serves."""

    def tasks_of(self, node: Any) -> Sequence[Task] | None:
        """Return what a worker said about its tests, None if it has not."""

    def release(self, node: Any, last: int | None) -> None:
        """Allow a worker to run the test that it holds, and tell it that nothing more comes."""

    def stopping(self) -> bool:
        """True when xdist has told all workers to end."""

    def starts_alone(self) -> None:
        """An exclusive test is about to start."""

    def lane_given_up(self, node: Any, lane: str) -> None:
        """The lane's workers died too often: its next one is to do nothing."""

    def planned(self, plan: Plan) -> None:
        """The tests are placed."""


class AnubisScheduling:
    """Implements ``xdist.scheduler.Scheduling``; what to do is decided by the dispatcher.

    Args:
        config: The controller's configuration.
        lanes: The lanes of the run.
        office: The controller's side of things.
        certificates: Which benchmarks do not disturb each other.
        costs: Measured seconds by benchmark id, for the plan.
    """

    def __init__(
        self,
        config: pytest.Config,
        lanes: Sequence[Lane],
        office: Office,
        certificates: Certificates = frozenset(),
        costs: Mapping[str, float] | None = None,
    ) -> None:
        self.config = (
            config  # xdist's own schedulers have it too, and pytest-rerunfailures asks them
        )
        self._lanes = tuple(lanes)
        self._office = office
        self._certificates = certificates
        self._costs = costs
        self._dispatcher = Dispatcher(lanes)
        self._nodes: dict[str, Any] = {}
        self._collection: list[str] | None = None
        self._first = ""  # the worker that collected first
        self._tasks: tuple[Task, ...] = ()
        self._broken = False

    # The protocol.

    @property
    def nodes(self) -> list[Any]:
        """The workers that are alive."""
        return list(self._nodes.values())

    @property
    def collection_is_completed(self) -> bool:
        """True when every lane that still counts has collected."""
        return self._dispatcher.ready

    @property
    def tests_finished(self) -> bool:
        """True when nothing more needs to be sent to anybody."""
        return self._broken or self._dispatcher.finished

    @property
    def has_pending(self) -> bool:
        """True while tests wait for their start."""
        return bool(self._dispatcher.pending)

    def add_node(self, node: Any) -> None:
        """A worker has come up."""
        name, lane = node.gateway.id, self._office.lane_of(node)
        self._nodes[name] = node
        with self._orderly():
            self._dispatcher.worker_ready(name, lane)
            if lane in self._dispatcher.given_up:  # it collects nothing, so it will not say so
                self._follow(self._dispatcher.worker_collected(name))

    def add_node_collection(self, node: Any, collection: Sequence[str]) -> None:
        """A worker has collected: all must have found the same, in the same order."""
        name = node.gateway.id
        tasks = self._office.tasks_of(node)
        if self._collection is None and tasks is not None and not self._broken:
            self._collection, self._tasks, self._first = list(collection), tuple(tasks), name
        if list(collection) != self._collection:
            self._break(name, self._difference(name, list(collection)))
            return
        if tuple(tasks or ()) != self._tasks:
            self._break(name, f"{name} and {self._first} say different things about the same tests")
            return
        with self._orderly():
            self._follow(self._dispatcher.worker_collected(name))

    def schedule(self) -> None:
        """Every worker has collected: place the tests; called again for every replacement."""
        with self._orderly():
            self._place()

    def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
        """A worker has finished a test."""
        with self._orderly():
            self._notice_end()
            self._follow(self._dispatcher.test_complete(node.gateway.id, item_index))

    def mark_test_pending(self, item: str) -> None:
        """A test that crashed is to be run again."""
        collection = self._collection or []
        with self._orderly():
            self._follow(self._dispatcher.repeat(collection.index(item)))

    def remove_pending_tests_from_node(self, node: Any, indices: Sequence[int]) -> None:
        """Nothing is ever taken back from a worker, so there is nothing to do."""

    def remove_node(self, node: Any) -> str | None:
        """A worker has ended; return the test that it died in.

        Raises:
            KeyError: It never came up; xdist expects this.
        """
        name, lane = node.gateway.id, self._office.lane_of(node)
        known = self._nodes.pop(name, None) is not None
        crashed: int | None = None
        with self._orderly():
            self._notice_end()
            if ended_in_order(node):
                node.ensure_teardown()  # or its process would live on, and keep its device's memory
                self._follow(self._dispatcher.worker_finished(name))
            else:
                if not known:
                    self._dispatcher.worker_ready(name, lane)
                crashed, instructions = self._dispatcher.worker_crashed(name)
                if lane in self._dispatcher.given_up:
                    self._office.lane_given_up(node, lane)
                self._follow(instructions)
                self._place()
        if not known:
            raise KeyError(name)
        return None if crashed is None else self._tasks[crashed].test

    # What the controller wants.

    def stop(self) -> None:
        """Start nothing more."""
        with self._orderly():
            self._follow(self._dispatcher.stop())

    def can_repeat(self, task: Task) -> bool:
        """True when the lane of a test that has just crashed goes on."""
        return not self._broken and lane_of(task, self._lanes) not in self._dispatcher.given_up

    @property
    def given_up(self) -> tuple[str, ...]:
        """Names of the lanes whose workers died too often."""
        return self._dispatcher.given_up

    def _follow(self, instructions: Sequence[Instruction]) -> None:
        for instruction in instructions:
            node = self._nodes[instruction.worker]
            if any(self._tasks[index].exclusive for index in self._dispatcher.running):
                self._office.starts_alone()
            # A worker that has just died cannot be told anything; its end is reported by itself.
            with contextlib.suppress(OSError):
                if isinstance(instruction, Send):
                    node.send_runtest_some(list(instruction.tests))
                else:
                    self._office.release(node, instruction.last)

    def _place(self) -> None:
        """Place the tests as soon as no lane is waited for; xdist asks only after a collection."""
        if self._broken or self._dispatcher.assigned or not self._dispatcher.ready:
            return
        if self._collection is not None:  # else every lane was given up
            self._office.planned(
                plan(
                    self._tasks,
                    self._lanes,
                    self._certificates,
                    costs=self._costs,
                    overhead=OVERHEAD,
                    barrier=END * max(1.0, (len(self._lanes) - 1) / (usable_cpus() or 1)),
                )
            )
        self._follow(self._dispatcher.assign(self._tasks, self._certificates))

    def _notice_end(self) -> None:
        if self._office.stopping() and self._dispatcher.assigned and not self.tests_finished:
            self._follow(self._dispatcher.stop())

    @contextlib.contextmanager
    def _orderly(self) -> Iterator[None]:
        """Turn what went wrong into a report; xdist would make an internal error of it."""
        try:
            yield
        except (DispatchError, LookupError, ValueError) as error:
            self._break("the scheduler", f"anubis: {error}")

    def _break(self, who: str, text: str) -> None:
        """Report a failed collection and end the run."""
        report = pytest.CollectReport(nodeid=who, outcome="failed", longrepr=text, result=[])
        self.config.hook.pytest_collectreport(report=report)
        self._broken = True  # xdist then tells every worker to end

    def _difference(self, name: str, collection: list[str]) -> str:
        lines = list(
            difflib.unified_diff(self._collection or [], collection, self._first, name, "", "", n=0)
        )
        more = [f"... {len(lines) - _DIFFERENCES} more lines"] if len(lines) > _DIFFERENCES else []
        shown = "\n".join([*lines[:_DIFFERENCES], *more])
        return (
            f"workers {self._first} and {name} collected different tests, so nothing can be placed; "
            f"collection must not depend on the process:\n{shown}"
        )


def ended_in_order(node: Any) -> bool:
    """True when a worker said goodbye, and not because it was interrupted."""
    output = getattr(node, "workeroutput", None)
    return output is not None and output.get("exitstatus") != pytest.ExitCode.INTERRUPTED
