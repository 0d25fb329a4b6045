"""Judges a measurement with the Validator, and excuses it if a unit of another node is to blame.

`call_phase` imports it late, because it loads numpy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pytest_anubis.core.measurement import Measurement
from pytest_anubis.core.verdict import MetricVerdict, Outcome, Reason, Reference
from pytest_anubis.session.context import RunContext
from pytest_anubis.validator.changes.onset_sensors import onset_of
from pytest_anubis.validator.changes.segments import changes_of
from pytest_anubis.validator.judging import change_screening
from pytest_anubis.validator.judging.sample_judging import UNREFERENCED


def judge_measurement(context: RunContext, measurement: Measurement) -> MetricVerdict:
    """Judge one measurement of one device against the baseline of this run."""
    baseline = context.baseline
    criterion = None
    if baseline is not None:
        name = measurement.metric.name
        criterion = baseline.find(measurement.benchmark, name, group=measurement.group)
    found = changes_of(measurement, criterion)
    verdict = change_screening.judge_measurement(
        measurement,
        criterion,
        baseline,
        found,
        node=context.node,
        profile=context.settings.profile,
        onset=onset_of(measurement, found),
    )
    if baseline is None and verdict.reason is Reason.NO_BASELINE:
        verdict = replace(verdict, text=context.baseline_note)
    return verdict


def excused(verdict: MetricVerdict, excuses: Mapping[str, str]) -> MetricVerdict:
    """Return a verdict that rejects nothing if a unit of another node is to blame.

    Without a criterion it counts as compared with the other hosts, so that neither this node's other devices
    nor its earlier runs judge a rate that another node limits.

    Args:
        verdict: The verdict on one measurement.
        excuses: Unit under test -> what else is to blame if it is slow.
    """
    blame = excuses.get(verdict.device)
    if blame is None or not (verdict.outcome is Outcome.FAIL or verdict.reason in UNREFERENCED):
        return verdict
    found = verdict.text
    if verdict.reason in UNREFERENCED:
        verdict = replace(verdict, reference=Reference.PEERS, population="the other hosts")
        if verdict.outcome is not Outcome.MARGINAL:
            found = f"{verdict.metric} has no criterion"
    text = f"{found}; not this node's: {blame}"
    return replace(verdict, outcome=Outcome.MARGINAL, reason=Reason.UNUSUAL, text=text)
