"""Bring a run's decision up to today (waivers lapse, later runs pass what failed), and say what is open.

The fleet's verdicts and status use `with_standing`, `anubis health` `lapsed_text`, the Selector `node_doubt`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pytest_anubis.core.history import Doubt
from pytest_anubis.core.standing.recorded_run import key_of
from pytest_anubis.core.standing.standing_of import Standing
from pytest_anubis.core.verdict import Decision, MetricVerdict, NodeVerdict, Outcome, Reason, Triage

_RENEW = "repair it, or renew the waiver; then measure again"


def with_standing(
    verdict: NodeVerdict, metrics: Sequence[MetricVerdict], standing: Standing
) -> tuple[NodeVerdict, tuple[MetricVerdict, ...]]:
    """Return a decision and verdicts as of today: lapsed waivers reject, later passes remove failures.

    They are those of the run that decides, `standing.by`. A rejection of which no failure is left stays one:
    callers ask `standing.answered`, which means UNDECIDED.
    """
    text, by = lapsed_text(standing), standing.by
    if text and verdict.decision is not Decision.REJECTED:
        headline = f"node {verdict.node} rejected: {text}. Next step: {_RENEW}"
        verdict = replace(
            verdict,
            decision=Decision.REJECTED,
            headline=headline,
            triage=Triage.REJECT,
            blocking=(),
        )
        return verdict, tuple(metrics)
    answered = set(by.failed).difference(standing.failures) if by else set()
    left = tuple(one for one in metrics if key_of(one) not in answered)
    bad = [one for one in left if one.outcome is Outcome.FAIL]
    if verdict.decision is not Decision.REJECTED or len(left) == len(metrics) or not bad:
        return verdict, tuple(metrics)
    worst = min(bad, key=lambda one: one.severity)
    components = tuple(dict.fromkeys(one.component or one.benchmark for one in bad))
    verdict = replace(
        verdict,
        headline=f"node {verdict.node} rejected: {', '.join(components)}. {worst.text}",
        components=components,
        triage=worst.triage,
        lowest=worst.similarity or 0.0,
        gone=tuple(one.device for one in bad if one.reason is Reason.GONE),
    )
    return verdict, left


def lapsed_text(standing: Standing) -> str:
    """Return which failures a waiver no longer covers, the first by name; empty if there is none."""
    if not standing.lapsed:
        return ""
    (benchmark, metric, device, _), waiver = standing.lapsed[0]
    what = " ".join(filter(None, (metric or benchmark, device)))
    more = f" and {len(standing.lapsed) - 1} more" if len(standing.lapsed) > 1 else ""
    return f"{what}{more} failed, and its waiver no longer applies ({waiver})"


def node_doubt(standing: Standing) -> Doubt | None:
    """Return what is open on a node; None if nothing is, or no run has decided about it."""
    by = standing.by
    if by is None or standing.decision is Decision.ACCEPTED:
        return None
    why = ""
    if standing.answered:
        why = f"run {by.run} rejected it, and its defect was closed since"
    elif standing.decision is Decision.UNDECIDED:
        why = f"run {by.run} ended undecided"
    return Doubt(benchmarks=frozenset(key[0] for key in standing.failures), why=why)
