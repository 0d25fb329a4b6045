"""Progress of the run and its time left: a live line on a terminal, or a plain line every minute in a log.

`start` uses it.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Generator
from contextlib import suppress

import pytest

from pytest_anubis.core.run_state import RunState
from pytest_anubis.report.text.run_progress import DEFAULT_COST, run_progress
from pytest_anubis.session.running.line_below import LineBelow
from pytest_anubis.session.running.live_run import Run
from pytest_anubis.session.running.terminal_plugin import write_apart

TERMINAL_SECONDS = 1.0
"""Seconds between two updates on a terminal, to disturb the measurements little."""

MIN_PAUSE_FACTOR = 200
"""Least pause between updates relative to an update's own duration; runs of many tests update less often."""

LOG_SECONDS = 60.0
"""Seconds between two lines in a log."""

JOIN_SECONDS = 2.0
"""Seconds that the end of a run waits for the last update, which takes milliseconds."""


class LiveProgress:
    """Plugin that shows the progress; silent with ``-q`` and if the user watches the tests' own output.

    With workers, a thread of the controller draws the line on a terminal. With tests in this process nothing
    is drawn during a test, because it would be measured too. In a log, pytest's own thread writes the line
    after a test's report, because pytest's reporter is not thread-safe.
    """

    def __init__(self, config: pytest.Config, run: Run, *, workers: bool) -> None:
        self._config = config
        self._state = run.state
        self._workers = workers
        self._left = TimeLeft(run.state)
        self._line: LineBelow | None = None
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._updated = time.monotonic()
        self._text = ""
        self._active = False

    @pytest.hookimpl(trylast=True)
    def pytest_sessionstart(self) -> None:
        """Start showing progress, unless the output is quiet or watched."""
        option = (
            self._config.option
        )  # options of a switched-off plugin are missing (`-p no:debugging`)
        debugged = getattr(option, "usepdb", False) or getattr(option, "trace", False)
        open_output = getattr(option, "capture", "no") == "no" and not self._workers
        watched = debugged or open_output
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        if reporter is None or option.collectonly or watched or self._config.get_verbosity() < 0:
            return
        self._active = True
        # Another reporter (pytest-sugar) moves the cursor itself.
        if type(reporter) is pytest.TerminalReporter and reporter.isatty and _can_draw():
            self._line = LineBelow(self._config.get_terminal_writer())
            self._updated = -TERMINAL_SECONDS  # show the first test at once, since it may be long
        if self._workers and self._line is not None:
            self._thread = threading.Thread(target=self._watch, name="anubis-progress", daemon=True)
            self._thread.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_logstart(self, nodeid: str) -> Generator[None, None, None]:
        """Without workers: show the test that begins, in a log before pytest's line, else below it."""
        due = self._due and not self._workers
        if due and self._line is None:
            self._update(nodeid)
        yield
        if due and self._line is not None:
            self._update(nodeid)

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self) -> None:
        """With workers: redraw the line, which pytest's output has cleared; in a log, write one if due."""
        if self._workers and self._line is not None and self._text:
            self._line.show(self._text)
        elif self._workers and self._line is None and self._due:
            try:
                self._update()
            except Exception:  # must not end the run
                self._active = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """Remove the line before the verdict is printed."""
        self.pytest_unconfigure()

    def pytest_unconfigure(self) -> None:
        """Restore the terminal, however the run ended."""
        self._over.set()
        if self._thread is not None:
            self._thread.join(JOIN_SECONDS)
            self._thread = None
        if self._line is not None:
            self._line.close()
            self._line = None

    @property
    def _pause(self) -> float:
        return TERMINAL_SECONDS if self._line is not None else LOG_SECONDS

    @property
    def _due(self) -> bool:
        return self._active and time.monotonic() - self._updated >= self._pause

    def _watch(self) -> None:
        pause = self._pause
        while not self._over.wait(pause):
            begin = time.monotonic()
            try:
                self._update()
            except Exception:  # a closed terminal, or -W error; it must not end the run
                self._text = ""  # so that it is not redrawn
                with suppress(Exception):
                    if (line := self._line) is not None:
                        line.clear()
                return
            pause = max(self._pause, MIN_PAUSE_FACTOR * (time.monotonic() - begin))

    def _update(self, beginning: str = "") -> None:
        """Show the progress, once tests are known."""
        if not self._state.planned:
            return
        self._updated = time.monotonic()
        left = self._left.at(self._updated, beginning)
        self._text = f"anubis: {run_progress(self._state, beginning).text(left)}"
        if (line := self._line) is not None:
            line.show(self._text)
            return
        if self._over.is_set():  # the run has ended without waiting for this update
            return
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            write_apart(self._config, reporter, self._text)


class TimeLeft:
    """Estimate of a run's remaining time, from the tests' expected durations and the speed so far.

    Args:
        state: State of the run; tests that have ended by now belong to an earlier part.
    """

    def __init__(self, state: RunState) -> None:
        self._state = state
        self._before = frozenset(state.results)
        self._begin: float | None = None
        self._began: dict[str, float] = {}  # running test -> when it was first seen

    def at(self, now: float, beginning: str = "") -> float | None:
        """Return the remaining seconds; None before anything runs.

        The weight shifts from the plan at the beginning to the actual speed at the end.
        """
        state = self._state
        running = (*state.running, *([beginning] if beginning else ()))
        if self._begin is None and not running:
            return None
        self._begin = now if self._begin is None else self._begin
        self._began = {test: self._began.get(test, now) for test in running}
        slots = (
            {}
            if state.expected is None
            else {s.test: s.end - s.start for s in state.expected.tests}
        )
        costs = {
            test: slots.get(test, plan.cost or DEFAULT_COST)
            for test, plan in list(state.planned.items())
            if test not in self._before
        }
        whole = sum(costs.values())
        if not whole:
            return None
        done = sum(cost for test, cost in costs.items() if test in state.results)
        done += sum(min(now - since, costs.get(test, 0.0)) for test, since in self._began.items())
        rest = max(0.0, 1 - done / whole)
        wall = whole if state.expected is None else state.expected.wall
        return rest * (rest * wall + now - self._begin)


def _can_draw() -> bool:
    """Return whether a line can be redrawn: not on a dumb terminal, nor in the log of a CI system."""
    dumb = os.environ.get("TERM", "dumb") in ("", "dumb")
    return not dumb and not (os.environ.get("CI") or os.environ.get("BUILD_NUMBER"))
