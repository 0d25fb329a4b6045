"""Make one result of the many reports of a test: the worst outcome of its last attempt.

If a plugin repeats a test, earlier attempts do not count, except for a crash. `live_run` uses it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pytest_anubis.core.events import (
    BlockerFound,
    PhaseFailed,
    TestFinished,
    TestRepeated,
    TestsPlanned,
)
from pytest_anubis.core.measurement import TOOL_PROPERTY, PlannedTest, TestResult
from pytest_anubis.core.run_state import RunState
from pytest_anubis.session.context import Sink
from pytest_anubis.session.running.report_outcomes import (
    FAILED,
    REPEATED,
    collecting_error,
    counts,
    excuse,
    first_line,
    is_subtest,
    outcome_of,
)

MAX_PROPERTIES, MAX_PROPERTY = 100, 400
"""Properties of a test that are recorded, and their characters; pytest's JUnit file has all."""


class EndsOfTests:
    """The results of tests, made from pytest's reports."""

    def __init__(self, state: RunState, sink: Sink) -> None:
        self._state = state
        self._sink = sink
        self._ending: dict[str, TestResult] = {}  # results of tests that are not torn down yet
        self._around: dict[str, float] = {}  # seconds of setup and teardown of the last attempt
        self._left_out: dict[str, str] = {}  # test -> why one of its subtests was skipped or waived
        self._uncollected: set[str] = set()
        self._skipped: dict[str, str] = {}  # file that was skipped as a whole -> why
        self._unclean: set[str] = set()  # failed cleanups of what tests share
        self._repeating: set[str] = set()  # tests that were repeated and have no new setup yet

    @property
    def failed(self) -> bool:
        """True if something is known to have failed."""
        results = (*self._state.results.values(), *self._ending.values())
        return bool(self._uncollected or self._unclean) or any(r.outcome in FAILED for r in results)

    def finish_all(self) -> None:
        """Finish without further reports: failures of tests in their teardown count.

        A file that was skipped as a whole counts as one skipped test, since its tests are unknown.
        """
        for test, why in self._skipped.items():
            self._sink(TestsPlanned(tests=(PlannedTest(test=test),)))
            self._finish(TestResult(test=test, benchmark="", outcome="skipped", text=why))
        for result in list(self._ending.values()):
            if result.outcome in FAILED and result.test in self._state.planned:
                self._finish(result)

    def report(self, report: pytest.TestReport) -> None:
        """Use one report; a report of a crash has an unknown ``when``."""
        data: dict[str, Any] = getattr(report, "anubis", {})
        if str(report.outcome) in REPEATED:
            self._ending.pop(report.nodeid, None)
            self._repeating.add(report.nodeid)
            text, phase = first_line(report), str(report.when)
            self._sink(TestRepeated(test=report.nodeid, phase=phase, text=text))
            return
        if report.when not in ("setup", "call", "teardown"):
            self._finish(self._result(report, data, "crashed"))
            return
        if report.when == "setup":
            self._repeating.discard(report.nodeid)
        elif report.when == "call" and report.nodeid in self._repeating:
            data = _without_first_attempt(report, data)
        if report.when != "call":  # a setup begins an attempt
            before = self._around.get(report.nodeid, 0.0) if report.when == "teardown" else 0.0
            self._around[report.nodeid] = before + report.duration
        if data.get("raised") and not report.failed and not hasattr(report, "wasxfail"):
            what = f"{report.nodeid} failed ({data['raised']}), but a plugin reports it as {report.outcome}"
            self._sink(BlockerFound(text=what))
        # Like a crash, a hang says nothing about the node, whatever error ended it.
        outcome = "crashed" if data.get("hang") else outcome_of(report)
        if unclean := data.get("unclean", ""):
            outcome = None  # the test that happened to be the last is not to blame
            if unclean not in self._unclean:  # every worker may report it
                self._unclean.add(unclean)
                self._sink(BlockerFound(text=unclean))
        if report.skipped and (is_subtest(report) or report.when == "teardown"):
            self._left_out.setdefault(report.nodeid, first_line(report) or "skipped")
        # An earlier crash still counts if the test passes when it is repeated.
        known = self._ending.get(report.nodeid, self._state.results.get(report.nodeid))
        if (
            data and "raised" not in data and known is not None
        ):  # such as "contains 1 failed subtest"
            data = {**data, "environment": known.environment}
        if outcome is not None and counts(outcome, data.get("environment", ""), known):
            known = self._ending[report.nodeid] = self._result(report, data, outcome, known)
            if outcome in FAILED and report.when != "teardown":  # now, since the teardown may hang
                self._sink(PhaseFailed(test=report.nodeid, text=known.text))
        if report.when == "teardown" and known is not None:
            self._finish(replace(known, left_out=self._left_out.get(report.nodeid, "")))

    def collected(self, report: pytest.CollectReport) -> None:
        """Use the report of a file or class that cannot be collected, or is skipped as a whole."""
        if report.skipped:
            self._skipped[report.nodeid] = first_line(report) or "skipped"
        if report.failed and report.nodeid not in self._uncollected:  # workers collect the same
            self._uncollected.add(report.nodeid)
            file, why = report.nodeid.partition("::")[0], collecting_error(report)
            self._sink(BlockerFound(text=why, file=file, test=report.nodeid))

    def _result(
        self,
        report: pytest.TestReport,
        data: dict[str, Any],
        outcome: str,
        known: TestResult | None = None,
    ) -> TestResult:
        # The plan has the facts that the report of a subtest lacks.
        plan = self._state.planned.get(report.nodeid, PlannedTest(test=report.nodeid))
        return TestResult(
            test=report.nodeid,
            benchmark=data.get("benchmark", plan.benchmark),
            component=data.get("component", plan.component),
            outcome=outcome,
            text=data.get("text") or first_line(report),
            seconds=round(report.duration, 6),
            metrics=len(self._state.measured(report.nodeid)) if report.when == "call" else 0,
            busy=data.get("busy", 0.0),
            misuse=data.get("usage_error", known.misuse if known is not None else ""),
            environment=excuse(data.get("environment", ""), known),
            left_out=self._left_out.get(report.nodeid, ""),
            action=data.get("action", ""),
            tools=tuple(
                str(what) for name, what in report.user_properties if name == TOOL_PROPERTY
            ),
            properties=tuple(
                " ".join(f"{name}: {value}"[: 2 * MAX_PROPERTY].split())[:MAX_PROPERTY]
                for name, value in report.user_properties[:MAX_PROPERTIES]
                if name != TOOL_PROPERTY and not str(name).startswith("anubis.")  # `junit_export`'s
            ),
        )

    def _finish(self, result: TestResult) -> None:
        self._ending.pop(result.test, None)
        self._left_out.pop(result.test, None)
        around = round(self._around.pop(result.test, 0.0), 6)
        self._sink(TestFinished(result=replace(result, around=around)))


def _without_first_attempt(report: pytest.TestReport, data: dict[str, Any]) -> dict[str, Any]:
    """Return a report's data without those of the first attempt.

    pytest-retry repeats setup and call within the first attempt's report. That report then has the outcome of
    the last attempt, but still the error of the first one. Other plugins report a new setup before.
    """
    stale = ("text",) if report.failed else ("text", "raised", "environment", "in_verdicts")
    return {name: value for name, value in data.items() if name not in stale}
