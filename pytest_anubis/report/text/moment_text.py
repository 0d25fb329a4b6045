"""A run that goes on, in one line: what runs where, what is done, failed or died, what waits for a lane."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from pytest_anubis.core.events import WorkerDied
from pytest_anubis.core.measurement import PlannedTest
from pytest_anubis.core.run_state import RunState
from pytest_anubis.report.text.numbers import count_text, duration_text

SHOWN = 3
"""Names of a kind in one line: with more of them its end leaves the terminal."""

UNKNOWN = 1.0
"""Seconds that a test is taken to need of which nothing is known, as the plan takes it."""

_FAILURES = ("failed", "error", "crashed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """How far a run is.

    Attributes:
        doing: What runs, and on which devices; empty before the first test.
        planned: All that are planned; 0 while that is unknown.
        waiting: Tests that wait for a lane of which nothing runs, and why; empty if none does.
        cost: Seconds that all of it was expected to take; 0 while that is unknown.
        share: Part of that which has ended, 0 to 1.
    """

    doing: str = ""
    done: int = 0
    planned: int = 0
    failed: tuple[str, ...] = ()
    waiting: str = ""
    cost: float = 0.0
    share: float = 0.0
    cards: bool = False

    def text(self, left: float | None = None) -> str:
        """Return all of it in one line.

        Args:
            left: Seconds that the rest takes; None if unknown.
        """
        idle = "starting" if not self.done else "waits for a worker"
        if self.planned and self.done >= self.planned:
            idle = "writes what it found"
        parts = [self.doing or idle]
        if self.planned:
            parts.append(f"{self.done} of {self.planned} done")
        parts += left_text(left)
        if self.failed:
            parts.append(f"{len(self.failed)} failed: {_some(self.failed)}")
        if self.waiting:
            parts.append(self.waiting)
        return ", ".join(parts)


def left_text(seconds: float | None) -> list[str]:
    """Say about how long something takes still; nothing where nobody knows, or within the last second."""
    if seconds is None or seconds < 1:
        return []
    return [f"about {duration_text(round(seconds)).replace('.0 s', ' s')} left"]


def moment_of(state: RunState, beginning: str = "") -> Moment:
    """Return how far the run is of which so much is known; events may come in meanwhile.

    Args:
        state: What is known of the run.
        beginning: Test that begins now, where no event says so yet; empty if none does.
    """
    # Copies, which a thread makes in one go: what is gone through here may grow in another.
    running = tuple(dict.fromkeys((*state.running, *([beginning] if beginning else ()))))
    results, planned = list(state.results.values()), len(state.planned)
    costs = {test: plan.cost or UNKNOWN for test, plan in list(state.planned.items())}
    whole = sum(costs.values())
    return Moment(
        doing=" and ".join(_doing(state, running)),
        done=len(results),
        planned=planned,
        failed=tuple(_short(one.test) for one in results if one.outcome in _FAILURES),
        waiting=_lanes_that_wait(state, running),
        cost=whole if state.expected is None else state.expected.wall,
        cards=any(":" in plan.device for plan in list(state.planned.values())),
        share=sum(costs.get(one.test, 0.0) for one in results) / whole if whole else 0.0,
    )


def _doing(state: RunState, running: Collection[str]) -> Iterator[str]:
    """Yield what runs, the same benchmark on several devices once."""
    places: dict[str, list[str]] = {}
    for test in running:
        plan = state.planned.get(test, PlannedTest(test=test))
        name = _short(plan.benchmark or plan.test)
        places.setdefault(name, []).extend([plan.device] if plan.device else [])
    shown = [f"{name} on {_some(on)}" if on else name for name, on in places.items()]
    yield from shown[:SHOWN]
    if len(shown) > SHOWN:
        yield f"{len(shown) - SHOWN} more"


def _lanes_that_wait(state: RunState, running: Collection[str]) -> str:
    """Say how many tests wait for their turn in lanes in which nothing runs while others do."""
    if state.expected is None or not running:
        return ""
    slots = state.expected.tests
    busy = {slot.lane for slot in slots if slot.test in running}
    waiting = [s for s in slots if s.lane not in busy and s.test not in state.results]
    lanes = list(dict.fromkeys(slot.lane for slot in waiting))
    if not waiting or not busy:
        return ""
    each = "waits" if len(waiting) == 1 else "wait"
    names = f"lane{'' if len(lanes) == 1 else 's'} {_some(lanes)}"
    return f"{count_text(len(waiting), 'test')} of {names} {each} until the others are done"


def _some(names: Collection[str]) -> str:
    more = [f"{len(names) - SHOWN} more"] if len(names) > SHOWN else []
    return ", ".join([*list(names)[:SHOWN], *more])


def _short(test: str) -> str:
    return test.rpartition("::")[2]


def death_line(died: WorkerDied) -> str:
    """Say which worker died, of what and in which test, and what becomes of the rest.

    xdist says "node down: Not properly terminated" beside it, which names none of these.
    """
    where = f" while it ran {died.test}" if died.test else ", while it ran no test"
    kept = "what it had measured is kept, and " if died.test else ""
    step = "; its report says what to do next" if died.test else ""
    return (
        f"anubis: worker {died.worker} ended{where}: {died.text}; {kept}the other tests go on{step}"
    )
