"""The answer of `anubis goals` as tree, Markdown or JSON: goal, question, metric, verdict.

Each metric shows the verdict of the latest run. Where that run has none, the reason is followed by the latest
earlier verdict and its date. The method is Goal-Question-Metric.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pytest_anubis.codec import to_plain
from pytest_anubis.core.asking.open_questions import (
    ANSWERS,
    AskedQuestions,
    QuestionState,
    asked_questions,
)
from pytest_anubis.core.field_types import AnyFloat
from pytest_anubis.core.measurement import PlannedTest, TestResult
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.verdict import NOT_JUDGED, MetricVerdict, Outcome, Reason
from pytest_anubis.report.text.numbers import value_text
from pytest_anubis.report.text.shared_lines import COMPARED_ONLY, questions_text

NO_GOAL = "(no goal stated)"
NO_QUESTION = "(no question stated)"
NO_QUESTIONS = "no questions are asked"
JSON_SCHEMA = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkGoal:
    """The goal and question that a benchmark's mark states."""

    benchmark: str  # node id of the test function, without parameters
    component: str = ""
    goal: str = ""
    question: str = ""
    action: str = ""  # what to do when it is bad
    metrics: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricAnswer:
    """The latest run's verdict on one metric of one device, or else that of an earlier run."""

    metric: str  # its name; empty where the mark names no metric and none was recorded
    case: str = ""  # parameters of the test, without the device
    device: str = ""
    unit: str = ""  # its unit; empty if it was never recorded
    better: str = ""
    # The verdict of the latest run, ``NOT_TESTED`` or ``NOT_JUDGED``
    outcome: str = Outcome.NOT_TESTED.value
    value: AnyFloat | None = None
    reason: str = ""
    # Whether the benchmark's mark names it; also true if the mark names no metric
    declared: bool = True
    norm: bool = True  # whether a baseline decided; without one the question stays open
    # The latest verdict of an earlier run; empty if there is none, or the latest run has one
    before: str = ""
    before_value: AnyFloat | None = None
    before_date: str = ""
    before_run: str = ""

    @property
    def answers(self) -> bool:
        """Whether it answers the question."""
        return self.outcome in ANSWERS and self.norm

    @property
    def text(self) -> str:
        """The verdict with its value or reason, and the earlier one with its date."""
        text = self.outcome + self._in_brackets(self.value)
        if self.reason:
            text += f": {self.reason}"
        if self.before:
            value = self._in_brackets(self.before_value)
            text += f"; before: {self.before}{value} on {self.before_date} in run {self.before_run}"
        return text if self.declared else f"{text}; recorded without being declared"

    def _in_brackets(self, value: float | None) -> str:
        return "" if value is None else f" ({value_text(value, self.unit)})"

    @property
    def label(self) -> str:
        """Metric, case, unit and device in words."""
        case = f" [{self.case}]" if self.case else ""
        unit = f" in {self.unit}, {self.better} is better" if self.unit else ""
        device = f", on {self.device}" if self.device else ""
        return f"{self.metric or 'every metric'}{case}{unit}{device}"


@dataclass(slots=True, kw_only=True)
class GoalAnswers:
    """All goals with the answers of the latest run."""

    # Id of the latest run that contains any of the benchmarks; empty if there is none
    run: str = ""
    started: str = ""  # when it began, ISO 8601
    node: str = ""
    # Each benchmark with its metrics, in the order given
    answers: list[tuple[BenchmarkGoal, list[MetricAnswer]]] = field(default_factory=list)
    questions: AskedQuestions = field(default_factory=AskedQuestions)
    # The benchmarks that answer their question on every device that they apply to
    answered: frozenset[str] = frozenset()

    def by_goal(self) -> dict[str, list[tuple[BenchmarkGoal, list[MetricAnswer]]]]:
        """Return goal -> its benchmarks with their metrics."""
        found: dict[str, list[tuple[BenchmarkGoal, list[MetricAnswer]]]] = {}
        for entry, rows in self.answers:
            found.setdefault(entry.goal, []).append((entry, rows))
        return found


def goal_answers(goals: Sequence[BenchmarkGoal], runs: Iterable[RunRecord]) -> GoalAnswers:
    """Return the answers of the latest run, and those of earlier runs where it has none.

    The runs come from the latest on. Earlier ones count only if they are of the same node, and are read only
    as far as needed.
    """
    names = {goal.benchmark for goal in goals}
    rest = iter(runs)
    latest = next((run for run in rest if names & _known(run)), None)
    found = GoalAnswers()
    if latest is not None:
        found = GoalAnswers(run=latest.run, started=latest.started, node=latest.node)
        found.questions, found.answered = _asked(goals, latest)
    found.answers = [(goal, _rows(goal, latest) if latest else _unmeasured(goal)) for goal in goals]
    for run in (run for run in rest if run.node == found.node):
        if all(row.answers or row.before for _, rows in found.answers for row in rows):
            break
        found.answers = [(goal, _completed(goal, rows, run)) for goal, rows in found.answers]
    return found


def goals_tree(found: GoalAnswers) -> list[str]:
    """Return the lines of the tree, the run and the share of answered questions first."""
    lines = [_head(found)]
    for goal, benchmarks in found.by_goal().items():
        lines.append(f"goal: {goal or NO_GOAL}")
        for entry, rows in benchmarks:
            lines += [
                f"  question: {entry.question or NO_QUESTION}",
                f"    {entry.benchmark} [{entry.component or 'no component'}]",
                *(f"    metric: {row.label} -> {row.text}" for row in rows),
                *([f"    when bad: {entry.action}"] if entry.action else []),
            ]
    return lines


def goals_markdown(found: GoalAnswers) -> list[str]:
    """Return the lines of a Markdown document."""
    lines = ["# Why everything is measured", "", f"{_head(found)}  ", ""]
    for goal, benchmarks in found.by_goal().items():
        lines += [f"## {_cell(goal or NO_GOAL)}", ""]
        for entry, rows in benchmarks:
            lines += [
                f"### {_cell(entry.question or NO_QUESTION)}",
                "",
                f"`{entry.benchmark}`, {_cell(entry.component or 'no component')}"
                + (f"; when bad: {_cell(entry.action)}" if entry.action else ""),
                "",
                "| metric | verdict |",
                "|---|---|",
                *(f"| {_cell(row.label)} | {_cell(row.text)} |" for row in rows),
                "",
            ]
    return lines[:-1]  # no blank line after the last part


def goals_plain(found: GoalAnswers) -> dict[str, Any]:
    """Return the goals as plain data for other programs."""
    counts = found.questions.plain()
    return {
        "schema": JSON_SCHEMA,
        "run": found.run,
        "node": found.node,
        "started": found.started,
        "questions": counts.pop("asked"),
        **counts,
        "benchmarks": [
            to_plain(goal, full=True)
            | {"answered": goal.benchmark in found.answered, "declared": list(goal.metrics)}
            | {"metrics": [to_plain(row, full=True) for row in rows]}
            for goal, rows in found.answers
        ],
    }


def _head(found: GoalAnswers) -> str:
    if not found.run:
        asked = len({goal.question for goal, _ in found.answers if goal.question})
        share = f"0 of {asked} questions answered" if asked else NO_QUESTIONS
        return f"no run yet: {share}"
    share = questions_text(found.questions) or NO_QUESTIONS
    return f"run {found.run} of {found.node}, {found.started[:16].replace('T', ' ')} UTC: {share}"


def _asked(goals: Sequence[BenchmarkGoal], run: RunRecord) -> tuple[AskedQuestions, frozenset[str]]:
    """Return the state of each question in a run, and the benchmarks that answer theirs."""
    tests = {plan.place: plan.test for plan in run.planned}
    asking = {goal.benchmark: goal for goal in goals}
    plans: dict[str, list[PlannedTest]] = {name: [] for name in asking}
    for benchmark, device in _places(run):
        if (goal := asking.get(_base(benchmark))) is not None:
            plan = PlannedTest(
                test=tests.get((benchmark, device), ""),
                benchmark=benchmark,
                device=device,
                metrics=goal.metrics,
                question=goal.question,
            )
            plans[goal.benchmark].append(plan)
    verdicts = run.effective_verdicts
    every = asked_questions(
        [plan for own in plans.values() for plan in own],
        verdicts,
        run.results,
        no_part=[goal.question for goal in goals if goal.question and not plans[goal.benchmark]],
    )
    # A benchmark that states no question is asked by its name.
    named = [replace(plan, question=name) for name, own in plans.items() for plan in own]
    answers = asked_questions(named, verdicts, run.results).of(QuestionState.ANSWERED)
    return every, frozenset(one.question for one in answers)


def _base(benchmark: str) -> str:
    return benchmark.partition("[")[0]


def _case(benchmark: str) -> str:
    return benchmark.partition("[")[2].removesuffix("]")


def _places(run: RunRecord) -> dict[tuple[str, str], None]:
    """Return benchmark and device of each test that a run planned or measured, in order."""
    planned = [plan.place for plan in run.planned]
    return dict.fromkeys([*planned, *((m.benchmark, m.device) for m in run.measurements)])


def _known(run: RunRecord) -> set[str]:
    return {_base(benchmark) for benchmark, _ in _places(run)}


def _unmeasured(goal: BenchmarkGoal, reason: str = "not measured yet") -> list[MetricAnswer]:
    return [MetricAnswer(metric=name, reason=reason) for name in goal.metrics or ("",)]


def _rows(goal: BenchmarkGoal, run: RunRecord) -> list[MetricAnswer]:
    """Return a benchmark's metrics in a run: those recorded, then those declared but not recorded."""
    places = [place for place in _places(run) if _base(place[0]) == goal.benchmark]
    effective = [v for v in run.effective_verdicts if _base(v.benchmark) == goal.benchmark]
    if not places:
        reason = effective[0].text if effective else f"no part of run {run.run}"
        return _unmeasured(goal, reason)
    rows = []
    for benchmark, device in places:
        there = [m for m in run.measurements if (m.benchmark, m.device) == (benchmark, device)]
        verdicts = [v for v in effective if (v.benchmark, v.device) == (benchmark, device)]
        for m in there:
            row = MetricAnswer(
                metric=m.metric.name,
                case=_case(benchmark),
                device=device,
                unit=m.metric.unit,
                better=m.metric.better,
                declared=not goal.metrics or m.metric.name in goal.metrics,
            )
            rows.append(_judged(row, verdicts))
        recorded = {m.metric.name for m in there}
        outcome, why = _why_nothing(run, benchmark, device, verdicts, named=bool(goal.metrics))
        for name in [n for n in goal.metrics if n not in recorded] or ([] if recorded else [""]):
            row = MetricAnswer(metric=name, case=_case(benchmark), device=device)
            known = any(v.metric == name for v in verdicts) and name
            rows.append(
                _judged(row, verdicts) if known else replace(row, outcome=outcome, reason=why)
            )
    return rows


def _judged(row: MetricAnswer, verdicts: Sequence[MetricVerdict]) -> MetricAnswer:
    of_metric = [v for v in reversed(verdicts) if v.metric == row.metric]
    bad = [v for v in of_metric if v.outcome is Outcome.FAIL]
    near = [v for v in of_metric if v.compared_only]
    verdict = next(iter((*bad, *(v for v in of_metric if not v.compared_only), *near)), None)
    if verdict is None:
        return replace(row, outcome=NOT_JUDGED, reason="not judged in this run")
    outcome = verdict.outcome.value
    if near and (verdict in near or verdict.reason in (Reason.NO_CRITERION, Reason.NO_BASELINE)):
        seen = min(near, key=lambda v: v.severity)
        why = f"{COMPARED_ONLY} ({seen.population or 'its nominal rate'})"
        if seen.outcome is Outcome.MARGINAL:
            why = f"{seen.text}; {why}"
        return replace(row, outcome=seen.counted_as, value=seen.value, reason=why, norm=False)
    if verdict.reason in (Reason.NO_CRITERION, Reason.NO_BASELINE):
        return replace(row, outcome=NOT_JUDGED, value=verdict.value, reason=verdict.text)
    reason = "" if outcome in ANSWERS else verdict.text
    return replace(row, outcome=outcome, value=verdict.value, reason=reason)


def _why_nothing(
    run: RunRecord, benchmark: str, device: str, verdicts: Sequence[MetricVerdict], *, named: bool
) -> tuple[str, str]:
    """Return outcome and reason of a metric without values in a run; `named`: a mark declares it."""
    whole = next((v for v in reversed(verdicts) if not v.metric), None)
    if whole is not None:
        return whole.outcome.value, whole.text
    tests = {p.test for p in run.planned if p.place == (benchmark, device)}
    result = next((r for r in run.results if r.test in tests), TestResult(test="", benchmark=""))
    said = f" ({result.text})" if result.text else ""
    what = f"{result.outcome}{said}"
    if result.outcome == "passed":
        what = "declared, but not recorded" if named else "it passed and recorded no metric"
    return Outcome.NOT_TESTED.value, what


def _completed(goal: BenchmarkGoal, rows: list[MetricAnswer], run: RunRecord) -> list[MetricAnswer]:
    """Return rows with an earlier run's conclusions where they are open, and those on undeclared metrics."""
    if goal.benchmark not in _known(run):
        return rows
    earlier = _rows(goal, run)
    known = {row.metric for row in rows}
    undeclared = {row.metric for row in earlier if not row.declared and "" not in known} - known
    added = (
        MetricAnswer(metric=name, declared=False, reason="not recorded in this run")
        for name in sorted(undeclared)
    )
    return [
        *(after for row in rows for after in _with_earlier(row, earlier, run)),
        *(after for row in added for after in _with_earlier(row, earlier, run) if after.before),
    ]


def _with_earlier(
    row: MetricAnswer, earlier: Sequence[MetricAnswer], run: RunRecord
) -> list[MetricAnswer]:
    """Return an open row with the conclusions of an earlier run; an answered row as it is."""
    if row.answers or row.before:
        return [row]
    then = [
        replace(
            row,
            metric=old.metric,
            case=old.case,
            device=old.device,
            unit=old.unit,
            better=old.better,
            before=old.outcome,
            before_value=old.value,
            before_date=run.started[:10],
            before_run=run.run,
        )
        for old in earlier
        if old.answers
        and row.metric in ("", old.metric)
        and row.device in ("", old.device)
        and row.case in ("", old.case)
    ]
    return then or [row]


def _cell(text: str) -> str:
    """Return text escaped for one Markdown cell or heading."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
