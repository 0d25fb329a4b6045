"""The state of a run, built from its events.

Live runs, resumed runs and readers of journals all use it, so that a journal yields the state that its run
had.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pytest_anubis.core.blocker import Blocker
from pytest_anubis.core.events import (
    Attempted,
    DamageFound,
    Event,
    Judged,
    Measured,
    NodeDecided,
    PhaseFailed,
    PlanPredicted,
    Resumed,
    RunFinished,
    RunStarted,
    TestFinished,
    TestPutOff,
    TestRepeated,
    TestsPlanned,
    TestStarted,
    WorkerDied,
)
from pytest_anubis.core.measurement import Measurement, PlannedTest, TestResult
from pytest_anubis.core.run import RunRecord, run_of
from pytest_anubis.core.verdict import Decision, MetricVerdict, NodeVerdict, Outcome, Reason, Waiver
from pytest_anubis.core.waiving import WaiversRead, with_waiver

NEVER_FINISHED = "started and never finished"
NEVER_STARTED = "never started"


class RunState:
    """The state of one run; empty until its first event."""

    def __init__(self) -> None:
        self.planned: dict[str, PlannedTest] = {}  # by node id
        self.results: dict[str, TestResult] = {}  # by node id
        self.elsewhere: tuple[str, ...] = ()  # benchmarks of other profiles
        self.node_verdict: NodeVerdict | None = None
        self.expected: PlanPredicted | None = None  # where and when tests were expected to run
        self.warnings: list[str] = []  # faults of the journal that the events came from
        self.last = 0.0  # when the latest event was written, by its journal; 0 without one
        self._head: RunStarted | None = None
        self._running: dict[str, None] = {}
        self._measurements: list[Measurement] = []
        self._verdicts: list[MetricVerdict] = []
        self._judged: dict[str, list[MetricVerdict]] = {}  # test -> verdicts of its last attempt
        self._latest: dict[str, list[Measurement]] = {}  # test -> values of its last attempt
        self._attempts: dict[str, list[Measurement]] = {}  # test -> values that do not count
        self._events: list[Event] = []
        self._waivers: tuple[Waiver, ...] = ()
        self._cut: set[str] = set()  # tests that ran when their worker or the run ended
        self._failing: dict[str, str] = {}  # running test -> failure of its setup or body
        self._failed_before: dict[str, str] = {}  # repeated test -> failure of an earlier attempt
        # (test, metric, group) -> wrong exact result of an attempt, which no later attempt corrects.
        self._wrong: dict[tuple[str, str, str], MetricVerdict] = {}
        self._finished: RunFinished | None = None
        self._latest_part: Resumed | None = None

    def apply(self, event: Event) -> None:
        """Apply one event; no event is refused, since a damaged journal may lack any of them.

        After the run's end only a resumption, damage, or an interruption counts: other late events come from
        a worker that the decision did not wait for. An interruption after the decision, while reports are
        written, takes an acceptance back.
        """
        late = isinstance(event, RunFinished) and bool(event.broken_off)
        ended = self._finished is not None
        if ended and not late and not isinstance(event, (Resumed, DamageFound)):
            return
        match event:
            case RunStarted():
                self._head = self._head or event
            case TestsPlanned():
                self.planned.update((test.test, test) for test in event.tests)
                self.elsewhere = tuple(dict.fromkeys((*self.elsewhere, *event.elsewhere)))
            case TestStarted():
                self._start(event.test)
            case Measured(measurement=one):
                self._measurements.append(one)
                self._latest.setdefault(one.test, []).append(one)
            case Judged(verdict=verdict):
                self._judged.setdefault(verdict.test, []).append(verdict)
                self._verdicts.append(verdict)
            case TestPutOff():
                self._running.pop(event.test, None)
            case PhaseFailed():
                self._failing[event.test] = event.text
            case TestFinished(result=result):
                self._running.pop(result.test, None)
                self._failing.pop(result.test, None)
                self._attempts.pop(result.test, None)
                self.results[result.test] = result
            case NodeDecided(verdict=node_verdict):
                self.node_verdict = node_verdict
            case RunFinished():
                self._finished = event
                decided = self.node_verdict
                if late and decided is not None and decided.decision is Decision.ACCEPTED:
                    why = f"the run was broken off: {event.broken_off}"
                    self.node_verdict = undecided_by(decided, why)
            case _:
                self._other(event)

    def _start(self, test: str) -> None:
        if test in self._running and test not in self._cut:  # another plugin repeats it
            self._failed_before.setdefault(test, "its end was never reported")
        self._cut.discard(test)
        self._running[test] = None
        self._attempts.pop(test, None)
        # The last attempt of a test counts; values of earlier ones are kept as attempts.
        earlier = self._latest.pop(test, [])
        if earlier:
            gone = {id(one) for one in earlier}
            self._measurements = [one for one in self._measurements if id(one) not in gone]
            self._events += [Attempted(measurement=one) for one in earlier]
        judged = self._judged.pop(test, [])
        if judged:
            self._verdicts = [verdict for verdict in self._verdicts if verdict.test != test]
        self._note_failure(test, judged)

    def _note_failure(self, test: str, judged: list[MetricVerdict]) -> None:
        """Remember that an attempt failed, even if its end was lost, since failing hardware may recover.

        A wrong exact result fails for good, even if a later attempt is right.
        """
        for verdict in judged:
            if verdict.outcome is not Outcome.FAIL:
                continue
            self._failed_before.setdefault(test, verdict.text)
            if verdict.better == "equal" and verdict.reason is not Reason.REPEATED:
                text = f"{verdict.text} (in an attempt that was repeated; a wrong result stays one)"
                self._wrong[test, verdict.metric, verdict.group] = replace(
                    verdict, reason=Reason.REPEATED, text=text
                )
        if test in self._failing:
            self._failed_before.setdefault(test, self._failing.pop(test))

    def _other(self, event: Event) -> None:
        self._events.append(event)
        if isinstance(event, WorkerDied):
            self._cut.add(event.test)
        elif isinstance(event, WaiversRead):
            self._waivers = event.waivers
        elif isinstance(event, PlanPredicted):
            self.expected = event
        elif isinstance(event, Attempted):
            self._attempts.setdefault(event.measurement.test, []).append(event.measurement)
        elif isinstance(event, Resumed):
            # Verdicts on the whole run, and on tests that never ended, are reached again.
            for test in self._judged.keys() - self.results.keys():
                self._note_failure(test, self._judged[test])
            self._cut.update(self._running)
            kept = {} if event.changed else self.results
            self._verdicts = [v for v in self._verdicts if v.test in kept]
            self._judged = {t: found for t, found in self._judged.items() if t in kept}
            self.node_verdict = None
            self._finished = None
            self._latest_part = event

    @property
    def begun(self) -> bool:
        """Whether the run's first event was applied."""
        return self._head is not None

    @property
    def judged(self) -> bool:
        """Whether a verdict was reached."""
        return bool(self._verdicts)

    @property
    def missing(self) -> list[str]:
        """Planned tests that have not ended."""
        return [test for test in self.planned if test not in self.results]

    @property
    def interrupted(self) -> tuple[str, ...]:
        """Tests that have begun and not ended."""
        return tuple(self._running)

    @property
    def running(self) -> tuple[str, ...]:
        """Tests that have begun and not ended, and whose worker and run are alive."""
        return tuple(test for test in tuple(self._running) if test not in self._cut)

    def measured(self, test: str) -> list[Measurement]:
        """Return the measurements of a test's last attempt so far."""
        return list(self._latest.get(test, ()))

    def attempts(self, test: str) -> list[Measurement]:
        """Return the measurements of a running test that do not count."""
        return list(self._attempts.get(test, ()))

    def verdicts_of(self, test: str) -> list[MetricVerdict]:
        """Return the verdicts on a test's last attempt, with waivers applied."""
        fail_on = str(self._head.settings.get("fail_on", "")) if self._head else ""
        return [with_waiver(one, self._waivers, fail_on) for one in self._judged.get(test, ())]

    def record(self) -> RunRecord:
        """Return the run as far as it is known now.

        Raises:
            ValueError: There is no event yet.
        """
        head = self._head
        if head is None:
            raise ValueError("the run has not begun")
        part, finished = self._latest_part, self._finished
        more: dict[str, Any] = {"last": self.last} if finished is None else {}
        if part is not None and part.baseline is not None:
            more["baseline"] = part.baseline
        if head.looked_at is not None:
            parts = [e.looked_at or () for e in self._events if isinstance(e, Resumed)]
            in_all = (one for one in head.looked_at if all(one in part for part in parts))
            more["looked_at"] = tuple(in_all)
        if finished is not None:
            more |= {
                "ended": finished.ended,
                "exit_status": finished.exit_status,
                "cause": finished.broken_off,
            }
        return run_of(
            head,
            planned=tuple(self.planned.values()),
            results=self._all_results(),
            measurements=tuple(self._measurements),
            verdicts=(*self._verdicts, *self._wrong.values()),
            node_verdict=self._decided(),
            events=(*self._events, *self._lost_repeats()),
            warnings=tuple(self.warnings),
            **more,
        )

    def _decided(self) -> NodeVerdict | None:
        """Return the decision; an acceptance is taken back if a part of the journal is lost."""
        decided = self.node_verdict
        lost = next((one.text for one in self._events if isinstance(one, DamageFound)), "")
        if not lost or decided is None or decided.decision is not Decision.ACCEPTED:
            return decided
        return undecided_by(decided, lost)

    def _lost_repeats(self) -> list[TestRepeated]:
        """Return the failed attempts without an event, since their end was lost."""
        known = {event.test for event in self._events if isinstance(event, TestRepeated)}
        return [
            TestRepeated(test=test, phase="call", text=text)
            for test, text in self._failed_before.items()
            if test not in known
        ]

    def _all_results(self) -> tuple[TestResult, ...]:
        results = dict(self.results)
        for test in (*self.planned, *self._running):
            if test not in results:
                plan = self.planned.get(test, PlannedTest(test=test))
                text = NEVER_FINISHED if test in self._running else NEVER_STARTED
                results[test] = TestResult(
                    test=test, benchmark=plan.benchmark, component=plan.component, text=text
                )
        return tuple(results.values())


def undecided_by(verdict: NodeVerdict, why: str) -> NodeVerdict:
    """Return an accepted node as undecided, with one more blocker."""
    subject = f"node {verdict.node}" if verdict.node else "the node"
    return replace(
        verdict,
        decision=Decision.UNDECIDED,
        headline=f"{subject} is neither accepted nor rejected: {why}",
        blocking=(Blocker(cause=why), *verdict.blocking),
    )
