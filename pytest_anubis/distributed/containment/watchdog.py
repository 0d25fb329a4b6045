"""Containment: deadlines that are enforced from outside the process that does not keep them.

A benchmark that hangs inside a C call cannot be ended from within: no Python runs there. So a thread of
the controller watches what every worker is doing and since when, and kills a worker with all that it has
started when its time is over. What the worker had measured and sent until then is in the journal.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_anubis.distributed.containment.processes import is_gone, kill_tree, stack_of
from pytest_anubis.hardware.round_plans import PROFILE_FACTOR

FACTOR = 10.0
"""A test may take this many times its expected duration."""

LEAST = 60.0
"""Seconds that a test with an expected duration may always take: the first one pays for imports."""

UNKNOWN = 600.0
"""Seconds that a test may take of which nothing is known."""

GRACE = 2.0
"""Seconds beyond a pytest-timeout mark, so that pytest-timeout may end the test more gently first."""

STARTING = 300.0
"""Seconds that a worker may take to start and to collect."""

LEAVING = 60.0
"""Seconds that a worker may take to end."""

STUBBORN = 10.0
"""Seconds after which a killed process that is still there is given up: it hangs in the kernel."""


@dataclass(frozen=True, slots=True)
class Deadline:
    """How long a test may take.

    Attributes:
        seconds: From its start to the end of its teardown.
        source: Where the figure comes from, for people.
    """

    seconds: float
    source: str


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
        limit: Seconds of ``--anubis-timeout``; it counts before the others.
        profile: Profile of the run, for tests of which nothing else is known.
        measured: Median duration in earlier runs of this profile on this hardware class, in seconds.
        least: Seconds that the test may always take, as its ``anubis`` mark says.
    """
    if limit is not None:
        return Deadline(limit, "--anubis-timeout")
    if mark is not None and mark > 0:
        return Deadline(mark + GRACE, "its timeout mark")
    if cost is not None or measured is not None:
        expected = max(cost or 0.0, measured or 0.0)
        if least is not None and least > max(LEAST, FACTOR * expected):
            return Deadline(least, "its mark's deadline")
        if FACTOR * expected < LEAST:
            return Deadline(LEAST, f"the shortest deadline; its cost is {expected:.3g} s")
        return Deadline(FACTOR * expected, f"{FACTOR:g} times its cost")
    return Deadline(UNKNOWN * PROFILE_FACTOR["cpu"].get(profile, 1.0), "no cost is declared")


@dataclass(frozen=True, slots=True, kw_only=True)
class Overdue:
    """A worker that did not keep its deadline.

    Attributes:
        doing: ``test``, ``start`` or ``end``.
        test: Node id of the test, empty if it was none.
        deadline: What it did not keep.
        stack: Where its threads were; empty if it did not answer.
        stubborn: It could not be killed: it hangs in the kernel.
        survived: How the test ended otherwise, one phrase; empty if the process was to be killed.
    """

    doing: str
    test: str = ""
    deadline: Deadline
    stack: str = ""
    stubborn: bool = False
    survived: str = ""


@dataclass(slots=True)
class _Watched:
    """One worker and what it is doing."""

    pid: int | None = None
    stack_file: Path | None = None
    doing: str = ""
    test: str = ""
    deadline: Deadline | None = None
    ends: float = float("inf")


class Watchdog:
    """Watches workers from a thread of its own, and kills those that do not keep their deadlines.

    All methods may be called from any thread and return at once.

    Args:
        gave_up: Called from the thread with the name of a worker that could not be killed.
        clock: Seconds, monotonic.
        kill: Ends a process with all that it started.
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
        """Learn the process of a worker; without it nothing can be killed."""
        with self._changed:
            watched = self._workers.setdefault(worker, _Watched())
            watched.pid, watched.stack_file = pid, stack_file

    def doing(
        self, worker: str, what: str, deadline: Deadline | None = None, test: str = ""
    ) -> None:
        """Learn what a worker does from now on, and how long it may.

        Args:
            worker: Name of the worker.
            what: ``start``, ``test``, ``end``, or anything else without a deadline.
            deadline: None for no limit.
            test: Node id if it is a test.
        """
        with self._changed:
            watched = self._workers.setdefault(worker, _Watched())
            watched.doing, watched.test, watched.deadline = what, test, deadline
            watched.ends = self._clock() + deadline.seconds if deadline else float("inf")
            if self._thread is None and not self._stopped:
                self._thread = threading.Thread(
                    target=self._run, name="anubis-watchdog", daemon=True
                )
                self._thread.start()
            self._changed.notify()

    def gone(self, worker: str) -> Overdue | None:
        """Forget a worker that has ended, and return what it was killed for, None if it was not."""
        with self._changed:
            self._workers.pop(worker, None)
            return self._overdue.pop(worker, None)

    def stop(self) -> None:
        """Watch no more."""
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
                    soonest = min((one.ends for one in self._workers.values()), default=now + 60)
                    self._changed.wait(min(soonest - now, 60.0))
                    continue
                watched = self._workers[late[0]]
                watched.ends = float("inf")
            self._end(late[0], watched)

    def _end(self, worker: str, watched: _Watched) -> None:
        pid = watched.pid
        overdue = Overdue(
            doing=watched.doing,
            test=watched.test,
            deadline=watched.deadline or Deadline(0.0, ""),
            stubborn=pid is None,
        )
        if pid is not None:
            if watched.stack_file is not None:
                overdue = replace(overdue, stack=stack_of(pid, watched.stack_file))
            with self._changed:
                if watched.deadline is not overdue.deadline:
                    return  # it ended by itself meanwhile; whoever hears of its end knows the deadline too
                # Known before the worker is gone: the controller asks as soon as its pipe closes.
                self._overdue[worker] = overdue
            self._kill(pid)
            if self._dies(pid):
                return
        with self._changed:
            self._overdue[worker] = replace(overdue, stubborn=True)
        self._gave_up(worker)

    def _dies(self, pid: int) -> bool:
        until = time.monotonic() + STUBBORN
        while not is_gone(pid):
            if time.monotonic() > until:
                return False
            time.sleep(0.05)
        return True
