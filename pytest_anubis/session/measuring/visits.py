"""Visits: a test is measured again at the end of the run where one moment is not enough.

What slows a shared host down lasts from a second to some minutes, so the end of the run is another moment. A
test that met too few clear moments is visited again, and so is one that would fail: whoever is slow is slow
then, too. Such tests are visited in turns while time allows; each is judged once, in its last visit, by the
values of all of them. pytest hears of it once.
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

SHARE, LEAST = 1.0, 20.0
"""For this part of the time that the run took before, or for so many seconds, tests are visited again; then
each that waits has its last visit. For half as long where nothing is judged: learning has other rounds. Never
for longer than the run's budget lasts."""

MOST_VISITS = 8
"""Visits of one test, at most."""

MOST_FRUITLESS = 2
"""After so many successive turns without any clear value the next one is the last."""

TELLING = 4
"""Where so many tests wait without a clear value, and no fewer than have any, others have this host: the next
tests are measured for a moment only."""

_NO_VISITS = ("setuponly", "setupplan", "setupshow", "reruns")
"""Options under which tests run in another way than this one."""


class Visits:
    """Runs tests, and those for which one moment is not enough again.

    Args:
        config: pytest's configuration.
        context: The facts of the run.
    """

    def __init__(self, config: pytest.Config, context: RunContext) -> None:
        self._possible = context.settings.active and not any(
            config.getoption(name, None) for name in _NO_VISITS
        )
        self._judging = context.judging
        self._waiting: list[pytest.Item] = []
        self._visits: dict[str, int] = {}
        self._ended: dict[str, float] = {}  # when the last visit of a test ended
        self._clear: set[str] = set()  # tests with clear values
        self._last = False

    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> bool | None:
        """Run one test; keep its reports back if it is to be visited again."""
        if not self._possible or "anubis_metric" not in getattr(item, "fixturenames", ()):
            return None
        hook = item.ihook
        for one in _others(hook.pytest_runtest_protocol, self):
            arguments = {"item": item, "nextitem": nextitem}
            if one.function(**{name: arguments[name] for name in one.argnames}) is not None:
                return True  # as plugins do that repeat tests
        hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        self._run(item, nextitem)
        hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, Any, Any]:
        """Visit what waits for it, in turns, once all tests have run."""
        begin = time.monotonic()
        result = yield
        most = max(LEAST, SHARE * (time.monotonic() - begin))
        most = min(most if self._judging else most / 2, time_left(session.config))
        until = time.monotonic() + most
        clear = sum(map(_clear_values, self._waiting))
        busy, fruitless = self._busy(), 0
        while self._waiting and not _stops(session):
            turn, self._waiting = self._waiting, []
            self._last = busy or fruitless >= MOST_FRUITLESS or time.monotonic() >= until
            for item, after in zip(turn, [*turn[1:], None], strict=True):
                if _stops(session):
                    break
                if self._judging and (not self._last or _slow(item)):
                    # A loss has to be seen at two moments.
                    time.sleep(max(0.0, self._ended[item.nodeid] + GAP - time.monotonic()))
                self._last |= time.monotonic() >= until
                follows = after or next(iter(self._waiting), None)
                session.config.hook.pytest_runtest_protocol(item=item, nextitem=follows)
            fruitless = 0 if sum(map(_clear_values, turn)) > clear else fruitless + 1
            clear = sum(map(_clear_values, self._waiting))
        return result

    def _run(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        """Run setup, call and teardown; report the call of the last visit only."""
        if hasattr(item, "_request") and not item._request:
            item._initrequest()  # type: ignore[attr-defined]  # as pytest does before each run
        visits = self._visits[item.nodeid] = self._visits.get(item.nodeid, 0) + 1
        # Within a budget there is no further visit of what would have to wait for it until the end.
        last = self._last or visits >= MOST_VISITS or time_left(item.config) < GAP
        hopeless = len(self._waiting) >= TELLING and self._busy()
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
            if again and not end.passed:  # an error of its own, which another visit would hide
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
        """Return whether others have had this host all the time so far."""
        waiting = self._waiting
        return len(waiting) >= len(self._clear) and not any(map(_clear_values, waiting))

    def _put_off(self, item: pytest.Item, report: pytest.TestReport) -> bool:
        """Return whether a test is to be visited again, and hand its clear values on if so."""
        recorder: Recorder | None = item.stash.get(recorder_key, None)
        if recorder is None or not recorder.handed_on:
            return False
        # A strict xfail that has passed is no failure yet.
        if not report.passed and not str(report.longrepr).startswith("[XPASS(strict)]"):
            return False
        item.stash[earlier_key] = recorder.found
        return True


def _others(caller: Any, own: object) -> list[Any]:
    """Return how other plugins run a test, in the order in which they are asked; pytest's own way is last.

    pytest asks them after this plugin, since it was registered later.
    """
    every = caller.get_hookimpls()
    mine = next(place for place, one in enumerate(every) if one.plugin is own)
    asked = [one for one in every[:mine] if not (one.wrapper or one.hookwrapper)]
    return [one for one in reversed(asked) if one.plugin_name != "runner"]


def _stops(session: pytest.Session) -> bool:
    """Return whether pytest is to stop, as after a failure with ``-x``."""
    return bool(session.shouldstop or session.shouldfail)


def _slow(item: pytest.Item) -> bool:
    """Return whether a visit of a test would have failed."""
    return any(one.slow for one in item.stash[earlier_key].values())


def _clear_values(item: pytest.Item) -> int:
    """Return how many clear values a test has so far."""
    recorder: Recorder | None = item.stash.get(recorder_key, None)
    return sum(len(one.values) for one in recorder.found.values()) if recorder else 0
