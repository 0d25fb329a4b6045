"""Nodes that judging rejects only for what somebody has answered for: their defects were closed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pytest_anubis.core.asking.next_step import STEP
from pytest_anubis.core.blocker import Blocker
from pytest_anubis.core.verdict import Decision, NodeVerdict, Outcome, Triage
from pytest_anubis.store.collected_runs import RunSet
from pytest_anubis.store.node_standing import answered_runs
from pytest_anubis.validator.deciding.fleet_judging import JudgedFleet, NodeDetail


def with_answers(judged: JudgedFleet, runs: RunSet, places: Sequence[Path]) -> JudgedFleet:
    """Return verdicts in which a node is undecided if each run that rejects it has a closed defect.

    What was found then is known to somebody; whether it is there still only another run says.

    Args:
        judged: The verdicts.
        runs: What was judged.
        places: Files and folders that the runs are from.
    """
    rejected = {one.node for one in judged.nodes if one.decision is Decision.REJECTED}
    answered = answered_runs(places, rejected) if rejected else set()
    if not answered:
        return judged
    of_node: dict[str, set[str]] = {}
    for run in runs.runs:
        of_node.setdefault(run.node, set()).add(run.run)
    nodes = [
        _answered(verdict, detail, of_node.get(verdict.node, set()), answered)
        for verdict, detail in zip(judged.nodes, judged.details, strict=True)
    ]
    return replace(judged, nodes=tuple(nodes))


def _answered(
    verdict: NodeVerdict, detail: NodeDetail, runs: set[str], answered: set[tuple[str, str]]
) -> NodeVerdict:
    if verdict.decision is not Decision.REJECTED:
        return verdict
    bad = [one for one in detail.verdicts if one.outcome is Outcome.FAIL]
    bad = bad or [one for one in detail.verdicts if one.outcome is Outcome.MARGINAL]
    # A mean may hold earlier values of a bad device: it is no finding of its own.
    bad = [one for one in bad if one.scope == "unit"] or bad
    found = {one.run or (next(iter(runs)) if len(runs) == 1 else "") for one in bad}
    if not found or not found <= {run for run, node in answered if node == verdict.node}:
        return verdict
    why = f"run {', '.join(sorted(found))} rejected it, and its defect was closed since"
    return replace(
        verdict,
        decision=Decision.UNDECIDED,
        headline=f"node {verdict.node} is neither accepted nor rejected: {why}{STEP}measure it again",
        blocking=(Blocker(cause=why, act="measure it again"),),
        triage=Triage.NONE,
    )
