"""The dispatcher: a pure state machine that takes events of workers and returns instructions for them.

A worker of xdist starts a test only when it knows the next one or the order to shut down, because the next
test determines which fixtures are torn down. So a worker *holds* the last test that it was given, and the
next instruction starts it. The dispatcher uses this to control the start of every single test.

A test starts when it may overlap with all running tests. An exclusive test starts when all other lanes have
finished in order and their processes are gone; a crashed lane gets a replacement first. While a worker
starts, no test of the host starts, because the worker's imports would disturb it. As in the worker state
machine of dask.distributed, an impossible event raises an error with the log of all recent events.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import accumulate

from pytest_anubis.distributed.dispatch.tasks import (
    HOST_TIME,
    NODE,
    Certificates,
    Lane,
    Task,
    lane_of,
    may_overlap,
    of_host,
)

MAX_STRIKES = 6
"""Strikes without a finished test between them, after which a lane is given up.

A worker that dies in a test counts as one strike, a worker that dies without a test as two.
"""

_LOG_LENGTH = 40  # events


class DispatchError(ValueError):
    """An event that is impossible after the previous ones; the message lists these."""


@dataclass(frozen=True, slots=True)
class Send:
    """Instruction to give tests, by their indices, to a worker, which runs all its tests but the last."""

    worker: str
    tests: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Shutdown:
    """Instruction to a worker to run the test that it holds, `last` (None if it holds none), and to end."""

    worker: str
    last: int | None = None


Instruction = Send | Shutdown


class State(StrEnum):
    """State of a lane."""

    BOOTING = "booting"  # no worker yet, or one that has not collected
    OPEN = "open"  # its worker takes tests
    CLOSING = "closing"  # its worker has the order to shut down
    CLOSED = "closed"  # its worker has finished in order


@dataclass(slots=True)
class _Track:
    """A lane with its changing state: at most one test runs, at most one more is held."""

    lane: Lane
    state: State = State.BOOTING
    worker: str | None = None
    queue: deque[int] = field(default_factory=deque)
    running: int | None = None
    held: int | None = None
    strikes: int = 0
    given_up: bool = False


class Dispatcher:
    """The state of all lanes and tests of a run.

    Lanes exist from the start, tests from `assign` on. Every method for an event returns the instructions
    that follow from it, in order, and raises `DispatchError` if the event is impossible after the earlier
    ones.
    """

    def __init__(self, lanes: Sequence[Lane]) -> None:
        self._tracks = {lane.name: _Track(lane) for lane in lanes}
        self._workers: dict[str, _Track] = {}  # living worker -> its lane
        self._tasks: tuple[Task, ...] | None = None
        self._certificates: Certificates = frozenset()
        self._stopped = False
        self._dropped: list[int] = []
        self._events: deque[str] = deque(maxlen=_LOG_LENGTH)

    # State.

    @property
    def assigned(self) -> bool:
        """True when the tests are known."""
        return self._tasks is not None

    @property
    def finished(self) -> bool:
        """True when all lanes have finished or are about to."""
        return self.assigned and all(
            track.state in (State.CLOSING, State.CLOSED) for track in self._tracks.values()
        )

    @property
    def pending(self) -> tuple[int, ...]:
        """Indices of tests that have not been started, lane by lane."""
        return tuple(
            index
            for track in self._tracks.values()
            for index in (*([] if track.held is None else [track.held]), *track.queue)
        )

    @property
    def running(self) -> tuple[int, ...]:
        """Indices of tests that are running."""
        return tuple(t.running for t in self._tracks.values() if t.running is not None)

    @property
    def dropped(self) -> tuple[int, ...]:
        """Indices of tests that will never run, because their lane was given up or ended early."""
        return tuple(self._dropped)

    @property
    def ready(self) -> bool:
        """True when every lane that was not given up has a worker that has collected."""
        return all(t.state is not State.BOOTING or t.given_up for t in self._tracks.values())

    @property
    def given_up(self) -> tuple[str, ...]:
        """Names of the lanes whose workers died too often."""
        return tuple(t.lane.name for t in self._tracks.values() if t.given_up)

    def story(self) -> str:
        """Return the last events and instructions, one a line."""
        return "\n".join(self._events)

    # Events.

    def worker_ready(self, worker: str, lane: str) -> None:
        """Handle a worker that has started for a lane without one."""
        self._log(f"{worker} is ready for lane {lane}")
        track = self._tracks.get(lane)
        if track is None:
            raise self._impossible(f"there is no lane {lane}")
        if worker in self._workers:
            raise self._impossible(
                f"{worker} serves lane {self._workers[worker].lane.name} already"
            )
        if track.worker is not None or track.state is not State.BOOTING:
            raise self._impossible(f"lane {lane} is {track.state} with worker {track.worker}")
        track.worker = worker
        self._workers[worker] = track

    def worker_collected(self, worker: str) -> list[Instruction]:
        """Handle a worker that has collected the agreed tests."""
        self._log(f"{worker} has collected")
        track = self._track(worker)
        if track.state is not State.BOOTING:
            raise self._impossible(f"{worker} has collected already")
        track.state = State.OPEN
        return self._advance()

    def assign(self, tasks: Sequence[Task], certificates: Certificates) -> list[Instruction]:
        """Put the tests into their lanes, once they are known.

        In the node's lane, tests come first that may overlap with many tests of other lanes, and exclusive
        ones last. In the lanes of accelerators, tests timed by the host are spread. Else the order is kept.
        """
        self._log(f"{len(tasks)} tests are known")
        if self._tasks is not None:
            raise self._impossible("the tests are known already")
        self._tasks = tuple(tasks)
        self._certificates = certificates
        for index in self._order(self._tasks):
            track = self._tracks[self._lane_of(index)]
            (self._dropped if track.given_up else track.queue).append(index)
        self._spread(self._tasks)
        return self._advance()

    def test_complete(self, worker: str, index: int) -> list[Instruction]:
        """Handle a finished test."""
        self._log(f"{worker} has finished test {index}")
        track = self._track(worker)
        if self._stopped and index in self._dropped:
            return []  # it has refused to run the test that it held
        if track.running != index:
            raise self._impossible(f"{worker} runs test {track.running}, not {index}")
        track.running = None
        track.strikes = 0
        return self._advance()

    def worker_finished(self, worker: str) -> list[Instruction]:
        """Handle a worker that has ended in order; its remaining tests are dropped."""
        self._log(f"{worker} has finished in order")
        track = self._track(worker)
        self._drop(track)
        del self._workers[worker]
        track.worker, track.state = None, State.CLOSED
        return self._advance()

    def worker_crashed(self, worker: str) -> tuple[int | None, list[Instruction]]:
        """Handle a worker that has died; a replacement for its lane will follow.

        Returns:
            The index of the running test, which is not repeated, or None; and the instructions. The other
            tests of the worker go back to the front of its lane.
        """
        self._log(f"{worker} has crashed")
        track = self._track(worker)
        crashed = track.running
        if track.held is not None:
            track.queue.appendleft(track.held)
        track.running = track.held = track.worker = None
        track.state = State.BOOTING
        del self._workers[worker]
        track.strikes += 2 if crashed is None else 1
        if track.strikes >= MAX_STRIKES and not track.given_up:
            track.given_up = True
            self._log(f"  lane {track.lane.name} is given up")
            self._drop(track)
        return crashed, self._advance()

    def stop(self) -> list[Instruction]:
        """End the run early: start no further test."""
        self._log("the run is to stop")
        self._stopped = True
        for track in self._tracks.values():
            running, track.running = track.running, None
            self._drop(track)
            track.running = running
        return self._advance()

    def repeat(self, index: int) -> list[Instruction]:
        """Put a crashed test back to the front of its lane, before the replacement starts."""
        self._log(f"test {index} is to be repeated")
        if self._tasks is None or not 0 <= index < len(self._tasks):
            raise self._impossible(f"there is no test {index}")
        track = self._tracks[self._lane_of(index)]
        if track.state is not State.BOOTING or track.given_up:
            raise self._impossible(f"lane {track.lane.name} takes no more tests")
        track.queue.appendleft(index)
        return self._advance()

    # Consequences of events.

    def _order(self, tasks: tuple[Task, ...]) -> list[int]:
        lanes = [self._lane_of(index) for index in range(len(tasks))]
        if len(set(lanes)) < 2:
            return list(range(len(tasks)))

        def key(index: int) -> tuple[bool, int]:
            if lanes[index] != NODE:
                return False, 0
            partners = sum(
                may_overlap(tasks[index], task, self._certificates)
                for task, lane in zip(tasks, lanes, strict=True)
                if lane != NODE
            )
            return tasks[index].exclusive, -partners

        return sorted(range(len(tasks)), key=key)

    def _spread(self, tasks: tuple[Task, ...]) -> None:
        """Place the tests timed by the host at different times in different lanes.

        Only one of them runs at a time, and a waiting lane is idle. In the first lane they come first, and in
        each further lane later by an equal share of its other tests.
        """
        shared = [
            track
            for track in self._tracks.values()
            if any(HOST_TIME in tasks[index].resources for index in track.queue)
        ]
        for number, track in enumerate(shared):
            timed = [index for index in track.queue if HOST_TIME in tasks[index].resources]
            others = [index for index in track.queue if index not in timed]
            begins = list(accumulate((tasks[index].cost or 0.0 for index in others), initial=0.0))
            turn = begins[-1] * number / len(shared)
            at = min(range(len(begins)), key=lambda place: abs(begins[place] - turn))
            track.queue = deque([*others[:at], *timed, *others[at:]])

    def _lane_of(self, index: int) -> str:
        tasks = self._tasks or ()
        return lane_of(tasks[index], [track.lane for track in self._tracks.values()])

    def _advance(self) -> list[Instruction]:
        """Return what every lane may do now; lanes of devices go first."""
        instructions: list[Instruction] = []
        if self._tasks is None:
            return instructions
        for track in self._tracks.values():
            instructions += self._step(track, self._tasks)
        for instruction in instructions:
            self._log(f"  -> {instruction}")
        return instructions

    def _step(self, track: _Track, tasks: tuple[Task, ...]) -> list[Instruction]:
        worker = track.worker
        if track.state is not State.OPEN or worker is None:
            return []
        if self._stopped:
            track.state = State.CLOSING
            return [Shutdown(worker)]
        sent: list[int] = []
        if track.held is None and track.queue:
            track.held = track.queue.popleft()
            sent.append(track.held)
        if track.running is None and (
            track.held is None or self._may_start(track, tasks[track.held])
        ):
            track.running, track.held = track.held, None
            if not track.queue:
                track.state = State.CLOSING
                shutdown = Shutdown(worker, track.running)
                return [Send(worker, tuple(sent)), shutdown] if sent else [shutdown]
            track.held = track.queue.popleft()
            sent.append(track.held)
        return [Send(worker, tuple(sent))] if sent else []

    def _may_start(self, track: _Track, task: Task) -> bool:
        others = [other for other in self._tracks.values() if other is not track]
        if task.exclusive:
            return all(other.state is State.CLOSED for other in others)
        if of_host(task) and any(other.state is State.BOOTING for other in others):
            return False
        running = [self._tasks[i] for i in self.running] if self._tasks else []
        return all(may_overlap(task, other, self._certificates) for other in running)

    def _drop(self, track: _Track) -> None:
        left = [index for index in (track.running, track.held) if index is not None]
        self._dropped += [*left, *track.queue]
        track.running = track.held = None
        track.queue.clear()

    def _track(self, worker: str) -> _Track:
        track = self._workers.get(worker)
        if track is None:
            raise self._impossible(f"{worker} serves no lane")
        return track

    def _log(self, event: str) -> None:
        self._events.append(event)

    def _impossible(self, text: str) -> DispatchError:
        return DispatchError(f"{text}; what happened so far:\n{self.story()}")
