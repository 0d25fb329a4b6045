"""The one interpreter of events: from what happened, in order, to what is known of a run.

It is used live, by a run that is resumed, and whenever a journal is read back: what a run knows of itself at
any moment is what its journal will tell.
"""

from __future__ import annotations

from pytest_anubis.core.events import (
    Attempted,
    Event,
    Judged,
    Measured,
    NodeDecided,
    Resumed,
    RunFinished,
    RunStarted,
    TestFinished,
    TestsPlanned,
    TestStarted,
    WorkerDied,
)
from pytest_anubis.core.measurement import Measurement, PlannedTest, TestResult
from pytest_anubis.core.run import RunRecord, run_of
from pytest_anubis.core.verdict import MetricVerdict, NodeVerdict


class RunState:
    """What is known of one run; empty until its first event.

    Attributes:
        planned: Every planned test, by node id.
        results: How each test ended that has ended, by node id.
        node_verdict: What was decided; None until then.
        warnings: What was wrong with the journal that the events came from.
    """

    def __init__(self) -> None:
        self.planned: dict[str, PlannedTest] = {}
        self.results: dict[str, TestResult] = {}
        self.node_verdict: NodeVerdict | None = None
        self.warnings: list[str] = []
        self._head: RunStarted | None = None
        self._running: dict[str, None] = {}
        self._measurements: list[Measurement] = []
        self._verdicts: list[MetricVerdict] = []
        self._judged: dict[str, list[MetricVerdict]] = {}  # test -> those of its last attempt
        self._cut: set[str] = set()  # in flight when their worker or the run ended
        self._latest: dict[str, list[Measurement]] = {}  # test -> those of its last attempt
        self._attempts: dict[str, list[Measurement]] = {}  # test -> those that do not count
        self._events: list[Event] = []
        self._ended = ""
        self._exit_status: int | None = None

    def apply(self, event: Event) -> None:
        """Take note of one event.

        Nothing is refused: an end without a beginning, a verdict on an unknown test and the like are what a
        damaged journal holds.
        """
        match event:
            case RunStarted():
                self._head = self._head or event
            case TestsPlanned():
                self.planned.update((test.test, test) for test in event.tests)
            case TestStarted():
                self._start(event.test)
            case Measured(measurement=one):
                self._measurements.append(one)
                self._latest.setdefault(one.test, []).append(one)
            case Judged(verdict=verdict):
                self._judged.setdefault(verdict.test, []).append(verdict)
                self._verdicts.append(verdict)
            case TestFinished(result=result):
                self._running.pop(result.test, None)
                self._attempts.pop(result.test, None)
                self.results[result.test] = result
            case NodeDecided(verdict=node_verdict):
                self.node_verdict = node_verdict
            case RunFinished():
                self._ended, self._exit_status = event.ended, event.exit_status
            case _:
                self._other(event)

    def _start(self, test: str) -> None:
        self._running[test] = None
        self._attempts.pop(test, None)
        earlier = self._latest.pop(test, [])
        if earlier and test in self._cut:
            # Nothing is concluded from half of it. (What was measured when it *failed* and was repeated
            # counts when its values are judged anew: hardware that fails now and then is grey.)
            gone = {id(one) for one in earlier}
            self._measurements = [one for one in self._measurements if id(one) not in gone]
            self._events += [Attempted(measurement=one) for one in earlier]
        self._cut.discard(test)
        if self._judged.pop(test, None):  # of a test that was repeated the last verdicts count
            self._verdicts = [verdict for verdict in self._verdicts if verdict.test != test]

    def _other(self, event: Event) -> None:
        self._events.append(event)
        if isinstance(event, WorkerDied):
            self._cut.add(event.test)
        elif isinstance(event, Attempted):
            self._attempts.setdefault(event.measurement.test, []).append(event.measurement)
        elif isinstance(event, Resumed):
            # What was concluded at the end of the earlier part, about no test in particular, is concluded
            # anew, as is what was concluded about a test that never ended.
            self._verdicts = [v for v in self._verdicts if v.test in self.results]
            self._judged = {t: found for t, found in self._judged.items() if t in self.results}
            self._cut.update(self._running)
            self.node_verdict, self._ended, self._exit_status = None, "", None

    @property
    def begun(self) -> bool:
        """True once the run's first event was applied."""
        return self._head is not None

    @property
    def judged(self) -> bool:
        """True once a verdict was reached."""
        return bool(self._verdicts)

    @property
    def missing(self) -> list[str]:
        """Planned tests that have not ended."""
        return [test for test in self.planned if test not in self.results]

    @property
    def interrupted(self) -> tuple[str, ...]:
        """Tests that have begun and not ended."""
        return tuple(self._running)

    def measured(self, test: str) -> list[Measurement]:
        """Return what the last attempt of a test has measured so far."""
        return list(self._latest.get(test, ()))

    def attempts(self, test: str) -> list[Measurement]:
        """Return what a running test has measured so far that did not count."""
        return list(self._attempts.get(test, ()))

    def verdicts_of(self, test: str) -> list[MetricVerdict]:
        """Return the verdicts on the last attempt of a test."""
        return list(self._judged.get(test, ()))

    def record(self) -> RunRecord:
        """Return all that is known now.

        Raises:
            ValueError: Nothing has happened yet.
        """
        head = self._head
        if head is None:
            raise ValueError("the run has not begun")
        return run_of(
            head,
            ended=self._ended,
            exit_status=self._exit_status,
            planned=tuple(self.planned.values()),
            results=self._all_results(),
            measurements=tuple(self._measurements),
            verdicts=tuple(self._verdicts),
            node_verdict=self.node_verdict,
            events=tuple(self._events),
            warnings=tuple(self.warnings),
        )

    def _all_results(self) -> tuple[TestResult, ...]:
        results = dict(self.results)
        for test in (*self.planned, *self._running):
            if test not in results:
                plan = self.planned.get(test, PlannedTest(test=test))
                text = "started and never finished" if test in self._running else "never started"
                results[test] = TestResult(
                    test=test, benchmark=plan.benchmark, component=plan.component, text=text
                )
        return tuple(results.values())
