"""A run that accepted its node with a waiver that does not hold any more."""

from __future__ import annotations

from dataclasses import replace

from pytest_anubis.core.standing.standing_of import Standing
from pytest_anubis.core.verdict import Decision, NodeVerdict, Triage


def as_it_stands(verdict: NodeVerdict, standing: Standing) -> NodeVerdict:
    """Return a run's decision as it holds today: rejected where a waiver has lapsed since.

    Args:
        verdict: What the run decided that `standing` rests on.
        standing: The standing of its node.
    """
    text = lapsed_text(standing)
    if not text or verdict.decision is Decision.REJECTED:
        return verdict
    headline = (
        f"node {verdict.node}: {text}. Next step: mend it, or renew the waiver; then measure again"
    )
    return replace(
        verdict, decision=Decision.REJECTED, headline=headline, triage=Triage.REJECT, blocking=()
    )


def lapsed_text(standing: Standing) -> str:
    """Return which failures a waiver covers no more, the first by name; empty if there is none."""
    if not standing.lapsed:
        return ""
    (benchmark, metric, device, _), waiver = standing.lapsed[0]
    what = " ".join(filter(None, (metric or benchmark, device)))
    more = f" and {len(standing.lapsed) - 1} more" if len(standing.lapsed) > 1 else ""
    return f"{what}{more} failed, and the waiver ended ({waiver})"
