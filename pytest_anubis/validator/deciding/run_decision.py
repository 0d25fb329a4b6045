"""The one decision about a run, from what is known of it: live, when its report is rebuilt, and when judged.

`decide_run` goes by the verdicts that the run itself reached. Where collected runs are judged anew from their
values, `evidence_of` says all else that counts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from pytest_anubis.core.asking.silent_tests import kept_silent
from pytest_anubis.core.baseline import Baseline
from pytest_anubis.core.identity.machine_marks import identity_marks
from pytest_anubis.core.measurement import PlannedTest
from pytest_anubis.core.run import RunEvidence, RunRecord
from pytest_anubis.core.verdict import (
    Decision,
    MetricVerdict,
    NodeVerdict,
    Outcome,
    Reason,
    Reference,
)
from pytest_anubis.core.waivers.waiving import with_waiver
from pytest_anubis.validator.deciding.completeness import (
    blockers_by_cause,
    deaths_of,
    places_of,
    rejecting,
    verdicts_of_repeats,
    verdicts_of_tests,
)
from pytest_anubis.validator.deciding.hardware_policy import verdicts_of_hardware
from pytest_anubis.validator.deciding.node_decision import judge_node
from pytest_anubis.validator.deciding.run_comparisons import History, comparisons


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """What the Selector left out of a run.

    Attributes:
        verdicts: NOT_TESTED by decision, one a benchmark.
        risk_after: From the benchmarks that passed to the probability of an incident that is left.
        interval_after: From the same to its 95 % interval.
        unneeded: Why nothing had to be measured at all; empty where something had to be.
    """

    verdicts: tuple[MetricVerdict, ...] = ()
    risk_after: Callable[[Sequence[str]], float | None] = lambda _: None
    interval_after: Callable[[Sequence[str]], tuple[float, float] | None] = lambda _: None
    unneeded: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDecision:
    """What was decided.

    Attributes:
        node_verdict: The decision about the node.
        added: Verdicts that go beyond those of the tests: on tests without any, on what was left out, from
            comparing devices and runs.
    """

    node_verdict: NodeVerdict
    added: tuple[MetricVerdict, ...]


def decide_run(
    run: RunRecord,
    baseline: Baseline | None,
    *,
    fail_on: Literal["fail", "marginal"] = "fail",
    require_all: bool = False,
    history: History = tuple,
    left_out: LeftOut | None = None,
    broken_off: str = "",
) -> RunDecision:
    """Decide about a run's node.

    Args:
        run: The run; a test that has not ended will not end any more.
        baseline: What it was held against; None if there is none, or it is not at hand any more.
        fail_on: Mildest verdict that rejects.
        require_all: What is only listed blocks too.
        history: Earlier runs of the node.
        left_out: What the Selector left out; None where it took no part.
        broken_off: Why the run did not come to its end, then nothing is decided; empty if it did.
    """
    further = comparisons(run, baseline, history)
    counted = _counted(run, further)
    excused = {(v.benchmark, v.device) for v in run.verdicts if v.test in run.excused}
    extra = verdicts_of_hardware(run)
    silent = kept_silent(run)
    extra += verdicts_of_tests(
        run.planned,
        {result.test: result for result in run.results},
        {(verdict.benchmark, verdict.device) for verdict in run.verdicts}
        | places_of(run.verdicts, run.planned),
        node=run.node,
        # What a waiver covers explains why its test failed, too.
        explained=rejecting([*counted, *run.verdicts], run.planned, fail_on) | excused,
        silent=silent,
    )
    left_out = left_out or LeftOut()
    extra += verdicts_of_repeats(run.repeats, run.planned, node=run.node)
    extra += left_out.verdicts
    # A run that was decided before, and is looked at again, has them already.
    known = {replace(verdict, test="") for verdict in run.verdicts}
    extra = [verdict for verdict in extra if verdict not in known]
    # An older version may have said the same in other words.
    met = {_subject(verdict) for verdict in run.verdicts}
    further = [verdict for verdict in further if _subject(verdict) not in met]
    good = passed([*counted, *extra])
    evidence = _evidence(
        run, silent, risk=left_out.risk_after(good), interval=left_out.interval_after(good)
    )
    node_verdict = judge_node(
        [*counted, *extra],
        # It had a baseline, whose criteria may be gone by now.
        expected=() if baseline is None and run.baseline else None,
        baseline=baseline,
        node=run.node,
        evidence=evidence,
        fail_on=fail_on,
        require_all=require_all,
        unneeded=left_out.unneeded,
        broken_off=broken_off,
    )
    # Concluded at the end, and anew should the run be resumed: so they are no test's own.
    added = tuple(replace(verdict, test="") for verdict in (*extra, *further))
    return RunDecision(node_verdict=node_verdict, added=added)


def evidence_of(run: RunRecord, unmeasured: Collection[str] = ()) -> RunEvidence:
    """Return everything that judging a run's samples anew would miss.

    Args:
        run: The run; the values of its measurements are not read.
        unmeasured: Tests of the run that recorded nothing, and whose metrics no other run knows.
    """
    measured = {(m.benchmark, m.metric.name, m.device) for m in run.measurements}
    verdicts = [
        verdict
        for verdict in run.verdicts
        # Pooled and measured values are judged again, and repeated attempts are added below.
        if verdict.scope == "unit"
        and (verdict.reason is not Reason.REPEATED or verdict.metric)
        and (
            (verdict.benchmark, verdict.metric, verdict.device) not in measured
            or _by_hook(verdict)
            or verdict.reason is Reason.REPEATED  # an exact result that was wrong in an attempt
        )
    ]
    results = {result.test: result for result in run.results}
    plans = {plan.test: plan for plan in run.planned}
    # A damaged line may have lost the plan of a test that failed.
    silent = [
        plans.get(test, PlannedTest(test=test, benchmark=results[test].benchmark))
        for test in unmeasured
    ]
    places = {(verdict.benchmark, verdict.device) for verdict in verdicts}
    silent = [plan for plan in silent if plan.place not in places]
    # A run that was cut short has not concluded these.
    known = {(v.benchmark, v.metric, v.device) for v in verdicts}
    verdicts += [
        verdict
        for verdict in verdicts_of_hardware(run)
        if (verdict.benchmark, verdict.metric, verdict.device) not in known
    ]
    kept = kept_silent(run)
    verdicts += verdicts_of_tests(silent, results, (), node=run.node, silent=kept)
    verdicts += verdicts_of_repeats(run.repeats, run.planned, node=run.node)
    decided = run.node_verdict
    return _evidence(
        run,
        kept,
        run.run,
        verdicts=tuple(replace(verdict, run=run.run) for verdict in verdicts),
        risk=decided.residual_risk if decided else None,
        interval=decided.residual_interval if decided else None,
    )


def _evidence(
    run: RunRecord,
    silent: Mapping[str, str],
    name: str = "",
    *,
    verdicts: tuple[MetricVerdict, ...] = (),
    risk: float | None,
    interval: tuple[float, float] | None,
) -> RunEvidence:
    """Return what a run says besides its samples.

    Args:
        run: The run.
        silent: Test -> what kept it from running.
        name: The run's id if it was collected, so that blockers name it; empty while it goes on.
        verdicts: Those on what has no sample.
        risk: Probability of an incident that pruned benchmarks leave.
        interval: Its 95 % interval.
    """
    rejected = run.node_verdict and run.node_verdict.decision is Decision.REJECTED
    ended_early = name and run.broken_off and not rejected
    required = run.settings.get("require")
    return RunEvidence(
        verdicts=verdicts,
        blockers=tuple(replace(one, run=name) for one in blockers_by_cause(run, silent)),
        notes=run.driver_words,
        residual_risk=risk,
        residual_interval=interval,
        budget=run.budget,
        devices=run.devices,
        caveats=run.switched_off,
        planned=frozenset(plan.place for plan in run.planned),
        broken_off={name: run.broken_off} if ended_early else {},
        cards=run.cards,
        waivers=run.waivers,
        waivers_of={name: run.waivers} if name else {},
        machines=frozenset({identity_marks(run.inventory)}),
        other_machine=run.settings.get("other_machine") is True,
        required=tuple(map(str, required)) if isinstance(required, list | tuple) else (),
        noisy={name: run.quiet_limits} if run.quiet_limits else {},
        deaths=deaths_of(run, name),
    )


def failed_checks(
    runs: Iterable[RunRecord], unmeasured: Mapping[tuple[str, str], Sequence[str]]
) -> dict[tuple[str, str], MetricVerdict]:
    """Return node and run -> the first failure of which no sample tells, as judging finds it.

    Whoever counts nodes by their samples asks here as well, so that learning, judging and the backtest count
    alike. What a waiver covers is no failure, and a run that was broken off decides nothing.

    Args:
        runs: The runs; the values of their measurements are not looked at.
        unmeasured: Run and node -> its tests that recorded nothing and fit into no population.
    """
    found: dict[tuple[str, str], MetricVerdict] = {}
    for run in runs:
        if run.broken_off:
            continue
        known = evidence_of(run, unmeasured.get((run.run, run.node), ()))
        told = (with_waiver(verdict, known.waivers) for verdict in known.verdicts)
        failure = next((verdict for verdict in told if verdict.outcome is Outcome.FAIL), None)
        if failure is not None:
            found[run.node, run.run] = failure
    return found


def _subject(verdict: MetricVerdict) -> tuple[str, ...]:
    """Return what a verdict is about, what decided and what came of it, without how that is said."""
    place = (verdict.benchmark, verdict.metric, verdict.group, verdict.device, verdict.scope)
    return (*place, verdict.reference, verdict.outcome, verdict.reason)


def _by_hook(verdict: MetricVerdict) -> bool:
    """Return whether a user's hook found something wrong: no baseline will find it again in the values."""
    wrong = verdict.outcome in (Outcome.FAIL, Outcome.MARGINAL, Outcome.INCONCLUSIVE)
    return wrong and verdict.reference.is_baseline and not verdict.baseline


def _counted(run: RunRecord, further: Sequence[MetricVerdict]) -> list[MetricVerdict]:
    """Return the verdicts on metrics that count: those of the tests, and those from comparing them."""
    settled = {
        (verdict.benchmark, verdict.metric, verdict.device)
        for verdict in further
        if verdict.scope == "unit"
    }
    return [
        verdict
        for verdict in (*run.effective_verdicts, *further)
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
