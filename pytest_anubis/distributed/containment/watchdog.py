"""The watchdog: enforces deadlines on workers from the controller's process.

A benchmark that hangs inside a C call cannot be ended from within, because no Python code runs there. So a
thread of the controller knows what every worker is doing and since when. When a deadline is over, it kills
the worker with its descendants. The values that the worker has sent until then are in the journal.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_anubis.distributed.containment.processes import is_gone, kill_tree, stack_of, wait_gone
from pytest_anubis.hardware.round_plans import PROFILE_FACTOR

COST_FACTOR = 10.0
"""Deadline of a test as a multiple of its expected duration."""

MIN_SECONDS = 60.0
"""Shortest deadline from an expected duration, in seconds; a first test also pays for imports."""

DEFAULT_SECONDS = 600.0
"""Deadline of a test of unknown duration in the profile smoke, in seconds."""

GRACE = 2.0
"""Seconds added to a pytest-timeout mark, so that pytest-timeout can end the test more gently first."""

START_SECONDS = 300.0
"""Deadline for a worker's start and collection."""

END_SECONDS = 60.0
"""Deadline for a worker's end."""

LOOK = 60.0
"""Seconds between two looks at the clock if nothing happens."""

KILL_SECONDS = 10.0
"""Seconds that a killed process has to disappear; one that takes longer hangs in the kernel."""


@dataclass(frozen=True, slots=True)
class Deadline:
    """How long a test may take."""

    seconds: float  # time from its start to the end of its teardown
    source: str  # origin of the figure, for people


def deadline_of(
    *,
    cost: float | None,
    mark: float | None,
    limit: float | None,
    profile: str = "smoke",
    measured: float | None = None,
    least: float | None = None,
) -> Deadline:
    """Return how long a test may take.

    Args:
        cost: Expected duration in the profile of the run, in seconds.
        mark: Seconds of a pytest-timeout mark.
        limit: Seconds of ``--anubis-timeout``, which overrides all others.
        profile: Profile of the run, for tests of unknown duration.
        measured: Median duration in earlier runs of this profile on this hardware class, in seconds.
        least: Seconds that the test may always take by its ``anubis`` mark.
    """
    if limit is not None:
        return Deadline(limit, "--anubis-timeout")
    if mark is not None and mark > 0:
        return Deadline(mark + GRACE, "its timeout mark")
    expected = max(cost or 0.0, measured or 0.0)
    if cost is None and measured is None:
        usual = DEFAULT_SECONDS * PROFILE_FACTOR["cpu"].get(profile, 1.0)
        found = Deadline(usual, "no cost is declared")
    elif COST_FACTOR * expected < MIN_SECONDS:
        found = Deadline(MIN_SECONDS, f"the shortest deadline; its cost is {expected:.3g} s")
    else:
        found = Deadline(COST_FACTOR * expected, f"{COST_FACTOR:g} times its cost")
    if least is not None and least > found.seconds:
        return Deadline(least, "its mark's deadline")
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Overdue:
    """A missed deadline."""

    deadline: Deadline
    stack: str = ""  # stacks of the worker's threads; empty if it did not answer
    stubborn: bool = False  # the worker could not be killed, because it hangs in the kernel
    # How the late test ended by itself, one phrase; empty if the watchdog killed its worker
    survived: str = ""


@dataclass(slots=True)
class _Watched:
    """One worker and the deadline of what it is doing."""

    pid: int | None = None
    stack_file: Path | None = None
    deadline: Deadline | None = None
    ends: float = float("inf")


class Watchdog:
    """The workers with their deadlines, and a thread that kills those that miss theirs.

    All methods may be called from any thread. All but `stop` return at once; it waits up to a second.

    Args:
        gave_up: Called from the watchdog's thread with the name of a worker that could not be killed.
        clock: Monotonic seconds.
        kill: Kills a process with its descendants.
    """

    def __init__(
        self,
        gave_up: Callable[[str], None],
        *,
        clock: Callable[[], float] = time.monotonic,
        kill: Callable[[int], None] = kill_tree,
    ) -> None:
        self._gave_up = gave_up
        self._clock = clock
        self._kill = kill
        self._workers: dict[str, _Watched] = {}
        self._overdue: dict[str, Overdue] = {}
        self._changed = threading.Condition()
        self._stopped = False
        self._thread: threading.Thread | None = None

    def process(self, worker: str, pid: int, stack_file: Path | None) -> None:
        """Set the process of a worker, without which it cannot be killed."""
        with self._changed:
            watched = self._workers.setdefault(worker, _Watched())
            watched.pid, watched.stack_file = pid, stack_file

    def begins(self, worker: str, deadline: Deadline | None = None) -> None:
        """Set the deadline of what a worker does from now on; None for none."""
        with self._changed:
            watched = self._workers.setdefault(worker, _Watched())
            watched.deadline = deadline
            watched.ends = self._clock() + deadline.seconds if deadline else float("inf")
            if self._thread is None and not self._stopped:
                self._thread = threading.Thread(
                    target=self._run, name="anubis-watchdog", daemon=True
                )
                self._thread.start()
            self._changed.notify()

    def gone(self, worker: str) -> Overdue | None:
        """Forget a worker that has ended; return the deadline it was killed for, None if it was not."""
        with self._changed:
            self._workers.pop(worker, None)
            return self._overdue.pop(worker, None)

    def stop(self) -> None:
        """Stop watching."""
        with self._changed:
            self._stopped = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(timeout=1.0)

    def _run(self) -> None:
        while True:
            with self._changed:
                if self._stopped:
                    return
                now = self._clock()
                late = [name for name, one in self._workers.items() if one.ends <= now]
                if not late:
                    soonest = min((one.ends for one in self._workers.values()), default=now + LOOK)
                    self._changed.wait(min(soonest - now, LOOK))
                    continue
                watched = self._workers[late[0]]
                watched.ends = float("inf")
                # Before the lock is released, as the worker may begin its next test right after.
                overdue = Overdue(
                    deadline=watched.deadline or Deadline(0.0, ""), stubborn=watched.pid is None
                )
            self._end_overdue(late[0], watched, overdue)

    def _end_overdue(self, worker: str, watched: _Watched, overdue: Overdue) -> None:
        pid = watched.pid
        if pid is not None:
            if watched.stack_file is not None:
                overdue = replace(overdue, stack=stack_of(pid, watched.stack_file))
            with self._changed:
                if watched.deadline is not overdue.deadline:
                    return  # the test ended meanwhile; `WorkerMessages` notices that it was late
                # Before the kill, because the controller asks as soon as the worker's pipe closes.
                self._overdue[worker] = overdue
            self._kill(pid)
            wait_gone([pid], KILL_SECONDS)
            if is_gone(pid):
                return
        with self._changed:
            self._overdue[worker] = replace(overdue, stubborn=True)
        self._gave_up(worker)
