"""Visits: a test that met too few clear moments is measured again at the end of the run.

What slows a shared host down lasts from a second to some minutes, so the end of the run is another moment.
All tests that lack clear values are visited in turns while time allows. The clear values of all visits are
one sample. pytest hears of such a test once: of its last visit.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import Any

import pytest
from _pytest.runner import call_and_report  # the phases of one test; pytest has no public way

from pytest_anubis.core.events import TestPutOff
from pytest_anubis.session.context import RunContext, emit
from pytest_anubis.session.measuring.recorder import Recorder, earlier_key, recorder_key

SHARE, LEAST = 0.5, 20.0
"""Visits again take at most this part of the time that the run took before, or so many seconds."""

MOST_VISITS, MOST_FRUITLESS = 8, 2
"""Visits of one test, at most, and successive turns of all tests that found no clear value."""

_NO_VISITS = ("setuponly", "setupplan", "setupshow", "reruns")
"""Options under which tests run in another way than this one."""


class Visits:
    """Runs tests, and those that lack clear values again.

    Args:
        config: pytest's configuration.
        context: The facts of the run.
    """

    def __init__(self, config: pytest.Config, context: RunContext) -> None:
        self._possible = context.settings.active and not any(
            config.getoption(name, None) for name in _NO_VISITS
        )
        self._waiting: dict[pytest.Item, list[pytest.TestReport]] = {}
        self._visits: dict[str, int] = {}
        self._until = float("inf")

    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> bool | None:
        """Run one test; keep its reports back if it is to be visited again."""
        if not self._possible or "anubis_metric" not in getattr(item, "fixturenames", ()):
            return None
        hook = item.ihook
        hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        self._run(item, nextitem)
        hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, Any, Any]:
        """Visit what waits for it, in turns, once all tests have run."""
        begin = time.monotonic()
        result = yield
        if session.shouldstop or session.shouldfail:
            self._give_up()
            return result
        now = time.monotonic()
        self._until = now + max(LEAST, SHARE * (now - begin))
        fruitless = 0
        while self._waiting and fruitless < MOST_FRUITLESS and time.monotonic() < self._until:
            round_ = list(self._waiting)
            found = sum(map(_clear_values, round_))
            for item, after in zip(round_, [*round_[1:], None], strict=True):
                del self._waiting[item]
                last = after is None and not self._waiting
                session.config.hook.pytest_runtest_protocol(
                    item=item, nextitem=None if last else after or next(iter(self._waiting))
                )
            gained = sum(map(_clear_values, round_)) > found
            fruitless = 0 if gained else fruitless + 1
        self._give_up()
        return result

    def _run(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        """Run setup, call and teardown; report each as it ends, or none of them yet."""
        if hasattr(item, "_request") and not item._request:
            item._initrequest()  # type: ignore[attr-defined]  # as pytest does before each run
        try:
            reports = [call_and_report(item, "setup", log=False)]
            if reports[0].passed:
                reports.append(call_and_report(item, "call", log=False))
            again = self._wanted(item, reports[-1])
            if not again:
                _log(item, reports)
            ending = item.session.shouldfail or item.session.shouldstop
            after = None if ending else nextitem
            reports.append(call_and_report(item, "teardown", log=not again, nextitem=after))
            if again:
                self._waiting[item] = reports
                emit(item.config, TestPutOff(test=item.nodeid))
        finally:
            if hasattr(item, "_request"):
                item._request, item.funcargs = False, None  # type: ignore[attr-defined]

    def _wanted(self, item: pytest.Item, report: pytest.TestReport) -> bool:
        """Return whether a test is to be visited again, and hand its clear values on if so."""
        recorder: Recorder | None = item.stash.get(recorder_key, None)
        if report.failed or report.when != "call" or recorder is None or not recorder.lacking:
            return False
        visits = self._visits[item.nodeid] = self._visits.get(item.nodeid, 0) + 1
        if visits >= MOST_VISITS or time.monotonic() >= self._until:
            return False
        item.stash[earlier_key] = recorder.clear_values
        return True

    def _give_up(self) -> None:
        """Report the tests that nobody visits any more as their last visit left them."""
        for item, reports in self._waiting.items():
            _log(item, reports)
        self._waiting.clear()


def _clear_values(item: pytest.Item) -> int:
    """Return how many clear values a test has so far."""
    recorder: Recorder | None = item.stash.get(recorder_key, None)
    return sum(len(values) for values, _ in recorder.clear_values.values()) if recorder else 0


def _log(item: pytest.Item, reports: list[pytest.TestReport]) -> None:
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
