"""The dossier's parts on measurements and their verdicts: a table of all, a section with plots for each."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from pytest_anubis.core.baseline import Criterion
from pytest_anubis.core.measurement import Measurement
from pytest_anubis.core.shown_loss import place_of
from pytest_anubis.core.verdict import LEAST_SEVERE, MetricVerdict, Outcome, Reason, Severity
from pytest_anubis.report.pages import html_blocks as blocks
from pytest_anubis.report.pages.rendering import block, fragment
from pytest_anubis.report.text.numbers import (
    certainty_text,
    count_text,
    duration_text,
    lost_text,
    value_text,
)

MAX_ROWS = 2000
"""Rows of the table of all metrics; a node with more is read from its journal."""

MIN_SECONDS = 1e-3
"""Shortest duration that is shown: imported values are not timed."""

_HEADS = (
    "verdict", "benchmark", "device", "metric", "value", "expected", "limit", "loss", "certainty",
)  # fmt: skip

Key = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Case:
    """One measurement with its verdict, None where it was not judged."""

    measurement: Measurement
    verdict: MetricVerdict | None

    @property
    def severity(self) -> Severity:
        """Sorts cases, the worst first; what was not judged comes last."""
        return LEAST_SEVERE if self.verdict is None else self.verdict.severity


def cases_of(measurements: Sequence[Measurement], verdicts: Sequence[MetricVerdict]) -> list[Case]:
    """Return measurements with their verdicts, the worst first, else in the order of the run.

    Of a repeated test, the last verdict belongs to the last measurement, the one before to the one before.
    """
    waiting: dict[Key, list[MetricVerdict]] = {}
    for verdict in verdicts:
        if verdict.scope == "unit":
            key = (verdict.benchmark, verdict.metric, verdict.device)
            waiting.setdefault(key, []).append(verdict)
    cases = []
    for measurement in reversed(measurements):
        key = (measurement.benchmark, measurement.metric.name, measurement.device)
        own = waiting.get(key)
        cases.append(Case(measurement, own.pop() if own else None))
    cases.reverse()
    return sorted(cases, key=lambda case: case.severity)


def overview(cases: Sequence[Case], verdicts: Sequence[MetricVerdict], linked: int) -> Markup:
    """Return a table with a row for every measurement and for every verdict without one.

    The rows of the first `linked` cases lead to the sections of the cases.
    """
    rows = [
        (case.severity, _row(case, f"#c{index}" if index < linked else ""))
        for index, case in enumerate(cases)
    ]
    # Verdicts are compared by their values, as a run words them anew each time.
    judged = {case.verdict for case in cases}
    keys = {_key(case.verdict) for case in cases if case.verdict is not None}
    for verdict in verdicts:
        # A metric that was compared otherwise, as it has no criterion, has a row that says so.
        bare = verdict.reason in (Reason.NO_CRITERION, Reason.NO_BASELINE) and _key(verdict) in keys
        if verdict not in judged and not bare:
            rows.append((verdict.severity, _verdict_row(verdict)))
    rows.sort(key=lambda row: row[0])
    shown = [row for _, row in rows[:MAX_ROWS]]
    left = len(rows) - MAX_ROWS
    table = block("table", _HEADS, shown, numbers=range(4, len(_HEADS)), kind="brief")
    if left <= 0:
        return table
    return table + block("paragraph", f"and {left} more, none of them worse; the journal has all")


def _key(verdict: MetricVerdict) -> tuple[str, ...]:
    return verdict.benchmark, verdict.metric, verdict.device, verdict.group, verdict.scope


def _row(case: Case, link: str) -> tuple[str, ...]:
    measurement = case.measurement
    verdict = case.verdict
    if verdict is not None:
        return _verdict_row(verdict, link)
    values = measurement.values
    middle = value_text(statistics.median(values) if values else None, measurement.metric.unit)
    name = block("link", short(measurement.benchmark), link)
    return "not judged", name, measurement.device, measurement.metric.name, middle, *"----"


def _verdict_row(verdict: MetricVerdict, link: str = "") -> tuple[str, ...]:
    return (
        block("triaged_badge", verdict),
        block("link", short(verdict.benchmark), link),
        place_of(verdict),
        verdict.metric or "(none)",
        value_text(verdict.value, verdict.unit),
        value_text(verdict.expected),
        value_text(verdict.limit),
        lost_text(verdict),
        certainty_text(verdict.certainty),
    )


def short(benchmark: str) -> str:
    """Return a benchmark id without its folders; slashes of parameters stay."""
    path, separator, rest = benchmark.partition("::")
    return path.rpartition("/")[2] + separator + rest


def section(case: Case, number: int, known: dict[blocks.CriterionKey, Criterion]) -> Markup:
    """Return the section of one measurement, folded where it passed; `number` is that of its anchor."""
    measurement = case.measurement
    verdict = case.verdict
    metric = measurement.metric
    passed = verdict is not None and verdict.outcome is Outcome.PASS
    return fragment(
        "measurement.html",
        number=number,
        verdict=verdict,
        title=f"{short(measurement.benchmark)} · {metric.name} · {measurement.device}",
        value=value_text(verdict.value, metric.unit) if verdict and passed else "",
        passed=passed,
        circumstances=_circumstances(measurement),
        question=metric.question,
        disturbed="; ".join(measurement.disturbance),
        verdict_rows=blocks.verdict_rows([verdict]) if verdict else "",
        explanation=blocks.explanation(verdict) if verdict else "",
        plots=blocks.plots(measurement, blocks.criterion_of(measurement, known), verdict),
        telemetry=blocks.telemetry(measurement),
    )


def _circumstances(measurement: Measurement) -> str:
    metric = measurement.metric
    taken = len(measurement.values) + measurement.unclear
    seconds = measurement.seconds
    facts = [
        measurement.benchmark,
        f"component {measurement.component}" if measurement.component else "",
        f"group {measurement.group}" if measurement.group else "",
        count_text(len(measurement.values), "value")
        + (f" in {duration_text(seconds)}" if seconds >= MIN_SECONDS else ""),
        f"of {taken} that were taken, the others in moments that were not clear"
        if measurement.unclear
        else "",
        "must be exact" if metric.better == "equal" else f"{metric.better} is better",
    ]
    return "; ".join(filter(None, facts))
