"""The verdict on a whole node: acceptance is always against a baseline, and never silent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal

from pytest_anubis.core.baseline import Baseline, Criterion
from pytest_anubis.core.verdict import (
    Decision,
    MetricVerdict,
    NodeVerdict,
    Outcome,
    Reason,
    Reference,
)


def judge_node(
    verdicts: Sequence[MetricVerdict],
    expected: Iterable[Criterion] | None = None,
    *,
    baseline: Baseline | None = None,
    node: str = "",
    blockers: Sequence[str] = (),
    notes: Sequence[str] = (),
    fail_on: Literal["fail", "marginal"] = "fail",
    require_all: bool = False,
    residual_risk: float | None = None,
    unneeded: str = "",
) -> NodeVerdict:
    """Decide about a node from the verdicts on its metrics.

    Any FAIL rejects. Acceptance needs a baseline all of whose criteria were judged in this run: a
    criterion without a verdict, an INCONCLUSIVE one and a test that did not report block. What has no
    criterion, does not apply here or was pruned by decision is listed and does not block.

    Args:
        verdicts: All metric verdicts of the node, in any order.
        expected: The criteria that must have been judged; those of `baseline` if None.
        baseline: What the verdicts rest on; without one nothing is accepted.
        node: Name of the node; that of the first verdict if empty.
        blockers: What else stands in the way of acceptance, one line each (a worker that died).
        notes: What is listed besides, one line each (an attempt that failed and was repeated).
        fail_on: ``marginal`` rejects on MARGINAL as well.
        require_all: What is only listed blocks too.
        residual_risk: Probability of an incident that pruned benchmarks leave.
        unneeded: Why nothing had to be measured, where that was decided; then a baseline is all that
            acceptance needs.

    Returns:
        The decision with everything that stands in the way of more.
    """
    criteria = tuple(expected) if expected is not None else baseline.criteria if baseline else ()
    name = node or (verdicts[0].node if verdicts else "")
    bad = _rejecting(verdicts, fail_on)
    blocking, listed = _blockers(verdicts, criteria)
    blocking, listed = [*blockers, *blocking], [*listed, *notes]
    explained = len(blocking)
    blocking += _silent(verdicts, criteria)
    if baseline is None and expected is None:
        blocking.insert(0, "no baseline: nothing can be accepted; learn one with `anubis learn`")
    elif not unneeded and not any(_judged_by_fleet(verdict) for verdict in verdicts):
        # What happened explains it, so it stands first.
        blocking.insert(explained, "no metric was judged against a criterion of the baseline")
    if require_all:
        blocking, listed = [*blocking, *listed], []
    decision = Decision.REJECTED if bad else Decision.UNDECIDED if blocking else Decision.ACCEPTED
    components = tuple(dict.fromkeys(verdict.component or verdict.benchmark for verdict in bad))
    counts = Counter(verdict.outcome.value for verdict in verdicts)
    return NodeVerdict(
        node=name,
        decision=decision,
        headline=_headline(
            name, decision, bad, blocking, verdicts, baseline, residual_risk, unneeded
        ),
        components=components,
        blocking=tuple(dict.fromkeys(blocking)),
        listed=tuple(dict.fromkeys(listed)),
        counts=tuple((o.value, counts[o.value]) for o in Outcome if counts[o.value]),
        baseline=baseline.digest
        if baseline
        else next((v.baseline for v in verdicts if v.baseline), ""),
        residual_risk=residual_risk,
    )


def _judged_by_fleet(verdict: MetricVerdict) -> bool:
    judged = verdict.outcome in (Outcome.PASS, Outcome.MARGINAL, Outcome.FAIL)
    return (judged or verdict.reason is Reason.WAIVED) and verdict.reference is Reference.FLEET


def _rejecting(verdicts: Sequence[MetricVerdict], fail_on: str) -> list[MetricVerdict]:
    outcomes = {Outcome.FAIL} | ({Outcome.MARGINAL} if fail_on == "marginal" else set())
    bad = [verdict for verdict in verdicts if verdict.outcome in outcomes]

    def severity(verdict: MetricVerdict) -> tuple[bool, float, str, str]:
        similarity = verdict.similarity if verdict.similarity is not None else 0.0
        return (verdict.outcome is not Outcome.FAIL, similarity, verdict.benchmark, verdict.metric)

    return sorted(bad, key=severity)


def _blockers(
    verdicts: Sequence[MetricVerdict], criteria: Sequence[Criterion]
) -> tuple[list[str], list[str]]:
    blocking: list[str] = []
    listed: list[str] = []
    wanted = {(criterion.benchmark, criterion.metric.name) for criterion in criteria}
    wanted_benchmarks = {benchmark for benchmark, _ in wanted}
    for verdict in verdicts:
        needed = (verdict.benchmark, verdict.metric) in wanted or (
            not verdict.metric and verdict.benchmark in wanted_benchmarks
        )
        if verdict.outcome is Outcome.INCONCLUSIVE:
            blocking.append(_line(verdict))
        elif verdict.outcome is Outcome.NOT_TESTED:
            optional = verdict.reason in (Reason.PRUNED, Reason.WAIVED, Reason.NO_CRITERION) or (
                verdict.reason is Reason.NOT_RUN and not needed
            )
            (listed if optional else blocking).append(_line(verdict))
        elif verdict.reason is Reason.UNDETECTABLE:
            listed.append(_line(verdict))
    return blocking, listed


def _silent(verdicts: Sequence[MetricVerdict], criteria: Sequence[Criterion]) -> list[str]:
    """Return one line for every criterion that nothing was judged against and no verdict speaks of.

    What the other devices or the own past say is no substitute for it. A group counts as reported when
    another one of the same metric is, unless most nodes of the baseline have it: a node has its place in
    one stage of a pipeline, but all zones of a disk. The pooled values of a node with one device are that
    device's own.
    """
    answered = {
        (verdict.benchmark, verdict.metric, verdict.scope, verdict.group)
        for verdict in verdicts
        if verdict.reference is Reference.FLEET
    }
    some_group = {key[:3] for key in answered}
    devices: dict[tuple[str, str, str], set[str]] = {}
    for verdict in verdicts:
        if verdict.scope == "unit" and verdict.reference is Reference.FLEET:
            key = (verdict.benchmark, verdict.metric, verdict.group)
            devices.setdefault(key, set()).add(verdict.device)
    # INCONCLUSIVE and NOT_TESTED block or are listed already; metric '' speaks for the whole benchmark.
    told = {
        (verdict.benchmark, verdict.metric)
        for verdict in verdicts
        if verdict.outcome is Outcome.INCONCLUSIVE
        or (verdict.outcome is Outcome.NOT_TESTED and verdict.reason is not Reason.NO_CRITERION)
        or not verdict.metric
    }
    everywhere = max((criterion.nodes for criterion in criteria), default=0)
    silent = {}
    for criterion in criteria:
        name, group = (criterion.benchmark, criterion.metric.name), criterion.group
        kind = (*name, criterion.scope)
        if (*kind, group) in answered or name in told or (name[0], "") in told:
            continue
        if criterion.scope == "node" and len(devices.get((*name, group), ())) == 1:
            continue
        if kind not in some_group or criterion.nodes > everywhere / 2:
            whole = " of the node's pooled values" if criterion.scope == "node" else ""
            silent[*kind, group] = (
                f"NOT_TESTED {' '.join(name)}{f' ({group})' if group else ''}: the baseline has a criterion"
                f"{whole}, but nothing of this run was judged against it"
            )
    return [silent[key] for key in sorted(silent)]


def _line(verdict: MetricVerdict) -> str:
    what = " ".join(part for part in (verdict.benchmark, verdict.metric, verdict.device) if part)
    return f"{verdict.outcome.value} {what}: {verdict.text}"


def _headline(
    name: str,
    decision: Decision,
    bad: Sequence[MetricVerdict],
    blocking: Sequence[str],
    verdicts: Sequence[MetricVerdict],
    baseline: Baseline | None,
    residual_risk: float | None,
    unneeded: str,
) -> str:
    subject = f"node {name}" if name else "the node"
    if decision is Decision.REJECTED:
        worst = bad[0]
        components = list(dict.fromkeys(v.component or v.benchmark for v in bad))
        more = f"; and {len(bad) - 1} more bad metrics" if len(bad) > 1 else ""
        more = more.removesuffix("s") if len(bad) == 2 else more
        step = f" Next step: {worst.action}" if worst.action else ""
        return f"{subject} rejected: {', '.join(components)}. {worst.text}{more}.{step}"
    if decision is Decision.UNDECIDED:
        more = f" (and {len(blocking) - 1} more)" if len(blocking) > 1 else ""
        return f"{subject} is neither accepted nor rejected: {blocking[0]}{more}"
    risk = "" if residual_risk is None else f" at risk {100 * residual_risk:.2g} %"
    if unneeded:
        return f"{subject} accepted{risk} without any measurement: {unneeded}"
    judged = sum(map(_judged_by_fleet, verdicts))
    basis = ""
    if baseline is not None:
        count = len(baseline.nodes)
        basis = (
            " (learned on this one machine)"
            if baseline.one_machine
            else f" (learned from {count} nodes)"
            if count
            else ""
        )
    return f"{subject} accepted{risk}: {judged} metrics judged, none failed{basis}"
