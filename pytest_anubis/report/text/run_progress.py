"""The progress of a run in one line: what runs where, what is done, what failed; and which worker died."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from pytest_anubis.core.events import WorkerDied
from pytest_anubis.core.measurement import PlannedTest
from pytest_anubis.core.run_state import RunState
from pytest_anubis.report.text.numbers import count_text, duration_text

MAX_NAMES = 3
"""Names of a kind in the line, so that it fits a terminal."""

DEFAULT_COST = 1.0
"""Seconds assumed for a test of unknown cost, as in the plan."""

_FAILURES = ("failed", "error", "crashed")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunProgress:
    """The progress of a run at one moment."""

    doing: str = ""  # the tests that run, and their devices; empty before the first test
    done: int = 0  # how many tests have ended
    planned: int = 0  # how many tests there are; 0 while that is unknown
    failed: tuple[str, ...] = ()  # names of the tests that failed
    waiting: str = ""  # tests that wait for an idle lane, and why; empty if none does
    cost: float = 0.0  # seconds that the whole run was expected to take; 0 while that is unknown
    share: float = 0.0  # share of the cost that has ended, 0 to 1
    cards: bool = False  # whether any test is of an accelerator

    def text(self, left: float | None = None) -> str:
        """Return the progress in one line; `left` are the seconds that the rest takes, None if unknown."""
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
    """Return about how long something still takes; nothing if unknown, or within the last second."""
    if seconds is None or seconds < 1:
        return []
    return [f"about {duration_text(round(seconds)).replace('.0 s', ' s')} left"]


def run_progress(state: RunState, beginning: str = "") -> RunProgress:
    """Return the progress of a run; events may arrive meanwhile.

    `beginning` is the test that begins now but has no event yet; may be empty.
    """
    # Copies made at once, since another thread may add to the originals.
    running = tuple(dict.fromkeys((*state.running, *([beginning] if beginning else ()))))
    results = list(state.results.values())
    planned = list(state.planned.values())
    costs = {plan.test: plan.cost or DEFAULT_COST for plan in planned}
    whole = sum(costs.values())
    return RunProgress(
        doing=" and ".join(_doing(state, running)),
        done=len(results),
        planned=len(planned),
        failed=tuple(_short(one.test) for one in results if one.outcome in _FAILURES),
        waiting=_waiting_lanes(state, running),
        cost=whole if state.expected is None else state.expected.wall,
        cards=any(":" in plan.device for plan in planned),
        share=sum(costs.get(one.test, 0.0) for one in results) / whole if whole else 0.0,
    )


def _doing(state: RunState, running: Collection[str]) -> list[str]:
    """Return each running benchmark once, with its devices."""
    places: dict[str, list[str]] = {}
    for test in running:
        plan = state.planned.get(test, PlannedTest(test=test))
        name = _short(plan.benchmark or plan.test)
        places.setdefault(name, []).extend([plan.device] if plan.device else [])
    return _first([f"{name} on {_some(on)}" if on else name for name, on in places.items()])


def _waiting_lanes(state: RunState, running: Collection[str]) -> str:
    """Return how many tests wait in idle lanes while other lanes are busy."""
    if state.expected is None or not running:
        return ""
    slots = state.expected.tests
    busy = {slot.lane for slot in slots if slot.test in running}
    waiting = [s for s in slots if s.lane not in busy and s.test not in state.results]
    if not waiting or not busy:
        return ""
    lanes = list(dict.fromkeys(slot.lane for slot in waiting))
    each = "waits" if len(waiting) == 1 else "wait"
    names = f"lane{'' if len(lanes) == 1 else 's'} {_some(lanes)}"
    return f"{count_text(len(waiting), 'test')} of {names} {each} until the others are done"


def _some(names: Sequence[str]) -> str:
    return ", ".join(_first(names))


def _first(names: Sequence[str]) -> list[str]:
    more = [f"{len(names) - MAX_NAMES} more"] if len(names) > MAX_NAMES else []
    return [*names[:MAX_NAMES], *more]


def _short(test: str) -> str:
    return test.rpartition("::")[2]


def death_line(died: WorkerDied) -> str:
    """Return which worker died, why and in which test, and that the other tests go on.

    xdist prints only "node down: Not properly terminated".
    """
    where = f" while it ran {died.test}" if died.test else ", while it ran no test"
    kept = "what it had measured is kept, and " if died.test else ""
    step = "; its report says what to do next" if died.test else ""
    return (
        f"anubis: worker {died.worker} ended{where}: {died.text}; {kept}the other tests go on{step}"
    )
