"""The decision about the node at the end of a run, from everything that was judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pytest_anubis.core.verdict import MetricVerdict, NodeVerdict, Outcome, Reason, Reference
from pytest_anubis.session.running.comparisons import comparisons
from pytest_anubis.validator import judge_node
from pytest_anubis.validator.judging.completeness import (
    rejecting,
    verdicts_of_tests,
    waived_verdict,
)

if TYPE_CHECKING:
    from pytest_anubis.session.running.live_run import Run


def decide(run: Run, *, waived: frozenset[str]) -> tuple[NodeVerdict, list[MetricVerdict]]:
    """Return the decision and the verdicts that it adds to those of the tests.

    Args:
        run: The run, all tests reported or known to be missing.
        waived: Tests whose failure their own xfail mark expects: listed, neither rejecting nor blocking.
    """
    context, settings = run.context, run.context.settings
    further = comparisons(run)
    counted = _counted(run, further, waived)
    extra = verdicts_of_tests(
        list(run.planned.values()),
        run.results,
        {(verdict.benchmark, verdict.device) for verdict in run.all_verdicts()},
        node=context.node,
        explained=rejecting(counted, settings.fail_on),
        misused=run.misused,
    )
    selection = run.selection
    if selection is not None:
        extra += selection.pruned_verdicts()
    verdict = judge_node(
        [*counted, *extra],
        baseline=context.baseline,
        node=context.node,
        fail_on=settings.fail_on,
        require_all=settings.require_all,
        problems=[*run.crashes, *run.hindrances],
        notes=run.repeated,
        residual_risk=None
        if selection is None
        else selection.risk_after(passed([*counted, *extra])),
        unneeded="" if selection is None else selection.unneeded(),
    )
    return verdict, [*extra, *(found for verdicts in further.values() for found in verdicts)]


def _counted(
    run: Run, further: Mapping[str, Sequence[MetricVerdict]], waived: frozenset[str]
) -> list[MetricVerdict]:
    """Return the verdicts on metrics that count: those of the tests, and those from comparing them."""
    settled = {
        (verdict.benchmark, verdict.metric, verdict.device)
        for verdicts in further.values()
        for verdict in verdicts
        if verdict.scope == "unit"
    }
    sources: tuple[Mapping[str, Sequence[MetricVerdict]], ...] = (run.verdicts, further)
    return [
        waived_verdict(verdict) if test in waived else verdict
        for source in sources
        for test, verdicts in source.items()
        for verdict in verdicts
        # That there is no baseline is said once, where it stands in the way of acceptance.
        if verdict.reason is not Reason.NO_BASELINE
        or (verdict.benchmark, verdict.metric, verdict.device) not in settled
    ]


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
