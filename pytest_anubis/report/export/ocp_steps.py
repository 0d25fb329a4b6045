"""The artifacts of one test as a step of OCP Test & Validation: series, measurements, diagnoses, errors.

`ocp_export` uses it.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from pytest_anubis.core.measurement import Measurement, TestResult
from pytest_anubis.core.onset import series_words
from pytest_anubis.core.run_state import NEVER_FINISHED
from pytest_anubis.core.verdict import MetricVerdict, Outcome, Reason
from pytest_anubis.report.export.ocp_hardware import TestedNode

Plain = dict[str, Any]

SIMILARITY = ".similarity"
"""Ending of the measurement that is a metric's similarity."""

VALUES = ".values"
"""Ending of the series of a metric's single values."""

VERDICT = "anubis.verdict"
"""Name of the extension with what the format has no field for."""

_VALIDATORS = {
    "higher": "GREATER_THAN_OR_EQUAL",
    "lower": "LESS_THAN_OR_EQUAL",
    "equal": "EQUAL",
}
"""Direction of a metric -> validator of its limit."""
_BROKEN = ("crashed", "error", "failed", "not reported")
"""Outcomes of tests that broke: without a verdict they say nothing about the hardware."""
_SKIPPED = ("skipped", "deselected")
_NO_SLUG = re.compile(r"[^a-z0-9]+")


@dataclass(slots=True)
class Step:
    """One test with everything that belongs to it, or a benchmark of which no test ran."""

    name: str
    result: TestResult | None = None
    measurements: list[Measurement] = field(default_factory=list)
    verdicts: list[MetricVerdict] = field(default_factory=list)

    @property
    def status(self) -> str:
        """COMPLETE, ERROR if it or its judgement broke, SKIP if nothing of it was tested."""
        if any(one.outcome is Outcome.INCONCLUSIVE for one in self.verdicts):
            return "ERROR"
        result = self.result
        if result is not None:
            begun = result.outcome == "not reported" and result.text == NEVER_FINISHED
            if begun or result.outcome == "crashed":
                return "ERROR"
            if not self.verdicts:
                broken = result.outcome in _BROKEN
                return "ERROR" if broken else "SKIP" if result.outcome in _SKIPPED else "COMPLETE"
        untested = [_is_untested(one) for one in self.verdicts]
        return "SKIP" if untested and all(untested) else "COMPLETE"


def step_artifacts(step: Step, number: str, node: TestedNode, stamp: str) -> Iterator[Plain]:
    """Yield the artifacts of a step in order; optional fields without a value are None.

    Args:
        step: The test.
        number: Id of the step.
        node: The node, for the ids of its parts.
        stamp: Time of the elements of its series, ISO 8601.
    """
    yield {"testStepStart": {"name": step.name or number}}
    ids = (f"{number}_{place}" for place in count())
    judged = {(one.metric, one.device, one.group) for one in step.verdicts if _has_value(one)}
    for one in step.measurements:
        part = _part(one.device, one.component, node)
        unit = one.metric.unit
        yield from _series(ids, f"{one.metric.name}{VALUES}", unit, one.values, part, stamp)
        for name, values in one.telemetry:
            part_of, quantity, unit_of = series_words(name)
            label = f"{part_of} {quantity}".strip()
            yield from _series(ids, label, unit_of or None, values, {}, stamp)
        finite = [value for value in one.values if math.isfinite(value)]
        if finite and (one.metric.name, one.device, one.group) not in judged:
            measured = {"name": one.metric.name, "value": statistics.median(finite), "unit": unit}
            group = {"metadata": {"group": one.group}} if one.group else {}
            yield {"measurement": {**measured, **part, **group}}
    for verdict in step.verdicts:
        yield from _verdict_artifacts(verdict, _part(verdict.device, verdict.component, node))
    status, result = step.status, step.result
    unsaid = not any(one.outcome is Outcome.INCONCLUSIVE for one in step.verdicts)
    if result is not None and status == "ERROR" and unsaid:
        yield error(slug(result.outcome), result.text or "nothing more is known")
    elif result is not None and status == "SKIP" and not step.verdicts:
        yield log("INFO", f"{result.outcome}: {result.text}")
    yield {"testStepEnd": {"status": status}}


def _series(
    ids: Iterator[str],
    name: str,
    unit: str | None,
    values: Sequence[float],
    part: Plain,
    stamp: str,
) -> Iterator[Plain]:
    """Yield a series of two values or more; a single one is a measurement."""
    finite = [value for value in values if math.isfinite(value)]
    if lost := len(values) - len(finite):
        yield error("value-not-finite", f"{lost} of {len(values)} values of {name} are no numbers")
    if len(finite) < 2:
        return
    of = {"measurementSeriesId": next(ids)}
    yield {"measurementSeriesStart": {"name": name, **of, "unit": unit, **part}}
    for index, value in enumerate(finite):
        element = {"index": index, "value": value, "timestamp": stamp, **of}
        yield {"measurementSeriesElement": element}
    yield {"measurementSeriesEnd": {**of, "totalCount": len(finite)}}


def _verdict_artifacts(verdict: MetricVerdict, part: Plain) -> Iterator[Plain]:
    """Yield what was measured and what follows: a diagnosis, an error, or a log line."""
    name = verdict.metric
    if _has_value(verdict):
        yield {
            "measurement": {
                "name": name,
                "value": verdict.value,
                "unit": verdict.unit or None,
                "validators": _limit(verdict),
                **part,
                "metadata": {"group": verdict.group or None, "expected": verdict.expected},
            }
        }
    elif name and verdict.value is not None:
        yield error("value-not-finite", f"the median of {name} is no number")
    if name and verdict.similarity is not None and math.isfinite(verdict.similarity):
        threshold = {"name": "threshold", "type": _VALIDATORS["higher"], "value": verdict.threshold}
        known = verdict.threshold is not None and math.isfinite(verdict.threshold)
        known = known and not _is_untested(verdict)
        yield {
            "measurement": {
                "name": f"{name}{SIMILARITY}",
                "value": verdict.similarity,
                "validators": [threshold] if known else None,
                **part,
                "metadata": {"group": verdict.group or None},
            }
        }
    yield from _conclusion(verdict, part)
    waiver = verdict.waiver
    content = {
        "@type": f"{VERDICT}/v1",
        "outcome": verdict.outcome.value,
        "reason": verdict.reason.value,
        "triage": verdict.triage.value or None,
        "benchmark": verdict.benchmark,
        "metric": name or None,
        "device": verdict.device or None,
        "group": verdict.group or None,
        "scope": verdict.scope,
        "loss": verdict.loss,
        "certainty": verdict.certainty,
        "retest": verdict.retest or None,
        "action": verdict.action or None,
        "reference": verdict.reference.value,
        "waived_by": waiver.owner if waiver is not None and not waiver.expired else None,
    }
    yield {"extension": {"name": VERDICT, "content": content}}


def _conclusion(verdict: MetricVerdict, part: Plain) -> Iterator[Plain]:
    """Yield what is concluded: a diagnosis speaks of hardware, an error of anything else."""
    text = verdict.text
    if verdict.outcome is Outcome.INCONCLUSIVE:
        yield error(slug(verdict.reason.value), text)
        return
    if _is_untested(verdict):
        yield log("INFO", f"NOT_TESTED, {verdict.reason.value}: {text}")
        return
    kind = {Outcome.PASS: "PASS", Outcome.FAIL: "FAIL"}.get(verdict.outcome, "UNKNOWN")
    if kind == "PASS" and verdict.compared_only:  # no baseline says that it is good
        kind = "UNKNOWN"
    if verdict.outcome in (Outcome.MARGINAL, Outcome.NOT_TESTED):
        yield log("WARNING", text)
    what = f"{verdict.component} {verdict.metric} {verdict.reason.value}"
    yield {"diagnosis": {"verdict": slug(what), "type": kind, "message": text, **part}}


def _limit(verdict: MetricVerdict) -> list[Plain] | None:
    """Return the criterion's limit as a validator of the median, in the metric's unit."""
    limit, kind = verdict.limit, _VALIDATORS.get(verdict.better)
    if limit is None or kind is None or not math.isfinite(limit) or _is_untested(verdict):
        return None
    more = {
        "reference": verdict.reference.value,
        "baseline": verdict.baseline or None,
        "population": verdict.population or None,
    }
    return [{"name": "limit", "type": kind, "value": limit, "metadata": more}]


def _is_untested(verdict: MetricVerdict) -> bool:
    """Return whether nothing follows from a verdict; a waived failure was tested, and has its limits."""
    return verdict.outcome is Outcome.NOT_TESTED and verdict.reason is not Reason.WAIVED


def _has_value(verdict: MetricVerdict) -> bool:
    return bool(verdict.metric) and verdict.value is not None and math.isfinite(verdict.value)


def _part(device: str, component: str, node: TestedNode) -> Plain:
    """Return the part that a measurement is of: its hardware, and the component that is exercised."""
    known = node.parts.get(device)
    hardware = {"hardwareInfoId": known} if known else {}
    return {**hardware, **({"subcomponent": {"name": component}} if component else {})}


def error(symptom: str, message: str) -> Plain:
    """Return an error, which says nothing about the hardware."""
    return {"error": {"symptom": symptom, "message": message or None}}


def log(severity: str, message: str) -> Plain:
    """Return a line of the log."""
    return {"log": {"severity": severity, "message": message}}


def slug(text: str) -> str:
    """Return words as a stable id: ``accelerator-memory-rate-beyond``."""
    return _NO_SLUG.sub("-", text.lower()).strip("-") or "unnamed"
