"""Predicts a run: which test runs where and when, and how long the run takes. Pure.

The prediction runs the dispatcher itself with simulated workers, so the plan follows the rules of the run.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pytest_anubis.distributed.dispatch.dispatcher import Dispatcher, Instruction, Send
from pytest_anubis.distributed.dispatch.tasks import Certificates, Lane, Task

UNKNOWN_COST = 1.0
"""Seconds assumed for a test of unknown cost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledTest:
    """The predicted lane and time of one test, in seconds after the first test's start."""

    test: str
    lane: str
    start: float
    end: float
    alone: bool  # the test is exclusive, so nothing else runs meanwhile


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The predicted run."""

    slots: tuple[ScheduledTest, ...]  # the tests in order of start
    lanes: tuple[str, ...]  # names of the lanes that have work
    wall: float  # seconds from the first test's start to the last one's end
    serial: float  # seconds of the same tests one after the other
    unknown: int = 0  # number of tests without a known cost, counted as `UNKNOWN_COST`


def plan(
    tasks: Sequence[Task],
    lanes: Sequence[Lane],
    certificates: Certificates = frozenset(),
    *,
    costs: Mapping[str, float] | None = None,
    overhead: float = 0.0,
    barrier: float = 0.0,
) -> Plan:
    """Predict when every test runs if all finish; tests that do not apply here take no time.

    Args:
        tasks: The tests.
        lanes: The lanes, each with one worker.
        certificates: Pairs of benchmarks that may overlap.
        costs: Measured seconds by node id or benchmark id; they count before a declared cost.
        overhead: Seconds that each test needs besides its cost: set-up, reports, messages.
        barrier: Seconds before the first exclusive test, in which the other workers end.
    """
    measured = costs or {}
    known = [_cost(task, measured) if task.applies else -overhead for task in tasks]
    needs = [(UNKNOWN_COST if cost is None else cost) + overhead for cost in known]
    apply = {task.test for task in tasks if task.applies}
    dispatcher = Dispatcher(lanes)
    for lane in lanes:
        dispatcher.worker_ready(lane.name, lane.name)  # the worker has the lane's name
        dispatcher.worker_collected(lane.name)
    workers = _SimulatedWorkers(tasks, needs, barrier if len(lanes) > 1 else 0.0)
    workers.follow(dispatcher.assign(tasks, certificates))
    while (event := workers.next_event()) is not None:
        name, index = event
        if index is None:
            workers.follow(dispatcher.worker_finished(name))
        else:
            workers.follow(dispatcher.test_complete(name, index))
    slots = [slot for slot in workers.slots if slot.test in apply]
    used = {slot.lane for slot in slots}
    return Plan(
        slots=tuple(slots),
        lanes=tuple(lane.name for lane in lanes if lane.name in used),
        wall=max((slot.end for slot in slots), default=0.0),
        serial=sum(needs),
        unknown=sum(cost is None for cost in known),
    )


def plan_lines(plan: Plan, *, every: bool = False) -> list[str]:
    """Return the plan for the terminal: one line, and with `every` one more for each test."""
    count = len(plan.slots)
    text = f"anubis: {count} test{'s' if count != 1 else ''}, about {_duration(plan.wall)}"
    if len(plan.lanes) > 1:
        text += f" in lanes {', '.join(plan.lanes)}; one after the other {_duration(plan.serial)}"
    if plan.unknown:
        text += f" ({plan.unknown} of unknown cost, counted as {UNKNOWN_COST:g} s)"
    lines = [text]
    if every:
        width = max((len(name) for name in plan.lanes), default=0)
        for slot in plan.slots:
            alone = "  (alone)" if slot.alone and len(plan.lanes) > 1 else ""
            when = f"{slot.start:8.1f} s  {slot.end - slot.start:6.1f} s"
            lines.append(f"  {when}  {slot.lane:{width}}  {slot.test}{alone}")
    return lines


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


class _SimulatedWorkers:
    """Workers that follow instructions like real ones, on a simulated clock."""

    def __init__(self, tasks: Sequence[Task], needs: Sequence[float], barrier: float) -> None:
        self.slots: list[ScheduledTest] = []
        self._tasks = tasks
        self._needs = needs
        self._barrier = barrier
        self._now = 0.0
        self._held: dict[str, int] = {}
        self._closing: set[str] = set()  # lanes that end after their running test
        self._ends: list[tuple[float, int, str, int]] = []  # end, sequence, lane, index
        self._leaving: deque[str] = deque()

    def follow(self, instructions: Sequence[Instruction]) -> None:
        """Start the tests that the instructions start."""
        for instruction in instructions:
            lane = instruction.worker
            if isinstance(instruction, Send):
                for index in instruction.tests:
                    self._start_held(lane)
                    self._held[lane] = index
            elif lane in self._held:
                self._start_held(lane)
                self._closing.add(lane)
            else:
                self._leaving.append(lane)

    def next_event(self) -> tuple[str, int | None] | None:
        """Return the lane of the next event and its completed test, or no test if its worker ends."""
        if self._leaving:
            return self._leaving.popleft(), None
        if not self._ends:
            return None
        self._now, _, lane, index = heapq.heappop(self._ends)
        if lane in self._closing:
            self._leaving.append(lane)
        return lane, index

    def _start_held(self, lane: str) -> None:
        index = self._held.pop(lane, None)
        if index is None:
            return
        task = self._tasks[index]
        if task.exclusive and self.slots and not any(slot.alone for slot in self.slots):
            self._now += self._barrier
        end = self._now + self._needs[index]
        slot = ScheduledTest(
            test=task.test, lane=lane, start=self._now, end=end, alone=task.exclusive
        )
        heapq.heappush(self._ends, (end, len(self.slots), lane, index))
        self.slots.append(slot)


def _cost(task: Task, measured: Mapping[str, float]) -> float | None:
    for key in (task.test, task.benchmark):
        if key in measured:
            return measured[key]
    return task.cost
