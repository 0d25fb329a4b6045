"""Judges one measurement of a run with the Validator; imported late, because it loads numpy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pytest_anubis.core.measurement import Measurement
from pytest_anubis.core.verdict import MetricVerdict, Reason
from pytest_anubis.session.context import RunContext
from pytest_anubis.validator import judge_sample, with_segments
from pytest_anubis.validator.changes.onset_sensors import onset_of
from pytest_anubis.validator.changes.segments import changes_of
from pytest_anubis.validator.judging.change_screening import PROFILE, judge_current


def judge_measurement(context: RunContext, measurement: Measurement) -> MetricVerdict:
    """Judge one measurement of one device against the baseline of this run."""
    baseline = context.baseline
    criterion = None
    if baseline is not None:
        name = measurement.metric.name
        criterion = baseline.find(measurement.benchmark, name, group=measurement.group)
    verdict = judge_sample(
        measurement.values,
        criterion,
        baseline,
        metric=measurement.metric,
        benchmark=measurement.benchmark,
        component=measurement.component,
        node=context.node,
        device=measurement.device,
        group=measurement.group,
        disturbance=measurement.disturbance,
        evidence=measurement.evidence,
        looks=measurement.looks,
    )
    if baseline is None and verdict.reason is Reason.NO_BASELINE:
        verdict = replace(verdict, text=context.baseline_note)
    found = changes_of(measurement, criterion)
    verdict = with_segments(verdict, found, onset_of(measurement, found))
    if context.settings.profile != PROFILE:
        return verdict
    return judge_current(verdict, np.asarray(measurement.values), criterion, baseline, found)
