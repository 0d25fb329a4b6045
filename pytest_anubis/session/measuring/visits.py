"""Visits: measures a test again at the end of the run if one moment is not enough.

A disturbance of a shared host lasts from a second to some minutes, so the end of the run is another moment. A
test is visited again if it met too few clear moments, or if it would fail: slow hardware is slow then, too.
Such tests are visited in turns while time allows. Each is judged once, in its last visit, by the values of
all its visits, and pytest gets one report. `start` and `start_worker` use it.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import Any

import pytest
from _pytest.runner import call_and_report  # the phases of one test; pytest has no public way

from pytest_anubis.core.events import TestPutOff
from pytest_anubis.session.context import RunContext, emit, time_left
from pytest_anubis.session.measuring.attempts import GAP, Visit
from pytest_anubis.session.measuring.recorder import (
    Recorder,
    earlier_key,
    recorder_key,
    visit_key,
)

MAX_SHARE = 2.0
"""Time for further visits, relative to that of all first ones; then waiting tests have their last visit.

A process that takes a core for half of the time leaves few clear moments: with as much time as the first
visits took, half of the runs were UNDECIDED (`benchmarks/sessions/first_run.py`). The run's budget limits it
as well. If nothing is judged it is a half of the first visits' time, because learning has other rounds.
"""

MIN_SECONDS = 20.0
"""Time for further visits even if `MAX_SHARE` gives less, in seconds; if nothing is judged, half of it."""

MAX_VISITS = 8
"""Visits of one test."""

MAX_FRUITLESS = 8
"""Successive visits, of any tests, without a new clear value, after which the next turn is the last."""

CLEAR_DIVISOR = 4
"""Divisor of `GAP` for a test that met too few clear moments and shows no loss to be confirmed."""

BUSY_FROM_TESTS = 4
"""If so many tests wait, none with a clear value, and no more have one, other processes occupy the host;
the next tests are then measured for a moment only."""

_NO_VISITS = ("setuponly", "setupplan", "setupshow", "reruns")
"""Options that make pytest or a plugin run tests in a different way."""


class Visits:
    """Plugin that runs benchmarks, and repeats those for which one moment is not enough."""

    def __init__(self, config: pytest.Config, context: RunContext) -> None:
        self._possible = context.settings.active and not any(
            config.getoption(name, None) for name in _NO_VISITS
        )
        self._judging = context.judging
        self._waiting: list[pytest.Item] = []
        self._visits: dict[str, int] = {}
        self._ended: dict[str, float] = {}  # test -> end of its last visit
        self._clear: set[str] = set()  # tests with clear values
        self._last = False

    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> bool | None:
        """Run one test; withhold its reports if it is to be visited again."""
        if not self._possible or "anubis_metric" not in getattr(item, "fixturenames", ()):
            return None
        hook = item.ihook
        for one in _others(hook.pytest_runtest_protocol, self):
            arguments = {"item": item, "nextitem": nextitem}
            if one.function(**{name: arguments[name] for name in one.argnames}) is not None:
                return True  # a plugin that repeats tests has run it
        hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        self._run(item, nextitem)
        hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, Any, Any]:
        """Visit the waiting tests in turns once all tests have run."""
        begin = time.monotonic()
        result = yield
        first = time.monotonic() - begin
        longest = MAX_SHARE * first if self._judging else first / 2
        longest = max(longest, MIN_SECONDS if self._judging else MIN_SECONDS / 2)
        longest = min(longest, time_left(session.config))
        until = time.monotonic() + longest
        busy = self._busy()
        clear, fruitless = sum(map(_clear_values, self._waiting)), 0
        while self._waiting and not _stops(session):
            turn, self._waiting = self._waiting, []
            self._last = busy or fruitless >= MAX_FRUITLESS or time.monotonic() >= until
            for item, after in zip(turn, [*turn[1:], None], strict=True):
                if _stops(session):
                    break
                if self._judging and (not self._last or _slow(item)):
                    gap = GAP if _slow(item) else GAP / CLEAR_DIVISOR
                    time.sleep(max(0.0, self._ended[item.nodeid] + gap - time.monotonic()))
                self._last |= time.monotonic() >= until
                follows = after or next(iter(self._waiting), None)
                session.config.hook.pytest_runtest_protocol(item=item, nextitem=follows)
            fruitless = 0 if sum(map(_clear_values, turn)) > clear else fruitless + len(turn)
            clear = sum(map(_clear_values, self._waiting))
        return result

    def _run(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        """Run setup, call and teardown; report the call of the last visit only."""
        if hasattr(item, "_request") and not item._request:
            item._initrequest()  # type: ignore[attr-defined]  # as pytest does before each run
        visits = self._visits[item.nodeid] = self._visits.get(item.nodeid, 0) + 1
        last = self._last or visits >= MAX_VISITS or time_left(item.config) < GAP
        hopeless = len(self._waiting) >= BUSY_FROM_TESTS and self._busy()
        item.stash[visit_key] = Visit(last=last, hurry=self._last or hopeless)
        try:
            report = call_and_report(item, "setup", log=True)
            again = False
            if report.passed:
                report = call_and_report(item, "call", log=False)
                if _clear_values(item):
                    self._clear.add(item.nodeid)
                again = self._put_off(item, report)
                if not again:
                    item.ihook.pytest_runtest_logreport(report=report)
            ending = item.session.shouldfail or item.session.shouldstop
            after = None if ending else nextitem
            end = call_and_report(item, "teardown", log=False, nextitem=after)
            if again and not end.passed:  # another visit would hide the failed teardown
                again = False
                item.ihook.pytest_runtest_logreport(report=report)
            if not again:
                item.ihook.pytest_runtest_logreport(report=end)
                return
            item._report_sections.clear()
            self._waiting.append(item)
            self._ended[item.nodeid] = time.monotonic()
            emit(item.config, TestPutOff(test=item.nodeid))
        finally:
            if hasattr(item, "_request"):
                item._request, item.funcargs = False, None  # type: ignore[attr-defined]

    def _busy(self) -> bool:
        """Return whether other processes have occupied this host all the time so far."""
        waiting = self._waiting
        return len(waiting) >= len(self._clear) and not any(map(_clear_values, waiting))

    def _put_off(self, item: pytest.Item, report: pytest.TestReport) -> bool:
        """Return whether a test is to be visited again, and keep its clear values if so."""
        recorder: Recorder | None = item.stash.get(recorder_key, None)
        if recorder is None or not recorder.handed_on:
            return False
        # A strict xfail that has passed may still fail in a later visit, as expected.
        if not report.passed and not str(report.longrepr).startswith("[XPASS(strict)]"):
            return False
        item.stash[earlier_key] = recorder.found
        return True


def _others(caller: Any, own: object) -> list[Any]:
    """Return the implementations of other plugins that pytest would call after `own`, without pytest's."""
    every = caller.get_hookimpls()
    mine = next(place for place, one in enumerate(every) if one.plugin is own)
    asked = [one for one in every[:mine] if not (one.wrapper or one.hookwrapper)]
    return [one for one in reversed(asked) if one.plugin_name != "runner"]


def _stops(session: pytest.Session) -> bool:
    """Return whether pytest stops early, as after a failure with ``-x``."""
    return bool(session.shouldstop or session.shouldfail)


def _slow(item: pytest.Item) -> bool:
    """Return whether a test would have failed in one of its visits."""
    return any(one.slow for one in item.stash[earlier_key].values())


def _clear_values(item: pytest.Item) -> int:
    """Return how many clear values a test has so far."""
    recorder: Recorder | None = item.stash.get(recorder_key, None)
    return sum(len(one.values) for one in recorder.found.values()) if recorder else 0
