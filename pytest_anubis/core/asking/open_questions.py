"""The questions of a run: each is answered, open for one reason, or does not apply to this machine.

`kept_silent` explains planned tests that never reported.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from pytest_anubis.core.events import LaneGivenUp
from pytest_anubis.core.measurement import GATE_STOPPED, LOOKS_SPENT, PlannedTest, TestResult
from pytest_anubis.core.run import RunRecord, given_up_text
from pytest_anubis.core.verdict import MetricVerdict, Outcome, Reason

ANSWERS = (Outcome.PASS.value, Outcome.MARGINAL.value, Outcome.FAIL.value)
"""Outcomes that answer a benchmark's question if a baseline decided."""

APART = "not applicable"
"""Prefix of the reason of a benchmark that does not apply to this machine."""


class QuestionState(StrEnum):
    """State of a question, the most urgent open state first."""

    BROKEN = "broken off or kept from its work"
    LOOKS_SPENT = "looks used up"
    DISTURBED = "disturbed"
    NO_BASELINE = "without a baseline"
    NO_CRITERION = "without a criterion"
    UNCLEAR = "measured, not judged"
    NOT_RUN = "not run, or only in part"
    LEFT_OUT = "left out by the Selector"
    WAIVED = "waived"
    SILENT = "lacking a value to judge"
    NO_PART = "no part of this run"
    APART = "not applicable here"
    ANSWERED = "answered"


_CLOSED = (QuestionState.ANSWERED, QuestionState.APART, QuestionState.NO_PART)
_OF_REASON = {
    Reason.NOT_REPORTED: QuestionState.BROKEN,
    Reason.UNREACHED: QuestionState.BROKEN,
    Reason.ENVIRONMENT: QuestionState.BROKEN,
    Reason.DISTURBED: QuestionState.DISTURBED,
    Reason.NO_BASELINE: QuestionState.NO_BASELINE,
    Reason.NO_CRITERION: QuestionState.NO_CRITERION,
    Reason.BELOW_NOMINAL: QuestionState.NO_CRITERION,
    Reason.NOT_RUN: QuestionState.NOT_RUN,
    Reason.PARTLY_RUN: QuestionState.NOT_RUN,
    Reason.PRUNED: QuestionState.LEFT_OUT,
    Reason.WAIVED: QuestionState.WAIVED,
    Reason.UNSET: QuestionState.SILENT,
}
"""State of a question by the reason of its verdict; other reasons are UNCLEAR."""

_OF_RESULT = {
    "skipped": QuestionState.NOT_RUN,
    "deselected": QuestionState.NOT_RUN,
    "crashed": QuestionState.BROKEN,
    "error": QuestionState.BROKEN,
    "failed": QuestionState.BROKEN,
    "not reported": QuestionState.BROKEN,
    "xfailed": QuestionState.WAIVED,
}
"""State of a question by the result of its test, if that has no verdict, as in an incomplete run."""

Place = tuple[str, str]
"""Benchmark and device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedQuestion:
    """A question of a run with its state."""

    question: str
    state: QuestionState
    why: str = ""  # why it is open or not applicable, in the words of one verdict


@dataclass(frozen=True, slots=True)
class AskedQuestions:
    """All questions of a run; the asked ones are the answered and the open ones."""

    every: Sequence[AskedQuestion] = ()  # one entry a question, in the order of the tests

    @property
    def answered(self) -> int:
        """How many are answered."""
        return sum(one.state is QuestionState.ANSWERED for one in self.every)

    @property
    def asked(self) -> int:
        """How many were asked: all that apply to this machine and are part of the run."""
        return self.answered + sum(map(len, self.unanswered.values()))

    @property
    def unanswered(self) -> dict[QuestionState, list[AskedQuestion]]:
        """The open ones by state, in the order of `QuestionState`."""
        found = {kind: self.of(kind) for kind in QuestionState if kind not in _CLOSED}
        return {kind: some for kind, some in found.items() if some}

    def of(self, state: QuestionState) -> list[AskedQuestion]:
        """Return those in one state."""
        return [one for one in self.every if one.state is state]

    def plain(self) -> dict[str, object]:
        """Return the counts as plain data: ``asked`` is ``answered`` and the sum of ``open``."""
        return {
            "asked": self.asked,
            "answered": self.answered,
            "open": {kind.name.lower(): len(some) for kind, some in self.unanswered.items()},
            "not_applicable": len(self.of(QuestionState.APART)),
            "no_part": len(self.of(QuestionState.NO_PART)),
        }


def inapplicable(reason: str) -> bool:
    """Return whether a reason says that a benchmark does not apply to this machine."""
    return reason.removeprefix("Skipped: ").startswith(APART)


def why_inapplicable(reason: str) -> str:
    """Return the explanation in a reason that a benchmark does not apply."""
    return reason.partition(APART)[2].strip(": ")


def asked_questions(
    planned: Iterable[PlannedTest],
    verdicts: Iterable[MetricVerdict],
    results: Iterable[TestResult] = (),
    *,
    no_part: Iterable[str] = (),
) -> AskedQuestions:
    """Return the questions of a run with the state of each.

    A question is answered if a baseline judged every benchmark that asks it, on every device that it applies
    to, whatever the outcome. A comparison with the own past or with peers shows only that nothing changed,
    and correct values do not answer for rates without a criterion. Verdicts are those that count
    (`RunRecord.effective_verdicts`); results say how tests without a verdict ended; `no_part` are questions
    of benchmarks that are no part of the run.
    """
    of_place: dict[Place, list[MetricVerdict]] = {}
    for verdict in verdicts:
        of_place.setdefault((verdict.benchmark, verdict.device), []).append(verdict)
    ended = {result.test: result for result in results}
    found: dict[str, list[AskedQuestion]] = {}
    for plan in planned:
        if plan.question:
            state, why = _state(plan, of_place.get(plan.place, ()), ended.get(plan.test))
            one = AskedQuestion(question=plan.question, state=state, why=why)
            found.setdefault(plan.question, []).append(one)
    for question in no_part:
        one = AskedQuestion(question=question, state=QuestionState.NO_PART)
        found.setdefault(question, [one])
    return AskedQuestions(tuple(map(_first, found.values())))


def most_frequent_why(questions: Sequence[AskedQuestion]) -> tuple[str, int]:
    """Return the reason that most questions have, and how many other reasons there are."""
    counted = Counter(one.why for one in questions if one.why)
    return (counted.most_common(1)[0][0], len(counted) - 1) if counted else ("", 0)


def _first(places: Sequence[AskedQuestion]) -> AskedQuestion:
    """Return the most urgent state of a question's tests; tests that do not apply here are ignored."""
    order = list(QuestionState)
    here = [one for one in places if one.state is not QuestionState.APART]
    return min(here or places, key=lambda one: order.index(one.state))


def _state(
    plan: PlannedTest, verdicts: Sequence[MetricVerdict], result: TestResult | None
) -> tuple[QuestionState, str]:
    """Return the state of a test's question, and why it has no answer."""
    order = list(QuestionState)
    open_ones = [v for v in verdicts if _leaves_open(v)]
    for verdict in open_ones:
        if inapplicable(verdict.text):
            return QuestionState.APART, verdict.text
    if open_ones:
        return min(map(_of_verdict, open_ones), key=lambda pair: order.index(pair[0]))
    judged = [v for v in verdicts if v.outcome.value in ANSWERS and not v.compared_only]
    without = [v for v in verdicts if v.reason in (Reason.NO_CRITERION, Reason.BELOW_NOMINAL)]
    rates = [v for v in without if v.better != "equal"]
    if judged and not (rates and all(v.metric and v.better == "equal" for v in judged)):
        unset = set(plan.metrics) - {v.metric for v in verdicts}
        test_failed = any(not v.metric for v in judged)
        if unset and not test_failed:
            return QuestionState.SILENT, f"declared, but not recorded: {', '.join(sorted(unset))}"
        return QuestionState.ANSWERED, ""
    if without:
        return _of_verdict((rates or without)[0])
    if result is not None and result.outcome in _OF_RESULT:
        if inapplicable(result.text):
            return QuestionState.APART, result.text
        return _OF_RESULT[result.outcome], result.text
    return QuestionState.SILENT, ""


def _leaves_open(verdict: MetricVerdict) -> bool:
    """Return whether a verdict leaves the question open, whatever the other verdicts are."""
    if verdict.reason is Reason.UNSET:  # the node fails for it, but the question has no answer
        return True
    answers = verdict.outcome.value in ANSWERS
    return not answers and verdict.reason not in (Reason.NO_CRITERION, Reason.REPEATED)


def _of_verdict(verdict: MetricVerdict) -> tuple[QuestionState, str]:
    if verdict.broken:
        return QuestionState.BROKEN, verdict.text
    if verdict.reason is Reason.DISTURBED and LOOKS_SPENT in verdict.disturbance:
        return QuestionState.LOOKS_SPENT, verdict.text
    return _OF_REASON.get(verdict.reason, QuestionState.UNCLEAR), verdict.text


def kept_silent(run: RunRecord) -> dict[str, str]:
    """Return planned test that never reported -> the line about the cause, if known.

    The gate may have stopped the run before its first test, or a lane was given up after its workers died
    again and again.
    """
    silent = _silent(run)
    if not silent:
        return {}
    if any(blocker.cause == GATE_STOPPED for blocker in run.blockers):
        return dict.fromkeys(silent, GATE_STOPPED)
    lanes = [event.lane for event in run.events if isinstance(event, LaneGivenUp)]
    if lanes:
        return dict.fromkeys(silent, given_up_text(lanes[-1]))
    return {}


def unexplained(run: RunRecord) -> list[str]:
    """Return one line for every planned test that never reported for no known cause."""
    kept = kept_silent(run)
    return [f"{test}: planned, but never reported" for test in _silent(run) if test not in kept]


def _silent(run: RunRecord) -> list[str]:
    reported = {result.test for result in run.results if result.outcome != "not reported"}
    return [plan.test for plan in run.planned if plan.test not in reported]
