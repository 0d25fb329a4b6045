"""Glue between one run and the Validator: which criterion a measurement is held against."""

from __future__ import annotations

from pytest_anubis.core.measurement import Measurement
from pytest_anubis.core.verdict import MetricVerdict, Outcome, Reason, Reference
from pytest_anubis.session.context import RunContext
from pytest_anubis.validator import judge_sample


def judge_measurement(context: RunContext, measurement: Measurement) -> MetricVerdict:
    """Judge one measurement of one device against the baseline of this run.

    Args:
        context: The run; without a baseline the verdict is INCONCLUSIVE and says what to do next.
        measurement: What was recorded.
    """
    baseline = context.baseline
    if baseline is None:
        return _unjudged(
            context,
            measurement,
            Outcome.INCONCLUSIVE,
            Reason.NO_BASELINE,
            context.baseline_note,
        )
    criterion = baseline.find(
        measurement.benchmark, measurement.metric.name, group=measurement.group
    )
    if criterion is None:
        return _unjudged(
            context,
            measurement,
            Outcome.NOT_TESTED,
            Reason.NO_CRITERION,
            f"baseline {baseline.digest} has no criterion for {measurement.metric.name} yet",
        )
    return judge_sample(
        measurement.values,
        criterion,
        baseline,
        metric=measurement.metric,
        node=context.node,
        device=measurement.device,
        disturbance=measurement.disturbance,
    )


def _unjudged(
    context: RunContext,
    measurement: Measurement,
    outcome: Outcome,
    reason: Reason,
    text: str,
) -> MetricVerdict:
    import statistics

    values = measurement.values
    return MetricVerdict(
        outcome=outcome,
        reason=reason,
        text=text,
        benchmark=measurement.benchmark,
        metric=measurement.metric.name,
        unit=measurement.metric.unit,
        better=measurement.metric.better,
        component=measurement.component,
        node=context.node,
        device=measurement.device,
        count=len(values),
        value=statistics.median(values) if values else None,
        reference=Reference.NONE,
        disturbance=measurement.disturbance,
        action=measurement.metric.action,
    )
