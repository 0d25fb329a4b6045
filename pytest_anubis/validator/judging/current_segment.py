"""In a soak the current segment is judged next to the whole run: what a node is like after hours of load."""

from __future__ import annotations

from dataclasses import replace

from pytest_anubis.core.baseline import Baseline, Criterion
from pytest_anubis.core.sample import FloatArray
from pytest_anubis.core.verdict import MetricVerdict, Outcome, Reason
from pytest_anubis.validator.changes.segments import Segments
from pytest_anubis.validator.judging.sample_judging import judge_sample

PROFILE = "soak"
"""The profile whose runs are long enough for a segment to stand for itself."""


def judge_current(
    verdict: MetricVerdict,
    values: FloatArray,
    criterion: Criterion | None,
    baseline: Baseline | None,
    found: Segments,
) -> MetricVerdict:
    """Judge what was measured since the last lasting change like a run of its own.

    A segment that fails makes the verdict FAIL, although the run as a whole passes: measured anew the node
    would fail. Else the verdict stays, and what the segment alone says is evidence.

    Args:
        verdict: On the whole run, the change told (`with_segments`).
        values: Shape (n,), the whole run, in time order.
        criterion: What it was compared with.
        baseline: Where the criterion is from.
        found: What changed within the run.
    """
    change = found.change
    if criterion is None or change is None or not change.lasting or verdict.disturbance:
        return verdict
    if verdict.outcome not in (Outcome.PASS, Outcome.MARGINAL):
        return verdict
    own = judge_sample(values[change.onset :], criterion, baseline)
    where = f"its current segment, value {change.onset + 1} to {found.count},"
    if own.outcome is not Outcome.FAIL:
        text = f"{where} alone is {own.outcome}: {own.text}"
        return replace(verdict, evidence=(*verdict.evidence, text))
    return replace(
        verdict,
        outcome=Outcome.FAIL,
        reason=Reason.CHANGE_POINT,
        text=f"{verdict.metric} passes as a whole, but {where} fails: {own.text}",
        count=own.count,
        value=own.value,
        limit=own.limit,
        similarity=own.similarity,
        threshold=own.threshold,
        certainty=own.certainty,
        retest=own.retest,
        percentile=own.percentile,
    )
