"""The decision about the node at the end of a run, from everything that was judged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_anubis.core.verdict import MetricVerdict, NodeVerdict, Outcome, Reason, Reference
from pytest_anubis.session.comparisons import comparisons
from pytest_anubis.validator import judge_node
from pytest_anubis.validator.completeness import verdicts_of_tests

if TYPE_CHECKING:
    from pytest_anubis.session.run import Run


def decide(run: Run, *, waived: frozenset[str]) -> tuple[NodeVerdict, list[MetricVerdict]]:
    """Return the decision and the verdicts that it adds to those of the tests.

    Args:
        run: The run, all tests reported or known to be missing.
        waived: Tests whose failure their own xfail mark expects: listed, neither rejecting nor blocking.
    """
    context = run.context
    judged = {(verdict.benchmark, verdict.device) for verdict in run.all_verdicts()}
    planned = list(run.planned.values())
    extra = verdicts_of_tests(planned, run.results, judged, node=context.node)
    selection = run.selection
    if selection is not None:
        extra += selection.pruned_verdicts()
    further = comparisons(run)
    settled = {
        (verdict.benchmark, verdict.metric, verdict.device)
        for verdicts in further.values()
        for verdict in verdicts
        if verdict.scope == "unit"
    }
    counted = [
        _waived(verdict) if test in waived else verdict
        for source in (run.verdicts, further)
        for test, verdicts in source.items()
        for verdict in verdicts
        # That there is no baseline is said once, where it stands in the way of acceptance.
        if verdict.reason is not Reason.NO_BASELINE
        or (verdict.benchmark, verdict.metric, verdict.device) not in settled
    ]
    verdict = judge_node(
        [*counted, *extra],
        baseline=context.baseline,
        node=context.node,
        fail_on=context.settings.fail_on,
        require_all=context.settings.require_all,
        problems=[*run.crashes, *(f"{note} and not tested" for note in context.hidden)],
        residual_risk=None
        if selection is None
        else selection.risk_after(passed([*counted, *extra])),
        unneeded="" if selection is None else selection.unneeded(),
    )
    return verdict, [*extra, *(found for verdicts in further.values() for found in verdicts)]


def passed(verdicts: Sequence[MetricVerdict]) -> list[str]:
    """Return the benchmarks that were found normal by a baseline, none of their metrics missing."""
    near = (Reference.PEERS, Reference.SELF)
    good = {
        v.benchmark
        for v in verdicts
        if v.outcome in (Outcome.PASS, Outcome.MARGINAL) and v.reference not in near
    }
    bad = (Outcome.FAIL, Outcome.INCONCLUSIVE, Outcome.NOT_TESTED)
    return sorted(good - {v.benchmark for v in verdicts if v.outcome in bad})


def _waived(verdict: MetricVerdict) -> MetricVerdict:
    if verdict.outcome not in (Outcome.FAIL, Outcome.MARGINAL):
        return verdict
    return replace(
        verdict,
        outcome=Outcome.NOT_TESTED,
        reason=Reason.WAIVED,
        text=f"failed as its xfail mark expects: {verdict.text}",
    )
