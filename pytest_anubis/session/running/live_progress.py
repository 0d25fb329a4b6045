"""What the run is doing just now: one live line on a terminal, now and then a plain line in a log."""

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

LOOK = 1.0
"""Seconds between two looks on a terminal: people read no faster, and looking takes from what is measured."""

SHARE = 200
"""A look may take one part in so many of the time between two: a run of many tests looks less often."""

EVERY = 60.0
"""Seconds between two lines in a log, where pytest's own dots show life: some lines for a run of minutes."""

LAST = 2.0
"""Seconds that the end of a run waits for the last look, which takes milliseconds: it is worth no more."""


class LiveProgress:
    """Tells how far the run is; silent with ``-q`` and where somebody watches the tests themselves.

    On a terminal a thread of the controller draws it in a run with workers. Where tests run in this process
    nothing is drawn while one runs: it would be measured too. In a log pytest's own thread writes it when it
    hears of a test, as pytest's reporter bears no other.

    Args:
        workers: The tests run in processes of their own.
    """

    def __init__(self, config: pytest.Config, run: Run, *, workers: bool) -> None:
        self._config = config
        self._state = run.state
        self._workers = workers
        self._left = TimeLeft(run.state)
        self._line: LineBelow | None = None
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._told = time.monotonic()
        self._text = ""
        self._tells = False

    @pytest.hookimpl(trylast=True)
    def pytest_sessionstart(self) -> None:
        """Begin to tell, if anybody wants to know."""
        option = self._config.option  # some are not there: `-p no:debugging`
        debugged = getattr(option, "usepdb", False) or getattr(option, "trace", False)
        open_output = getattr(option, "capture", "no") == "no" and not self._workers
        watched = debugged or open_output
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        if reporter is None or option.collectonly or watched or self._config.get_verbosity() < 0:
            return
        self._tells = True
        # Another reporter (pytest-sugar) moves the cursor itself.
        if type(reporter) is pytest.TerminalReporter and reporter.isatty and _draws():
            self._line = LineBelow(self._config.get_terminal_writer())
            self._told = -LOOK  # the first test in this process may be a long one
        if self._workers and self._line is not None:
            self._thread = threading.Thread(target=self._watch, name="anubis-progress", daemon=True)
            self._thread.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_logstart(self, nodeid: str) -> Generator[None, None, None]:
        """In one process: say what begins, in a log before pytest names its file, else below that."""
        due = self._due and not self._workers
        if due and self._line is None:
            self._look(nodeid)
        yield
        if due and self._line is not None:
            self._look(nodeid)

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self) -> None:
        """With workers: draw the line again that had to make room for pytest's own; in a log, write one."""
        if self._workers and self._line is not None and self._text:
            self._line.show(self._text)
        elif self._workers and self._line is None and self._due:
            try:
                self._look()
            except Exception:  # no run is worth less for it
                self._tells = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """Make room for the verdict."""
        self.pytest_unconfigure()

    def pytest_unconfigure(self) -> None:
        """Leave the terminal as pytest would, however the run ended."""
        self._over.set()
        if self._thread is not None:
            self._thread.join(LAST)
            self._thread = None
        if self._line is not None:
            self._line.close()
            self._line = None

    @property
    def _pause(self) -> float:
        return LOOK if self._line is not None else EVERY

    @property
    def _due(self) -> bool:
        return self._tells and time.monotonic() - self._told >= self._pause

    def _watch(self) -> None:
        pause = self._pause
        while not self._over.wait(pause):
            begin = time.monotonic()
            try:
                self._look()
            except Exception:  # nobody reads it any more; no run is worth less for it (-W error)
                self._text = ""  # it would be drawn again for the rest of the run
                with suppress(Exception):
                    if (line := self._line) is not None:
                        line.clear()
                return
            pause = max(self._pause, SHARE * (time.monotonic() - begin))

    def _look(self, beginning: str = "") -> None:
        """Tell how far the run is, once tests are known.

        Args:
            beginning: Test that begins now, where no event says so yet.
        """
        if not self._state.planned:
            return
        self._told = time.monotonic()
        left = self._left.at(self._told, beginning)
        self._text = f"anubis: {run_progress(self._state, beginning).text(left)}"
        if (line := self._line) is not None:
            line.show(self._text)
            return
        if self._over.is_set():  # the run did not wait for this look
            return
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            write_apart(self._config, reporter, self._text)


class TimeLeft:
    """How long the rest of a run takes, from what tests were expected to take and from how it went so far.

    Args:
        state: What is known of the run; what has ended by now was done in an earlier part.
    """

    def __init__(self, state: RunState) -> None:
        self._state = state
        self._before = frozenset(state.results)
        self._begin: float | None = None
        self._began: dict[str, float] = {}  # running test -> when it was seen first

    def at(self, now: float, beginning: str = "") -> float | None:
        """Return the seconds that are left; None before anything runs.

        The plan counts in the beginning, and in the end how long it has really taken so far.

        Args:
            now: Seconds of any clock that never goes back.
            beginning: Test that begins now, where no event says so yet.
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


def _draws() -> bool:
    """Say whether a line can be drawn over: not by a dumb terminal, and not in the log of a CI system."""
    dumb = os.environ.get("TERM", "dumb") in ("", "dumb")
    return not dumb and not (os.environ.get("CI") or os.environ.get("BUILD_NUMBER"))
