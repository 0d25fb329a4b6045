"""One run on the controller (or the only process): journal, completeness, verdict, exit status."""

from __future__ import annotations

import datetime
import threading
import traceback
from typing import Any

import pytest

from pytest_anubis.codec import to_plain
from pytest_anubis.core.measurement import Measurement, TestResult
from pytest_anubis.core.run import PlannedTest
from pytest_anubis.core.verdict import MetricVerdict, NodeVerdict
from pytest_anubis.session.context import RunContext
from pytest_anubis.session.running.resume import Earlier
from pytest_anubis.session.selecting.run_choice import Selection
from pytest_anubis.settings import without_password
from pytest_anubis.store.journal import journal_events as events
from pytest_anubis.store.journal.journal_events import Event, JournalError
from pytest_anubis.store.journal.journal_file import Journal
from pytest_anubis.store.journal.run_remarks import deaths, hindrances, repeated

EXIT_UNDECIDED = 20


class Run:
    """Follows the run, writes its journal, and decides at the end.

    Attributes:
        context: The facts of the run.
        planned: Every planned test, by node id.
        results: How each test ended so far, by node id.
        measurements: What was recorded so far.
        verdicts: Node id -> metric verdicts of that test, of its last attempt.
        node_verdict: The decision; None until the end, and in ``measure`` mode.
        crashes: One line per worker that died and per lane that was given up; each blocks acceptance.
        hindrances: One line for all else that blocks without a verdict: hidden devices, files that cannot
            be collected, a failure that no test explains.
        repeated: One line per attempt of a test that another plugin had repeated: the last one decides,
            but a failure that comes and goes does not vanish.
        usage_errors: One line per benchmark that is written wrongly.
        misused: Their node ids.
        internal_error: One line if the decision could not be made.
        selection: The Selector's choice of benchmarks; None where it takes no part.
    """

    def __init__(
        self, config: pytest.Config, context: RunContext, earlier: Earlier | None = None
    ) -> None:
        self._config = config
        self._earlier = earlier
        self.context = context
        self.planned: dict[str, PlannedTest] = {}
        self.results: dict[str, TestResult] = {}
        self.measurements: list[Measurement] = []
        self.verdicts: dict[str, list[MetricVerdict]] = {}
        self.node_verdict: NodeVerdict | None = None
        self.crashes: list[str] = []
        self.repeated: list[str] = []
        self.hindrances: list[str] = []
        self.usage_errors: list[str] = []
        self.misused: set[str] = set()
        self.internal_error = ""
        self.record_path: str = ""
        self.selection: Selection | None = None
        self._journal: Journal | None = None
        self._lock = threading.Lock()  # events of workers arrive in the receiver's thread
        self._waived: set[str] = set()
        self._uncollected: set[str] = set()

    # Events: the journal first, then everything else.

    def sink(self, event: Event) -> None:
        """Write one event to the journal and take note of it."""
        with self._lock:
            if self._journal is not None:
                self._journal.write(event)
            self._note(event)

    def _note(self, event: Event) -> None:
        kind = event["event"]
        if kind == "planned":
            for plan in events.planned_from_event(event):
                self.planned.setdefault(plan.test, plan)
        elif kind == "measurement":
            self.measurements.append(events.measurement_from_event(event))
        elif kind == "verdict":
            verdict = events.verdict_from_event(event)
            self.verdicts.setdefault(event.get("test", ""), []).append(verdict)
        elif kind == "test_started":  # what an earlier attempt concluded stays in the journal only
            self.verdicts.pop(event["test"], None)
        elif kind == "test_repeated":
            self.repeated += repeated([event])
        elif kind == "hindrance":
            self.hindrances += hindrances([event])
        elif kind in ("worker_died", "lane_given_up"):
            self.crashes += deaths([event])

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        """Open the journal, unless tests are only collected."""
        if self._config.option.collectonly:
            return
        context = self.context
        try:
            if self._earlier is not None:
                self._journal = Journal.open_existing(self._earlier.path)
                self._take_over(self._earlier)
                return
            self._journal = Journal.create(context.settings.store, context.run_id)
        except JournalError as error:
            raise pytest.UsageError(f"--anubis-store: {error}") from error
        self.record_path = str(self._journal.path)
        started = events.run_started_event(
            run=context.run_id,
            node=context.node,
            started=_now(),
            hardware_class=context.hardware_class,
            attributes=context.attributes,
            profile=context.settings.profile,
            # Without a baseline nobody is under acceptance: a fleet's first runs may be learned from.
            purpose="acceptance" if context.judging and context.baseline else "measure",
            inventory=context.inventory,
            settings=to_plain(without_password(context.settings)),
        )
        self.sink({**started, "baseline": context.baseline.digest if context.baseline else ""})
        self._tell_hidden()

    def _tell_hidden(self) -> None:
        for note in self.context.hidden:
            self._hinder(f"{note} and not tested")

    def _hinder(self, text: str) -> None:
        """Take note of what stands in the way of acceptance besides verdicts and deaths."""
        self.sink({"event": "hindrance", "text": text})

    def _take_over(self, earlier: Earlier) -> None:
        """Take what the earlier part of this run measured and concluded as our own."""
        record = earlier.record
        self.record_path = str(earlier.path)
        self.planned = {plan.test: plan for plan in record.planned}
        self.results = {r.test: r for r in record.results if r.test in set(earlier.done)}
        self.measurements = list(record.measurements)
        # What was concluded at the end of the earlier part, about no test in particular, is so anew.
        for test, verdict in zip(record.verdict_tests, record.verdicts, strict=True):
            if test in self.results:
                self.verdicts.setdefault(test, []).append(verdict)
        for event in record.events:  # deaths of workers stand in the way of acceptance then and now
            self._note(dict(event))
        self.hindrances.clear()  # this part of the run finds its own
        self._waived = {r.test for r in self.results.values() if r.outcome == "xfailed"}
        self.sink(
            {
                "event": "resumed",
                "started": _now(),
                "done": len(self.results),
                "interrupted": list(earlier.interrupted),
            }
        )
        self._tell_hidden()

    def pytest_report_header(self) -> list[str]:
        """Say what is not repeated."""
        if self._earlier is None:
            return []
        cut = ", ".join(self._earlier.interrupted) or "none"
        return [
            f"anubis: going on with run {self.context.run_id}: {len(self._earlier.done)} tests are "
            f"done, interrupted: {cut}"
        ]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take note of how tests end; crash reports have no ``when`` that we know."""
        data: dict[str, Any] = getattr(report, "anubis", {})
        if "usage_error" in data:
            self.usage_errors.append(data["usage_error"])
            self.misused.add(report.nodeid)
        if (
            str(report.outcome) == "rerun"
        ):  # what plugins that repeat failures make of all but the last
            self._repeat(report)
            return
        if report.when not in ("setup", "call", "teardown"):
            self._finish_test(self._result(report, data, "crashed"))
            return
        outcome = _outcome_of(report)
        previous = self.results.get(report.nodeid)
        if outcome is not None and (previous is None or _worse(outcome, previous.outcome)):
            self.results[report.nodeid] = self._result(report, data, outcome)
        if outcome == "xfailed":
            self._waived.add(report.nodeid)
        if report.when == "teardown" and report.nodeid in self.results:
            self._finish_test(self.results[report.nodeid])

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Take note of what cannot be collected: with ``--continue-on-collection-errors`` the rest runs."""
        if report.failed and report.nodeid not in self._uncollected:  # workers collect the same
            self._uncollected.add(report.nodeid)
            self._hinder(f"{report.nodeid} cannot be collected: {_first_line(report)}")

    def _repeat(self, report: pytest.TestReport) -> None:
        """An attempt failed and another one follows: it counts no more, and is told."""
        self.results.pop(report.nodeid, None)
        self.misused.discard(report.nodeid)
        told = {"event": "test_repeated", "test": report.nodeid, "phase": report.when}
        self.sink({**told, "text": _first_line(report)})

    def _result(self, report: pytest.TestReport, data: dict[str, Any], outcome: str) -> TestResult:
        return TestResult(
            test=report.nodeid,
            benchmark=data.get("benchmark", ""),
            component=data.get("component", ""),
            outcome=outcome,
            text=_first_line(report),
            seconds=round(report.duration, 6),
            metrics=len(data.get("measurements", ())),
        )

    def _finish_test(self, result: TestResult) -> None:
        self.results[result.test] = result
        self.sink(events.finished_event(result))

    # First: the exit status must be right before reports and terminal show it.
    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Decide, close the journal, file the run."""
        if self._journal is None:
            return
        interrupted = exitstatus not in (
            pytest.ExitCode.OK,
            pytest.ExitCode.TESTS_FAILED,
            pytest.ExitCode.NO_TESTS_COLLECTED,
        )
        pruned = self.selection is not None and bool(self.selection.unneeded())
        if self.context.settings.mode == "judge" and (self.planned or pruned or self.verdicts):
            if exitstatus == pytest.ExitCode.TESTS_FAILED and not self._failed():
                self._hinder("pytest ended with a failure, but no test of this run failed")
            self._decide_or_say_why_not(session, interrupted)
        elif not interrupted and self._missing():
            session.exitstatus = EXIT_UNDECIDED
        if self.usage_errors and not interrupted and not self.internal_error:
            session.exitstatus = pytest.ExitCode.USAGE_ERROR
        status = int(session.exitstatus)
        self.sink(events.run_finished_event(exit_status=status, ended=_now()))
        self._journal.close()
        self._file()

    def _missing(self) -> list[str]:
        return [test for test in self.planned if test not in self.results]

    def _failed(self) -> bool:
        """Return whether something is known to have failed."""
        bad = ("failed", "error", "crashed")
        return bool(self._uncollected) or any(r.outcome in bad for r in self.results.values())

    def _decide_or_say_why_not(self, session: pytest.Session, interrupted: bool) -> None:
        """Decide; a fault of ours or of a hook must not cost the record of what was measured."""
        try:
            self._decide(session, interrupted)
        except Exception as error:
            what = "the decision" if self.node_verdict is None else "a pytest_anubis_verdict hook"
            first = str(error).split("\n", 1)[0]
            self.internal_error = line = (
                f"internal error: {what} failed: {type(error).__name__}: {first}"
            )
            trace = traceback.format_exc()
            self.sink({"event": "internal_error", "text": line, "traceback": trace})
            session.exitstatus = pytest.ExitCode.INTERNAL_ERROR

    def _decide(self, session: pytest.Session, interrupted: bool) -> None:
        from pytest_anubis.session.running.run_decision import decide

        node_verdict, extra = decide(self, waived=frozenset(self._waived))
        for verdict in extra:
            self.sink(events.verdict_event(verdict))
        self.sink(events.node_verdict_event(node_verdict))
        self.node_verdict = node_verdict
        # Every failure and crash has its verdict by now, so this is pytest's 1 as well.
        if not interrupted:
            session.exitstatus = node_verdict.decision.exit_code
        self._config.hook.pytest_anubis_verdict(
            config=self._config, verdict=node_verdict, verdicts=self.all_verdicts()
        )

    def silent_tests(self) -> list[str]:
        """Return one line for every planned test that did not report."""
        return [f"{test}: planned, but never reported" for test in self._missing()]

    def choices(self) -> list[Event]:
        """Return the Selector's choice as the journal holds it, in a list; empty where there is none."""
        event = self.selection.event if self.selection is not None else None
        return [] if event is None else [event]

    def all_verdicts(self) -> list[MetricVerdict]:
        """Return every metric verdict of the run, in the order in which they were reached."""
        return [verdict for verdicts in self.verdicts.values() for verdict in verdicts]

    def _file(self) -> None:
        """File the run in the history; the journal is the truth, so a failure is only told."""
        from pytest_anubis.store.history.run_filing import file_run

        problem = file_run(self.context.settings.history_place, self.record_path)
        if problem:
            self._config.issue_config_time_warning(pytest.PytestWarning(problem), stacklevel=2)


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")


def _outcome_of(report: pytest.TestReport) -> str | None:
    """Return pytest's word for a report that decides, None for a setup or teardown that went well."""
    if hasattr(report, "wasxfail"):
        return "xfailed" if report.skipped else "xpassed"
    if report.when == "call":
        return str(report.outcome)
    if report.skipped:
        return "skipped"
    return "error" if report.failed else None


_ORDER = ("passed", "xpassed", "xfailed", "skipped", "failed", "error", "crashed")


def _worse(outcome: str, than: str) -> bool:
    return _ORDER.index(outcome) > _ORDER.index(than)


def _first_line(report: pytest.TestReport | pytest.CollectReport) -> str:
    longrepr = report.longrepr
    if longrepr is None:
        return ""
    if isinstance(longrepr, tuple):
        return str(longrepr[2]).removeprefix("Skipped: ").split("\n", 1)[0]
    crash = getattr(longrepr, "reprcrash", None)
    text = crash.message if crash is not None else str(longrepr)
    return str(text).strip().split("\n", 1)[0]
