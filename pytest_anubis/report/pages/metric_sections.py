"""Measurements with their verdicts as parts of a page: one table of all, one section for each."""

from __future__ import annotations

import html
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_anubis.core.baseline import Criterion
from pytest_anubis.core.measurement import Measurement
from pytest_anubis.core.shown_loss import place_of
from pytest_anubis.core.verdict import LEAST_SEVERE, MetricVerdict, Outcome, Reason, Severity
from pytest_anubis.report.pages import html_blocks as blocks
from pytest_anubis.report.text.numbers import (
    certainty_text,
    count_text,
    duration_text,
    lost_text,
    value_text,
)

ROWS = 2000
"""Rows of the table of all metrics; a node with more is read from its journal."""

LEAST_TOLD = 1e-3
"""Seconds of a measurement from which its time is reported: below, it is 0 ms, or was not taken."""

Key = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Case:
    """One measurement and what was concluded from it."""

    measurement: Measurement
    verdict: MetricVerdict | None

    @property
    def severity(self) -> Severity:
        """Sorts cases, the worst first; what was not judged comes last."""
        return LEAST_SEVERE if self.verdict is None else self.verdict.severity


def cases_of(measurements: Sequence[Measurement], verdicts: Sequence[MetricVerdict]) -> list[Case]:
    """Return measurements with their verdicts, the worst first, else in the order of the run.

    Of a test that was run again the last verdict belongs to the last measurement, and so on backwards.
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


def overview(cases: Sequence[Case], verdicts: Sequence[MetricVerdict], linked: int) -> str:
    """Return one row for every measurement and for every verdict without one.

    The first `linked` cases have a section to go to.
    """
    # By what they say: a run words its verdicts anew each time it is asked for them.
    judged = {case.verdict for case in cases}
    rows: list[tuple[Severity, str]] = []
    for index, case in enumerate(cases):
        link = f"#c{index}" if index < linked else ""
        rows.append((case.severity, _row(case, link)))
    told = {_key(case.verdict) for case in cases if case.verdict is not None}
    for verdict in verdicts:
        # What was compared otherwise for want of a criterion has its row already, which says so.
        bare = verdict.reason in (Reason.NO_CRITERION, Reason.NO_BASELINE) and _key(verdict) in told
        if verdict not in judged and not bare:
            rows.append((verdict.severity, _verdict_row(verdict)))
    rows.sort(key=lambda row: row[0])
    head = blocks.headings("verdict", "benchmark", "device", "metric")
    head += blocks.headings("value", "expected", "limit", "loss", "certainty", number=True)
    left = len(rows) - ROWS
    more = f"<p>and {left} more, none of them worse; the journal has all</p>" if left > 0 else ""
    return blocks.table(head, (row for _, row in rows[:ROWS]), kind="brief") + more


def _key(verdict: MetricVerdict) -> tuple[str, ...]:
    return verdict.benchmark, verdict.metric, verdict.device, verdict.group, verdict.scope


def _row(case: Case, link: str) -> str:
    measurement, verdict = case.measurement, case.verdict
    if verdict is not None:
        return _verdict_row(verdict, link)
    values = measurement.values
    middle = value_text(statistics.median(values) if values else None, measurement.metric.unit)
    name = blocks.linked(short(measurement.benchmark), link)
    return (
        f"<td>not judged</td><td>{name}</td>"
        + blocks.cells(measurement.device, measurement.metric.name)
        + blocks.numbers(middle, *"----")
    )


def _verdict_row(verdict: MetricVerdict, link: str = "") -> str:
    name = blocks.linked(short(verdict.benchmark), link)
    return (
        f"<td>{blocks.triaged_badge(verdict)}</td><td>{name}</td>"
        + blocks.cells(place_of(verdict), verdict.metric or "(none)")
        + blocks.numbers(
            value_text(verdict.value, verdict.unit),
            value_text(verdict.expected),
            value_text(verdict.limit),
            lost_text(verdict),
            certainty_text(verdict.certainty),
        )
    )


def short(benchmark: str) -> str:
    """Return a benchmark id without its folders: parameters may hold slashes, so only before them."""
    path, separator, rest = benchmark.partition("::")
    return path.rpartition("/")[2] + separator + rest


def section(case: Case, number: int, known: dict[blocks.CriterionKey, Criterion]) -> str:
    """Return the section of one measurement; one that passed is folded. Its anchor has its number."""
    measurement, verdict = case.measurement, case.verdict
    metric = measurement.metric
    word = blocks.triaged_badge(verdict) + " " if verdict else ""
    head = f"{short(measurement.benchmark)} · {metric.name} · {measurement.device}"
    title = f"{word}<h3>{html.escape(head)}</h3>"
    parts = [
        blocks.paragraph(_circumstances(measurement), "faint"),
        blocks.paragraph(metric.question),
    ]
    if verdict is not None:
        parts += [blocks.verdict_rows([verdict]), blocks.explanation(verdict)]
    else:
        said = "; ".join(measurement.disturbance)
        parts.append(f"<p>not judged{html.escape('; disturbed: ' + said if said else '')}</p>")
    parts.append(blocks.plots(measurement, blocks.criterion_of(measurement, known), verdict))
    parts.append(blocks.telemetry(measurement))
    inner = "".join(parts)
    if verdict is not None and verdict.outcome is Outcome.PASS:
        value = f"<span class='faint'> {html.escape(value_text(verdict.value, metric.unit))}</span>"
        return f"<details class='case' id='c{number}'><summary>{title}{value}</summary>{inner}</details>"
    return f"<section class='case' id='c{number}'>{title}{inner}</section>"


def _took(seconds: float) -> str:
    return f" in {duration_text(seconds)}" if seconds >= LEAST_TOLD else ""


def _circumstances(measurement: Measurement) -> str:
    metric, taken = measurement.metric, len(measurement.values) + measurement.unclear
    direction = "must be exact" if metric.better == "equal" else f"{metric.better} is better"
    facts = [
        measurement.benchmark,
        f"component {measurement.component}" if measurement.component else "",
        f"group {measurement.group}" if measurement.group else "",
        # Nobody timed what was imported, nor the recording of values that the test had measured.
        f"{count_text(len(measurement.values), 'value')}{_took(measurement.seconds)}",
        f"of {taken} that were taken, the others in moments that were not clear"
        if measurement.unclear
        else "",
        direction,
    ]
    return "; ".join(fact for fact in facts if fact)
