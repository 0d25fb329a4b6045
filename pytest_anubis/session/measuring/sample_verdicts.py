"""Judges one measurement of a run with the Validator; imported late, because it loads numpy."""

from __future__ import annotations

from dataclasses import replace

from pytest_anubis.core.measurement import Measurement
from pytest_anubis.core.verdict import MetricVerdict, Reason
from pytest_anubis.session.context import RunContext
from pytest_anubis.validator.changes.onset_sensors import onset_of
from pytest_anubis.validator.changes.segments import changes_of
from pytest_anubis.validator.judging import change_screening


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
