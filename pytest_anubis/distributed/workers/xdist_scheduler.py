"""The adapter between xdist's scheduler protocol and the dispatcher; it raises only what xdist expects.

An exception inside a scheduler would end the whole session with an internal error, and with it all
measurements in progress. So errors here are reported as a failed collection, and the run ends in order.
`controller` uses it.
"""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from pytest_anubis.distributed.dispatch.dispatcher import (
    Dispatcher,
    DispatchError,
    Instruction,
    Send,
)
from pytest_anubis.distributed.dispatch.prediction import plan
from pytest_anubis.distributed.dispatch.tasks import Certificates, Lane, Task, lane_of
from pytest_anubis.hardware.inventory.host_inventory import usable_cpus

if TYPE_CHECKING:
    from pytest_anubis.distributed.workers.controller import Controller

TEST_OVERHEAD = 0.03
"""Seconds that every test needs besides its cost: fixtures, reports, messages to its worker and back."""

WORKER_END_SECONDS = 0.12
"""CPU seconds that a worker needs to end; all workers end at about the same time."""

_MAX_DIFFERENCES = 20  # lines of the difference between two collections


class AnubisScheduling:
    """Implementation of ``xdist.scheduler.Scheduling`` by the dispatcher."""

    def __init__(
        self,
        config: pytest.Config,
        lanes: Sequence[Lane],
        controller: Controller,
        certificates: Certificates = frozenset(),
        costs: Mapping[str, float] | None = None,
    ) -> None:
        self.config = config  # as in xdist's schedulers; pytest-rerunfailures reads it
        self._lanes = tuple(lanes)
        self._controller = controller
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
        """The living workers."""
        return list(self._nodes.values())

    @property
    def collection_is_completed(self) -> bool:
        """True when every lane that still counts has collected."""
        return self._dispatcher.ready

    @property
    def tests_finished(self) -> bool:
        """True when no worker needs another instruction."""
        return self._broken or self._dispatcher.finished

    @property
    def has_pending(self) -> bool:
        """True while tests wait for their start."""
        return bool(self._dispatcher.pending)

    def add_node(self, node: Any) -> None:
        """Handle a worker that has started."""
        name, lane = node.gateway.id, self._controller.lane_of(node)
        self._nodes[name] = node
        with self._as_failed_collection():
            self._dispatcher.worker_ready(name, lane)
            if lane in self._dispatcher.given_up:  # it collects nothing and reports no collection
                self._follow(self._dispatcher.worker_collected(name))

    def add_node_collection(self, node: Any, collection: Sequence[str]) -> None:
        """Handle a worker's collection: all must have collected the same tests in the same order."""
        name = node.gateway.id
        tasks = self._controller.tasks_of(node)
        if self._collection is None and tasks is not None and not self._broken:
            self._collection, self._tasks, self._first = list(collection), tuple(tasks), name
        if list(collection) != self._collection:
            self._break(name, self._difference(name, list(collection)))
            return
        if tuple(tasks or ()) != self._tasks:
            self._break(name, f"{name} and {self._first} say different things about the same tests")
            return
        with self._as_failed_collection():
            self._follow(self._dispatcher.worker_collected(name))

    def schedule(self) -> None:
        """Place the tests when every worker has collected; called again for every replacement."""
        with self._as_failed_collection():
            self._place()

    def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
        """Handle a finished test."""
        with self._as_failed_collection():
            self._notice_end()
            self._follow(self._dispatcher.test_complete(node.gateway.id, item_index))

    def mark_test_pending(self, item: str) -> None:
        """Run a crashed test again."""
        collection = self._collection or []
        with self._as_failed_collection():
            self._follow(self._dispatcher.repeat(collection.index(item)))

    def remove_pending_tests_from_node(self, node: Any, indices: Sequence[int]) -> None:
        """Do nothing, because no test is ever taken back from a worker."""

    def remove_node(self, node: Any) -> str | None:
        """Handle the end of a worker; return the test that it died in.

        Raises:
            KeyError: It never started; xdist expects this.
        """
        name, lane = node.gateway.id, self._controller.lane_of(node)
        known = self._nodes.pop(name, None) is not None
        crashed: int | None = None
        with self._as_failed_collection():
            self._notice_end()
            if ended_in_order(node):
                node.ensure_teardown()  # else its process would survive, and keep its device's memory
                self._follow(self._dispatcher.worker_finished(name))
            else:
                if not known:
                    self._dispatcher.worker_ready(name, lane)
                crashed, instructions = self._dispatcher.worker_crashed(name)
                if lane in self._dispatcher.given_up:
                    self._controller.lane_given_up(node, lane)
                self._follow(instructions)
                self._place()
        if not known:
            raise KeyError(name)
        return None if crashed is None else self._tasks[crashed].test

    # For the controller.

    def stop(self) -> None:
        """Start nothing more."""
        with self._as_failed_collection():
            self._follow(self._dispatcher.stop())

    def can_repeat(self, task: Task) -> bool:
        """Return whether the lane of a crashed test continues."""
        return not self._broken and lane_of(task, self._lanes) not in self._dispatcher.given_up

    @property
    def given_up(self) -> tuple[str, ...]:
        """Names of the lanes whose workers died too often."""
        return self._dispatcher.given_up

    def _follow(self, instructions: Sequence[Instruction]) -> None:
        for instruction in instructions:
            node = self._nodes[instruction.worker]
            if any(self._tasks[index].exclusive for index in self._dispatcher.running):
                self._controller.starts_alone()
            # A worker may have just died; its end is reported separately.
            with contextlib.suppress(OSError):
                if isinstance(instruction, Send):
                    node.send_runtest_some(list(instruction.tests))
                else:
                    self._controller.release(node, instruction.last)

    def _place(self) -> None:
        """Place the tests as soon as all lanes are ready, also if the last one was given up."""
        if self._broken or self._dispatcher.assigned or not self._dispatcher.ready:
            return
        if self._collection is not None:  # else every lane was given up
            self._controller.planned(
                plan(
                    self._tasks,
                    self._lanes,
                    self._certificates,
                    costs=self._costs,
                    overhead=TEST_OVERHEAD,
                    barrier=WORKER_END_SECONDS
                    * max(1.0, (len(self._lanes) - 1) / (usable_cpus() or 1)),
                )
            )
        self._follow(self._dispatcher.assign(self._tasks, self._certificates))

    def _notice_end(self) -> None:
        if self._controller.stopping() and self._dispatcher.assigned and not self.tests_finished:
            self._follow(self._dispatcher.stop())

    @contextlib.contextmanager
    def _as_failed_collection(self) -> Iterator[None]:
        """Turn an error into a failed collection, because in xdist it would be an internal error."""
        try:
            yield
        except (DispatchError, LookupError, ValueError) as error:
            self._break("the scheduler", f"anubis: {error}")

    def _break(self, who: str, text: str) -> None:
        """Report a failed collection and end the run."""
        report = pytest.CollectReport(nodeid=who, outcome="failed", longrepr=text, result=[])
        self.config.hook.pytest_collectreport(report=report)
        self._broken = True  # xdist then ends every worker

    def _difference(self, name: str, collection: list[str]) -> str:
        lines = list(
            difflib.unified_diff(self._collection or [], collection, self._first, name, "", "", n=0)
        )
        more = (
            [f"... {len(lines) - _MAX_DIFFERENCES} more lines"]
            if len(lines) > _MAX_DIFFERENCES
            else []
        )
        shown = "\n".join([*lines[:_MAX_DIFFERENCES], *more])
        return (
            f"workers {self._first} and {name} collected different tests, so nothing can be placed; "
            f"collection must not depend on the process:\n{shown}"
        )


def ended_in_order(node: Any) -> bool:
    """Return whether a worker has ended regularly and without an interrupt."""
    output = getattr(node, "workeroutput", None)
    return output is not None and output.get("exitstatus") != pytest.ExitCode.INTERRUPTED
