"""Rebuilding a run from the lines of its journal, tolerant of damage and honest about it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from typing import Any, cast

from pytest_anubis.core.baseline import Finding
from pytest_anubis.core.measurement import Measurement, TestResult
from pytest_anubis.core.run import PURPOSES, PlannedTest, Purpose, RunRecord
from pytest_anubis.core.verdict import MetricVerdict, NodeVerdict
from pytest_anubis.store.fields import Fields
from pytest_anubis.store.journal import journal_events as events
from pytest_anubis.store.journal.journal_events import FORMAT, SCHEMA, Event, JournalError

_MANY = 20  # damaged lines named one by one; the rest is counted


class Replay:
    """Takes the lines of one journal in order and gives the run's record.

    Args:
        name: The file's name, for warnings.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._start: Fields | None = None
        self._planned: dict[str, PlannedTest] = {}
        self._running: dict[str, None] = {}
        self._results: dict[str, TestResult] = {}
        self._measurements: list[Measurement] = []
        self._verdicts: list[tuple[str, MetricVerdict]] = []  # with the test, empty for none
        self._judged: set[str] = set()
        self._node_verdict: NodeVerdict | None = None
        self._findings: list[Finding] = []
        self._others: list[Event] = []
        self._ended = ""
        self._exit_status: int | None = None
        self._warnings: list[str] = []
        self._bad = 0

    def line(self, number: int, line: bytes) -> None:
        """Take one line.

        Args:
            number: Its number, from 1.
            line: Its bytes, with the line end unless it was cut short.

        Raises:
            JournalError: The journal as a whole is of another kind or schema.
        """
        if not line.strip():
            return
        try:
            event = _parse(line)
        except ValueError as error:
            if line.endswith(b"\n"):
                self._damaged(number, str(error))
            else:
                self._warnings.append(
                    f"{self._name} line {number}: cut short, the event in flight was lost"
                )
            return
        if self._start is None:
            self._begin(number, event)
            return
        try:
            self._take(event)
        except JournalError as error:
            self._damaged(number, str(error))

    def record(self) -> RunRecord:
        """Return the run.

        Raises:
            JournalError: There was no event at all.
        """
        start = self._start
        if start is None:
            raise JournalError("no run_started event; this is not a journal, or it is empty")
        if self._bad > _MANY:
            self._warnings.append(f"{self._name}: {self._bad - _MANY} more damaged lines skipped")
        if not self._ended:
            self._warnings.append(f"{self._name}: the run never finished")
        return dataclasses.replace(
            head_of(start),
            ended=self._ended,
            exit_status=self._exit_status,
            planned=tuple(self._planned.values()),
            results=self._all_results(),
            measurements=tuple(self._measurements),
            verdicts=tuple(verdict for _, verdict in self._verdicts),
            verdict_tests=tuple(test for test, _ in self._verdicts),
            node_verdict=self._node_verdict,
            findings=tuple(self._findings),
            events=tuple(self._others),
            warnings=tuple(self._warnings),
        )

    def _begin(self, number: int, event: Event) -> None:
        if event["event"] != "run_started" or event.get("format") != FORMAT:
            raise JournalError(f"line {number}: not an Anubis journal (no run_started event)")
        if event.get("schema") != SCHEMA:
            raise JournalError(
                f"line {number}: journal schema {str(event.get('schema'))[:20]}, this version reads "
                f"{SCHEMA}; use the version of pytest-anubis that wrote it"
            )
        self._start = Fields(event, "", JournalError)
        try:
            head_of(self._start)
        except JournalError as error:
            raise JournalError(f"line {number}: {error}") from None

    def _take(self, event: Event) -> None:
        take = _TAKERS.get(event["event"])
        if take is None:
            self._others.append(event)
        else:
            take(self, event)

    def _take_planned(self, event: Event) -> None:
        self._planned.update((test.test, test) for test in events.planned_from_event(event))

    def _take_test_started(self, event: Event) -> None:
        test = Fields(event, "", JournalError).text("test")
        self._running[test] = None
        if test in self._judged:  # it is repeated: its last attempt counts
            self._verdicts = [item for item in self._verdicts if item[0] != test]

    def _take_test_finished(self, event: Event) -> None:
        result = events.result_from_event(event)
        self._running.pop(result.test, None)
        self._results[result.test] = result

    def _take_measurement(self, event: Event) -> None:
        self._measurements.append(events.measurement_from_event(event))

    def _take_verdict(self, event: Event) -> None:
        test = Fields(event, "", JournalError).text("test", "")
        self._judged.add(test)
        self._verdicts.append((test, events.verdict_from_event(event)))

    def _take_resumed(self, event: Event) -> None:
        """What the earlier part concluded at its end is concluded anew."""
        self._verdicts = [item for item in self._verdicts if item[0]]
        self._node_verdict, self._ended, self._exit_status = None, "", None
        self._others.append(event)

    def _take_node_verdict(self, event: Event) -> None:
        self._node_verdict = events.node_verdict_from_event(event)

    def _take_finding(self, event: Event) -> None:
        self._findings.append(events.finding_from_event(event))

    def _take_run_finished(self, event: Event) -> None:
        fields = Fields(event, "", JournalError)
        self._ended = fields.text("ended")
        self._exit_status = fields.integer("exit_status", least=-255)

    def _all_results(self) -> tuple[TestResult, ...]:
        results = dict(self._results)
        for test in (*self._planned, *self._running):
            if test not in results:
                plan = self._planned.get(test, PlannedTest(test=test))
                text = "started and never finished" if test in self._running else "never started"
                results[test] = TestResult(
                    test=test, benchmark=plan.benchmark, component=plan.component, text=text
                )
        return tuple(results.values())

    def _damaged(self, number: int, text: str) -> None:
        self._bad += 1
        if self._bad <= _MANY:
            self._warnings.append(f"{self._name} line {number}: {text}; skipped")


def head_of(start: Fields) -> RunRecord:
    """Return the run that a ``run_started`` event announces, still without content.

    Raises:
        ValueError: (as the fields' error) A field is missing or of another type.
    """
    return RunRecord(
        run=start.text("run"),
        node=start.text("node"),
        hardware_class=start.text("hardware_class", ""),
        attributes=start.text_mapping("attributes"),
        profile=start.text("profile", ""),
        started=start.text("started", ""),
        purpose=cast("Purpose", start.choice("purpose", PURPOSES, "measure")),
        inventory=start.mapping("inventory"),
        settings=start.mapping("settings"),
        baseline=start.text("baseline", ""),
    )


_TAKERS: dict[str, Callable[[Replay, Event], None]] = {
    "planned": Replay._take_planned,
    "test_started": Replay._take_test_started,
    "test_finished": Replay._take_test_finished,
    "measurement": Replay._take_measurement,
    "verdict": Replay._take_verdict,
    "resumed": Replay._take_resumed,
    "node_verdict": Replay._take_node_verdict,
    "finding": Replay._take_finding,
    "run_finished": Replay._take_run_finished,
}


def _parse(line: bytes) -> Event:
    try:
        event: Any = json.loads(line, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except ValueError as error:  # bad JSON, bad UTF-8, numbers with thousands of digits
        raise ValueError(f"not valid JSON ({str(error)[:60]})") from None
    if not isinstance(event, dict) or not isinstance(event.get("event"), str):
        raise ValueError("not an event (an object with an 'event' field)")
    return event


def _refuse(word: str) -> float:
    raise ValueError(f"{word} is not JSON")
