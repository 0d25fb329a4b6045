"""A node's decision and verdicts as Prometheus gauges, a file for the node_exporter's textfile collector.

`anubis report --prometheus` writes it, in the text-based format, version 0.0.4:
https://prometheus.io/docs/instrumenting/exposition_formats/. The collector refuses a whole file when two
samples have the same name and labels, so they are made unique.
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
    word_of,
)
from pytest_anubis.report.text.node_row import WORDS

_NOT_TEXT = ("Cc", "Cs")
"""Unicode's categories of controls and of halves of surrogate pairs."""

Labels = tuple[tuple[str, str], ...]


def prometheus_text(run: RunRecord) -> str:
    """Return a run as gauges; write them atomically to ``anubis.prom`` in the collector's folder.

    Conditions for alerts are ``anubis_node_decision{decision="ACCEPTED"} != 1`` for nodes,
    ``anubis_metric_outcome{outcome="FAIL"} == 1`` for components, and
    ``time() - anubis_run_end_time_seconds > 7 * 86400`` for verdicts that are a week old. Of several verdicts
    on the same metric of the same unit the last counts.
    """
    verdicts = run.effective_verdicts
    families = _run(run)
    if run.node_verdict is not None:
        families |= _node(run.node_verdict, verdicts)
    families |= _metrics(verdicts)
    return "".join(_family(name, samples) for name, samples in families.items())


Samples = dict[Labels, float | None]
"""Labels of a sample -> its value; None leaves it out."""

_HELP = {
    "run_info": "The run that the verdicts are of, and the node's hardware class.",
    "run_start_time_seconds": "When the run began, in seconds since 1970.",
    "run_end_time_seconds": "When the run came to its end, in seconds since 1970; missing if it never did.",
    "run_duration_seconds": "How long the run took.",
    "node_decision": "1 for what was decided about the node, else 0.",
    "node_verdicts": "How many metric verdicts had each outcome.",
    "node_blamed": "Components with at least one failed metric.",
    "node_blocking": "Blockers: what prevents acceptance.",
    "node_listed": "What was not judged and does not block.",
    "node_residual_risk": "Probability of an incident that benchmarks left out leave.",
    "node_residual_risk_low": "Lower end of the 95 % interval of the residual risk.",
    "node_residual_risk_high": "Upper end of the 95 % interval of the residual risk.",
    "node_word": "1 for what the node is called in all reports.",
    "node_baseline_info": "The baseline that decided.",
    "metric_waived": "1 for a failure that somebody answers for, 0 once the waiver has expired.",
    "metric_outcome": "1 for the outcome that the metric has.",
    "metric_value": "Median of the measured values, in the unit of the label.",
    "metric_expected": "Median of what healthy units deliver.",
    "metric_similarity": "One-sided similarity to the criterion, 1 is as expected or better.",
    "metric_loss": "Relative loss against the expected distribution: 0.12 means 12 % worse.",
    "metric_certainty": "Probability that the loss is beyond the limit that rejects.",
    "metric_triage": "1 for what to do about it: reject (sure), retest or investigate.",
    "metric_threshold": "Similarity below which the verdict changes.",
}


def _run(run: RunRecord) -> dict[str, Samples]:
    """Return the run's samples by the name of their family, without ``anubis_``."""
    node: Labels = (("node", run.node),)
    started, ended = _seconds(run.started), _seconds(run.ended)
    took = None if started is None or ended is None else ended - started
    what = (("run", run.run), ("class", run.hardware_class), ("profile", run.profile))
    return {
        "run_info": {(*node, *what): 1},
        "run_start_time_seconds": {node: started},
        "run_end_time_seconds": {node: ended},
        "run_duration_seconds": {node: took},
    }


def _seconds(moment: str) -> float | None:
    """Return an ISO 8601 time of a journal as seconds since 1970; None if it is no time."""
    try:
        return dt.datetime.fromisoformat(moment).timestamp()
    except (ValueError, OverflowError, OSError):
        return None


def _node(verdict: NodeVerdict, metrics: Sequence[MetricVerdict]) -> dict[str, Samples]:
    node = ("node", verdict.node)
    counted = dict(verdict.counts)
    outcomes = (*(outcome.value for outcome in Outcome), NOT_JUDGED)
    low, high = verdict.residual_interval or (None, None)
    called = word_of(verdict, metrics)
    return {
        "node_decision": {
            (node, ("decision", one.value)): verdict.decision is one for one in Decision
        },
        "node_verdicts": {(node, ("outcome", name)): counted.get(name, 0) for name in outcomes},
        "node_blamed": {(node, ("component", name)): 1 for name in verdict.components},
        "node_blocking": {(node,): len(verdict.blocking)},
        "node_listed": {(node,): len(verdict.listed)},
        "node_residual_risk": {(node,): verdict.residual_risk},
        "node_residual_risk_low": {(node,): low},
        "node_residual_risk_high": {(node,): high},
        "node_word": {(node, ("word", word)): word == called for word in WORDS},
        "node_baseline_info": {(node, ("baseline", verdict.baseline)): 1},
    }


def _metrics(verdicts: Sequence[MetricVerdict]) -> dict[str, Samples]:
    names = ("waived", "outcome", "value", "expected", "similarity", "loss", "certainty", "triage")
    found: dict[str, Samples] = {name: {} for name in (*names, "threshold")}
    for labels, v in {_labels(verdict): verdict for verdict in verdicts}.items():
        outcome = (("outcome", v.outcome.value), ("reason", v.reason.value))
        found["outcome"][*labels, *outcome] = 1
        for name in ("value", "expected"):
            found[name][*labels, ("unit", v.unit)] = getattr(v, name)
        for name in ("similarity", "loss", "certainty", "threshold"):
            found[name][labels] = getattr(v, name)
        if v.triage:
            found["triage"][*labels, ("triage", v.triage.value)] = 1
        if v.waiver is not None:
            waiver = (("owner", v.waiver.owner), ("expires", v.waiver.expires))
            found["waived"][*labels, *waiver] = not v.waiver.expired
    return {f"metric_{name}": samples for name, samples in found.items()}


def _labels(verdict: MetricVerdict) -> Labels:
    return (
        ("node", verdict.node),
        ("device", verdict.device),
        ("component", verdict.component),
        ("benchmark", verdict.benchmark),
        ("metric", verdict.metric),
        ("scope", verdict.scope),
    )


def _family(family: str, samples: Samples) -> str:
    """Return the lines of a family; empty without any sample."""
    name = f"anubis_{family}"
    # Labels that become equal by escaping would be refused as duplicates; the last counts.
    written = {
        ",".join(f'{label}="{_escaped(text)}"' for label, text in labels): value
        for labels, value in samples.items()
        if value is not None
    }
    if not written:
        return ""
    lines = [f"# HELP {name} {_HELP[family]}", f"# TYPE {name} gauge"]
    lines += [f"{name}{{{labels}}} {_number(value)}" for labels, value in written.items()]
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    # The format has three escapes, and none for other control characters and lone surrogates.
    clean = "".join(c if c == "\n" or category(c) not in _NOT_TEXT else "\ufffd" for c in text)
    return clean.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return repr(float(value))
