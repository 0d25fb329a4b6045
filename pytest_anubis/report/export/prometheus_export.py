"""A node's verdict in Prometheus' text format, for the textfile collector of the node_exporter.

Format: https://prometheus.io/docs/instrumenting/exposition_formats/ (text-based, version 0.0.4). The
collector refuses a whole file when two samples have the same name and labels, so they are made unique.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from unicodedata import category

from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.verdict import (
    NOT_JUDGED,
    Decision,
    MetricVerdict,
    NodeVerdict,
    Outcome,
    Triage,
)

_NOT_TEXT = ("Cc", "Cs")
"""Unicode's categories of controls and of halves of surrogate pairs."""

Labels = tuple[tuple[str, str], ...]


def prometheus_text(
    node_verdict: NodeVerdict | None,
    verdicts: Sequence[MetricVerdict],
    run: RunRecord | None = None,
) -> str:
    """Return the verdicts as gauges; write them atomically to ``anubis.prom`` in the collector's folder.

    An alert on acceptance asks for ``anubis_node_decision{decision="ACCEPTED"} != 1``, one on parts for
    ``anubis_metric_outcome{outcome="FAIL"} == 1``, one on verdicts that nobody renews for
    ``time() - anubis_run_end_time_seconds > 7 * 86400``.

    Args:
        node_verdict: The decision; None when the run reached none, then only metrics are told.
        verdicts: All metric verdicts; of several on the same metric of the same unit the last counts.
        run: The run that they are of; None leaves out its times, class and name.
    """
    families = [
        *(_run(run) if run is not None else ()),
        *(_node(node_verdict) if node_verdict is not None else ()),
        *_metrics(verdicts),
    ]
    return "".join(_family(name, words, samples) for name, words, samples in families if samples)


Family = tuple[str, str, dict[Labels, float]]


def _run(run: RunRecord) -> list[Family]:
    node: Labels = (("node", run.node),)
    started, ended = _seconds(run.started), _seconds(run.ended)
    info: Labels = (
        *node,
        ("run", run.run),
        ("class", run.hardware_class),
        ("profile", run.profile),
    )
    took: dict[Labels, float] = {} if started is None or ended is None else {node: ended - started}
    return [
        (
            "anubis_run_info",
            "The run that the verdicts are of, and the node's hardware class.",
            {info: 1.0},
        ),
        (
            "anubis_run_start_time_seconds",
            "When the run began, in seconds since 1970.",
            {} if started is None else {node: started},
        ),
        (
            "anubis_run_end_time_seconds",
            "When the run came to its end, in seconds since 1970; missing if it never did.",
            {} if ended is None else {node: ended},
        ),
        ("anubis_run_duration_seconds", "How long the run took.", took),
    ]


def _seconds(moment: str) -> float | None:
    """Return an ISO 8601 time of a journal as seconds since 1970; None where there is none."""
    try:
        return dt.datetime.fromisoformat(moment).timestamp()
    except (ValueError, OverflowError, OSError):
        return None


def _node(verdict: NodeVerdict) -> list[Family]:
    node = ("node", verdict.node)
    decisions: dict[Labels, float] = {
        (node, ("decision", decision.value)): float(verdict.decision is decision)
        for decision in Decision
    }
    counted = dict(verdict.counts)
    counts: dict[Labels, float] = {
        (node, ("outcome", name)): float(counted.get(name, 0))
        for name in (*(outcome.value for outcome in Outcome), NOT_JUDGED)
    }
    blamed: dict[Labels, float] = {
        (node, ("component", component)): 1.0 for component in verdict.components
    }
    info: dict[Labels, float] = {(node, ("baseline", verdict.baseline)): 1.0}
    risk, ends = verdict.residual_risk, verdict.residual_interval
    return [
        ("anubis_node_decision", "1 for what was decided about the node, else 0.", decisions),
        ("anubis_node_verdicts", "How many metric verdicts had each outcome.", counts),
        ("anubis_node_blamed", "Components with at least one failed metric.", blamed),
        (
            "anubis_node_blocking",
            "Blockers: what prevents acceptance.",
            {(node,): float(len(verdict.blocking))},
        ),
        (
            "anubis_node_listed",
            "What was not judged and does not block.",
            {(node,): float(len(verdict.listed))},
        ),
        (
            "anubis_node_residual_risk",
            "Probability of an incident that benchmarks left out leave.",
            {} if risk is None else {(node,): risk},
        ),
        (
            "anubis_node_residual_risk_low",
            "Lower end of the 95 % interval of the residual risk.",
            {} if ends is None else {(node,): ends[0]},
        ),
        (
            "anubis_node_residual_risk_high",
            "Upper end of the 95 % interval of the residual risk.",
            {} if ends is None else {(node,): ends[1]},
        ),
        (
            "anubis_node_triage",
            "1 for what to do first: reject (sure), retest or investigate.",
            {
                (node, ("triage", triage.value)): float(verdict.triage is triage)
                for triage in Triage
                if triage
            },
        ),
        ("anubis_node_baseline_info", "The baseline that decided.", info),
    ]


def _metrics(verdicts: Sequence[MetricVerdict]) -> list[Family]:
    last = {_labels(verdict): verdict for verdict in verdicts}
    outcome: dict[Labels, float] = {
        (*labels, ("outcome", v.outcome.value), ("reason", v.reason.value)): 1.0
        for labels, v in last.items()
    }
    value: dict[Labels, float] = {
        (*labels, ("unit", v.unit)): v.value for labels, v in last.items() if v.value is not None
    }
    expected: dict[Labels, float] = {
        (*labels, ("unit", v.unit)): v.expected
        for labels, v in last.items()
        if v.expected is not None
    }
    waived: dict[Labels, float] = {
        (*labels, ("owner", v.waiver.owner), ("expires", v.waiver.expires)): float(
            not v.waiver.expired
        )
        for labels, v in last.items()
        if v.waiver is not None
    }
    return [
        (
            "anubis_metric_waived",
            "1 for a failure that somebody answers for, 0 once the waiver has expired.",
            waived,
        ),
        ("anubis_metric_outcome", "1 for the outcome that the metric has.", outcome),
        ("anubis_metric_value", "Median of the measured values, in the unit of the label.", value),
        ("anubis_metric_expected", "Median of what healthy units deliver.", expected),
        (
            "anubis_metric_similarity",
            "One-sided similarity to the criterion, 1 is normal or better.",
            {k: v.similarity for k, v in last.items() if v.similarity is not None},
        ),
        (
            "anubis_metric_loss",
            "Loss relative to what is normal: 0.12 is 12 % slower, longer or lower.",
            {k: v.loss for k, v in last.items() if v.loss is not None},
        ),
        (
            "anubis_metric_certainty",
            "Probability that the loss is beyond the limit that rejects.",
            {k: v.certainty for k, v in last.items() if v.certainty is not None},
        ),
        (
            "anubis_metric_triage",
            "1 for what to do about it: reject (sure), retest or investigate.",
            {(*k, ("triage", v.triage.value)): 1.0 for k, v in last.items() if v.triage},
        ),
        (
            "anubis_metric_threshold",
            "Similarity below which the verdict changes.",
            {k: v.threshold for k, v in last.items() if v.threshold is not None},
        ),
    ]


def _labels(verdict: MetricVerdict) -> Labels:
    return (
        ("node", verdict.node),
        ("device", verdict.device),
        ("component", verdict.component),
        ("benchmark", verdict.benchmark),
        ("metric", verdict.metric),
        ("scope", verdict.scope),
    )


def _family(name: str, words: str, samples: dict[Labels, float]) -> str:
    lines = [f"# HELP {name} {words}", f"# TYPE {name} gauge"]
    # By what is written: two names that differ in what cannot be written are one, the last counts.
    written = {
        ",".join(f'{label}="{_escaped(text)}"' for label, text in labels): value
        for labels, value in samples.items()
    }
    lines += [f"{name}{{{said}}} {_number(value)}" for said, value in written.items()]
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    # The format knows three escapes; what else controls a terminal, or is no Unicode, has none.
    clean = "".join(c if c == "\n" or category(c) not in _NOT_TEXT else "\ufffd" for c in text)
    return clean.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return repr(float(value))
