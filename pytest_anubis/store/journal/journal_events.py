"""Journal events: how core values look as one JSON object each, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pytest_anubis.core.baseline import Finding
from pytest_anubis.core.measurement import Measurement, TestResult
from pytest_anubis.core.metric import DIRECTIONS, Metric
from pytest_anubis.core.run import PlannedTest, Purpose
from pytest_anubis.core.verdict import (
    Decision,
    MetricVerdict,
    NodeVerdict,
    Outcome,
    Reason,
    Reference,
)
from pytest_anubis.store.fields import Fields, number_to_json

FORMAT = "anubis-journal"
SCHEMA = 1

Event = dict[str, Any]


class JournalError(ValueError):
    """A journal, or one event of it, cannot be used; the message is one line for people."""


def run_started_event(
    *,
    run: str,
    node: str,
    started: str,
    hardware_class: str = "",
    attributes: Mapping[str, str] | None = None,
    profile: str = "",
    purpose: Purpose = "measure",
    inventory: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Event:
    """Return the event that must stand first in every journal.

    Args:
        run: Id of the run.
        node: Name of the node.
        started: ISO 8601, UTC.
        hardware_class: Key of the node's class.
        attributes: What the key was made of.
        profile: ``smoke``, ``standard`` or ``soak``.
        purpose: ``measure``, ``learn`` or ``acceptance``.
        inventory: Plain data.
        settings: Plain data.
    """
    return {
        "event": "run_started",
        "format": FORMAT,
        "schema": SCHEMA,
        "run": run,
        "node": node,
        "started": started,
        "hardware_class": hardware_class,
        "attributes": dict(attributes or {}),
        "profile": profile,
        "purpose": purpose,
        "inventory": dict(inventory or {}),
        "settings": dict(settings or {}),
    }


def planned_event(tests: Sequence[PlannedTest]) -> Event:
    """Return the event that lists what the run means to execute; several add up."""
    return {"event": "planned", "tests": [_planned_to_plain(test) for test in tests]}


def started_event(test: str) -> Event:
    """Return the event that a test has begun: after a crash it names the one in flight."""
    return {"event": "test_started", "test": test}


def measurement_event(measurement: Measurement, node: str = "") -> Event:
    """Return the event that holds one measurement completely.

    NaN and the infinities become the strings ``"NaN"``, ``"Infinity"`` and ``"-Infinity"``, since JSON
    has no such numbers.
    """
    metric = measurement.metric
    event: Event = {
        "event": "measurement",
        "test": measurement.test,
        "benchmark": measurement.benchmark,
        "component": measurement.component,
        "device": measurement.device,
        "metric": metric_to_plain(metric),
        "values": [number_to_json(float(value)) for value in measurement.values],
        "seconds": measurement.seconds,
    }
    if node:
        event["node"] = node
    if measurement.group:
        event["group"] = measurement.group
    if measurement.disturbance:
        event["disturbance"] = list(measurement.disturbance)
    if measurement.evidence:
        event["evidence"] = list(measurement.evidence)
    if measurement.attempts != 1:
        event["attempts"] = measurement.attempts
    if measurement.looks != 1:
        event["looks"] = measurement.looks
    if measurement.telemetry:
        event["telemetry"] = [
            {"name": name, "values": [number_to_json(float(value)) for value in values]}
            for name, values in measurement.telemetry
        ]
    return event


def measurement_from_event(event: Mapping[str, Any]) -> Measurement:
    """Return the measurement of one ``measurement`` event.

    Raises:
        JournalError: A field is missing or of another type, or the metric is not valid.
    """
    fields = Fields(event, "", JournalError)
    return Measurement(
        test=fields.text("test"),
        benchmark=fields.text("benchmark"),
        component=fields.text("component", ""),
        metric=metric_from_plain(fields.child("metric")),
        device=fields.text("device"),
        group=fields.text("group", ""),
        values=fields.any_numbers("values"),
        disturbance=fields.texts("disturbance"),
        evidence=fields.texts("evidence"),
        attempts=fields.integer("attempts", 1),
        looks=fields.integer("looks", 1),
        telemetry=tuple(
            (series.text("name"), series.any_numbers("values"))
            for series in fields.children("telemetry")
        ),
        seconds=fields.number("seconds", 0.0, least=0.0),
    )


def finished_event(result: TestResult) -> Event:
    """Return the event that says how a test ended."""
    return {
        "event": "test_finished",
        "test": result.test,
        "benchmark": result.benchmark,
        "component": result.component,
        "outcome": result.outcome,
        "text": result.text,
        "seconds": result.seconds,
        "metrics": result.metrics,
    }


def result_from_event(event: Mapping[str, Any]) -> TestResult:
    """Return the result of one ``test_finished`` event; raises JournalError."""
    fields = Fields(event, "", JournalError)
    return TestResult(
        test=fields.text("test"),
        benchmark=fields.text("benchmark", ""),
        component=fields.text("component", ""),
        outcome=fields.text("outcome"),
        text=fields.text("text", ""),
        seconds=fields.number("seconds", 0.0, least=0.0),
        metrics=fields.integer("metrics", 0),
    )


_VERDICT_TEXTS = (
    "text", "benchmark", "metric", "unit", "better", "component", "node", "device", "group",
    "scope", "baseline", "population", "action",
)  # fmt: skip
_VERDICT_NUMBERS = {  # attribute -> stored name
    "value": "value", "expected": "expected", "limit": "bound", "similarity": "similarity",
    "threshold": "threshold", "practical": "practical", "learned": "learned",
    "percentile": "percentile",
}  # fmt: skip


def verdict_event(verdict: MetricVerdict) -> Event:
    """Return the event of one metric verdict; what is empty is left out."""
    event: Event = {
        "event": "verdict",
        "outcome": verdict.outcome.value,
        "reason": verdict.reason.value,
        "reference": verdict.reference.value,
        "count": verdict.count,
    }
    for name in _VERDICT_TEXTS:
        if text := getattr(verdict, name):
            event[name] = text
    for name, stored in _VERDICT_NUMBERS.items():
        number = getattr(verdict, name)
        if number is not None:
            event[stored] = number_to_json(float(number))
    if verdict.disturbance:
        event["disturbance"] = list(verdict.disturbance)
    if verdict.evidence:
        event["evidence"] = list(verdict.evidence)
    return event


def verdict_from_event(event: Mapping[str, Any]) -> MetricVerdict:
    """Return the verdict of one ``verdict`` event; raises JournalError."""
    fields = Fields(event, "", JournalError)
    rest: dict[str, Any] = {name: fields.text(name, "") for name in _VERDICT_TEXTS}
    rest |= {name: _maybe_any(fields, stored) for name, stored in _VERDICT_NUMBERS.items()}
    return MetricVerdict(
        outcome=Outcome(fields.choice("outcome", tuple(Outcome))),
        reason=Reason(fields.choice("reason", tuple(Reason))),
        reference=Reference(fields.choice("reference", tuple(Reference), Reference.NONE.value)),
        count=fields.integer("count", 0),
        disturbance=fields.texts("disturbance"),
        evidence=fields.texts("evidence"),
        **rest,
    )


def node_verdict_event(verdict: NodeVerdict) -> Event:
    """Return the event of the decision about the node."""
    return {
        "event": "node_verdict",
        "node": verdict.node,
        "decision": verdict.decision.value,
        "headline": verdict.headline,
        "components": list(verdict.components),
        "blocking": list(verdict.blocking),
        "listed": list(verdict.listed),
        "counts": dict(verdict.counts),
        "baseline": verdict.baseline,
        "residual_risk": verdict.residual_risk,
    }


def node_verdict_from_event(event: Mapping[str, Any]) -> NodeVerdict:
    """Return the decision of one ``node_verdict`` event; raises JournalError."""
    fields = Fields(event, "", JournalError)
    counts = Fields(fields.mapping("counts"), "counts", JournalError)
    return NodeVerdict(
        node=fields.text("node"),
        decision=Decision(fields.choice("decision", tuple(Decision))),
        headline=fields.text("headline", ""),
        components=fields.texts("components"),
        blocking=fields.texts("blocking"),
        listed=fields.texts("listed"),
        counts=tuple((name, counts.integer(name)) for name in counts.data),
        baseline=fields.text("baseline", ""),
        residual_risk=fields.maybe_number("residual_risk", least=0.0, most=1.0),
    )


def finding_event(finding: Finding) -> Event:
    """Return the event of one finding."""
    return {
        "event": "finding",
        "kind": finding.kind,
        "text": finding.text,
        "benchmark": finding.benchmark,
        "metric": finding.metric,
    }


def finding_from_event(event: Mapping[str, Any]) -> Finding:
    """Return the finding of one ``finding`` event; raises JournalError."""
    fields = Fields(event, "", JournalError)
    return Finding(
        kind=fields.text("kind"),
        text=fields.text("text"),
        benchmark=fields.text("benchmark", ""),
        metric=fields.text("metric", ""),
    )


def run_finished_event(*, exit_status: int, ended: str) -> Event:
    """Return the last event of a run that came to its end; `ended` is ISO 8601, UTC."""
    return {"event": "run_finished", "exit_status": exit_status, "ended": ended}


def planned_from_event(event: Mapping[str, Any]) -> tuple[PlannedTest, ...]:
    """Return the tests of one ``planned`` event; raises JournalError."""
    fields = Fields(event, "", JournalError)
    return tuple(
        PlannedTest(
            test=test.text("test"),
            benchmark=test.text("benchmark", ""),
            component=test.text("component", ""),
            device=test.text("device", ""),
            metrics=test.texts("metrics"),
            cost=test.maybe_number("cost", least=0.0),
        )
        for test in fields.children("tests", needed=True)
    )


def metric_from_plain(fields: Fields) -> Metric:
    """Return a metric from its plain fields, with the place of what is wrong in the message."""
    try:
        return Metric(
            name=fields.text("name"),
            unit=fields.text("unit"),
            better=fields.choice("better", DIRECTIONS),  # type: ignore[arg-type]  # checked here
            goal=fields.text("goal", ""),
            question=fields.text("question", ""),
            action=fields.text("action", ""),
        )
    except fields.error:
        raise
    except ValueError as error:
        raise fields.error(f"{fields.place}: {error}") from error


def metric_to_plain(metric: Metric) -> dict[str, str]:
    """Return a metric as plain fields; what is empty is left out."""
    plain = {"name": metric.name, "unit": metric.unit, "better": metric.better}
    for name in ("goal", "question", "action"):
        if text := getattr(metric, name):
            plain[name] = text
    return plain


def _planned_to_plain(test: PlannedTest) -> Event:
    return {
        "test": test.test,
        "benchmark": test.benchmark,
        "component": test.component,
        "device": test.device,
        "metrics": list(test.metrics),
        "cost": test.cost,
    }


def _maybe_any(fields: Fields, name: str) -> float | None:
    value = fields.data.get(name)
    if value is None:
        return None
    one = Fields({"value": [value]}, fields.at(name), fields.error)
    return one.any_numbers("value")[0]
