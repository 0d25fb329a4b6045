"""Predict a run: which test runs where and when, and how long everything takes. Pure.

The prediction plays the dispatcher itself against a clock of its own, so that the plan cannot differ from
what is done later.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pytest_anubis.distributed.dispatch.dispatcher import Dispatcher, Instruction, Send
from pytest_anubis.distributed.dispatch.tasks import Certificates, Lane, Task

UNKNOWN_COST = 1.0
"""Seconds that a test is taken to need of which nothing is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """One test's place and time.

    Attributes:
        test: Node id.
        lane: Name of the lane.
        start: Seconds after the first test's start.
        end: Seconds after the first test's start.
        alone: Nothing else runs on the node meanwhile because the test demands it.
    """

    test: str
    lane: str
    start: float
    end: float
    alone: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The predicted run.

    Attributes:
        slots: In order of start.
        lanes: Names of the lanes that have work.
        wall: Seconds from the first test's start to the last one's end.
        serial: Seconds that the same tests take one after the other.
        unknown: How many tests have no known cost and are counted as `UNKNOWN_COST`.
    """

    slots: tuple[Slot, ...]
    lanes: tuple[str, ...]
    wall: float
    serial: float
    unknown: int = 0


def plan(
    tasks: Sequence[Task],
    lanes: Sequence[Lane],
    certificates: Certificates = frozenset(),
    *,
    costs: Mapping[str, float] | None = None,
    overhead: float = 0.0,
    barrier: float = 0.0,
) -> Plan:
    """Predict when every test runs if none fails to finish; what does not apply here takes no time.

    Args:
        tasks: What is to be run.
        lanes: Where it may be run; as many workers.
        certificates: Which benchmarks do not disturb each other.
        costs: Measured duration in seconds by node id or benchmark id; counts before a declared cost.
        overhead: Seconds that each test needs besides its cost: set-up, reports, messages.
        barrier: Seconds from the end of the last test that ran beside others until the first that runs alone
            can start: the other workers end meanwhile.
    """
    measured = costs or {}
    known = [_cost(task, measured) if task.applies else -overhead for task in tasks]
    needs = [(UNKNOWN_COST if cost is None else cost) + overhead for cost in known]
    apply = {task.test for task in tasks if task.applies}
    dispatcher = Dispatcher(lanes)
    for lane in lanes:
        dispatcher.worker_ready(lane.name, lane.name)  # a worker is as good as its lane here
        dispatcher.worker_collected(lane.name)
    stage = _Stage(tasks, needs, barrier if len(lanes) > 1 else 0.0)
    stage.follow(dispatcher.assign(tasks, certificates))
    while (event := stage.next_event()) is not None:
        name, index = event
        if index is None:
            stage.follow(dispatcher.worker_finished(name))
        else:
            stage.follow(dispatcher.test_complete(name, index))
    slots = [slot for slot in stage.slots if slot.test in apply]
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


class _Stage:
    """Workers that do exactly what a real one does with its instructions, in no time but the tests'."""

    def __init__(self, tasks: Sequence[Task], needs: Sequence[float], barrier: float) -> None:
        self.slots: list[Slot] = []
        self._tasks = tasks
        self._needs = needs
        self._barrier = barrier
        self._now = 0.0
        self._held: dict[str, int] = {}
        self._told: set[str] = set()
        self._ends: list[tuple[float, int, str, int]] = []  # end, sequence, lane, index
        self._leaving: deque[str] = deque()

    def follow(self, instructions: Sequence[Instruction]) -> None:
        """Start what the instructions let start."""
        for instruction in instructions:
            lane = instruction.worker
            if isinstance(instruction, Send):
                for index in instruction.tests:
                    self._start_held(lane)
                    self._held[lane] = index
            elif lane in self._held:
                self._start_held(lane)
                self._told.add(lane)
            else:
                self._leaving.append(lane)

    def next_event(self) -> tuple[str, int | None] | None:
        """Return the lane and the test that is complete, or no test if its worker has finished."""
        if self._leaving:
            return self._leaving.popleft(), None
        if not self._ends:
            return None
        self._now, _, lane, index = heapq.heappop(self._ends)
        if lane in self._told:
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
        slot = Slot(test=task.test, lane=lane, start=self._now, end=end, alone=task.exclusive)
        heapq.heappush(self._ends, (end, len(self.slots), lane, index))
        self.slots.append(slot)


def _cost(task: Task, measured: Mapping[str, float]) -> float | None:
    for key in (task.test, task.benchmark):
        if key in measured:
            return measured[key]
    return task.cost
