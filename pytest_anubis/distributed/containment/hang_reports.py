"""Reports of tests that hung but whose process survived; judged like those that the watchdog killed.

`controller` and `start` use it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pytest_anubis.core.events import Judged
from pytest_anubis.core.run_state import RunState
from pytest_anubis.distributed.containment.crash_evidence import HardwareEvidence
from pytest_anubis.distributed.containment.crash_report import Crash, crash_text, crash_verdict
from pytest_anubis.distributed.containment.watchdog import Deadline, Overdue
from pytest_anubis.distributed.dispatch.tasks import Task
from pytest_anubis.session.context import Sink

HANG = "hang"
"""Key in ``report.anubis``: the test hung."""


class HangReports:
    """Plugin that turns the reports of tests beyond their deadlines (`overran`) into reports of hangs.

    Such a test was broken off by pytest-timeout, or ended by itself after its deadline, perhaps because the
    watchdog's signal for a stack dump had interrupted a system call.

    Attributes:
        count: Number of such tests.
    """

    def __init__(
        self,
        node: str,
        state: RunState,
        sink: Sink,
        evidence: HardwareEvidence,
        overran: Callable[[str], Overdue | None] = lambda _: None,
    ) -> None:
        self.count = 0
        self._node = node
        self._state = state
        self._sink = sink
        self._evidence = evidence
        self._overran = overran

    # First, because all readers of the report must see the hang.
    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Change the report if its test hung."""
        data: dict[str, Any] = getattr(report, "anubis", {})
        overdue = None
        if isinstance(data.get(HANG), float):
            overdue = Overdue(
                deadline=Deadline(data[HANG], "pytest-timeout"),
                survived="pytest-timeout broke it off",
            )
        elif report.when == "teardown":
            overdue = self._overran(report.nodeid)
        if overdue is not None:
            self._report_hang(report, data, overdue)

    def _report_hang(
        self, report: pytest.TestReport, data: dict[str, Any], overdue: Overdue
    ) -> None:
        self.count += 1
        test = report.nodeid
        crash = Crash(worker=getattr(report, "worker_id", ""), test=test, overdue=overdue)
        plan = self._state.planned.get(test)
        benchmark = data.get("benchmark") or (plan.benchmark if plan is not None else "") or test
        task = Task(test=test, benchmark=benchmark, device=data.get("device", ""))
        evidence = self._evidence.against(task.device)
        if report.longrepr is not None:
            report.sections.append(("where it hung", str(report.longrepr)))
        report.outcome = "failed"
        report.longrepr = crash_text(
            crash,
            self._state.measured(test),
            evidence,
            self._evidence.blind,
            attempts=self._state.attempts(test),
        )
        report.anubis = {**data, HANG: crash.cause}  # type: ignore[attr-defined]  # read by the session's plugins
        component = data.get("component", "")
        verdict = crash_verdict(crash, task, component, evidence, node=self._node)
        if verdict is not None:
            self._sink(Judged(verdict=verdict))
