"""Decide about a run: at its end, when a run that was cut short is read, and when a sealed run is checked.

`decide_run` uses the verdicts that the run itself reached, `decide_anew` (for `anubis seal`) those that its
values give again. When collected runs are judged from their values (`fleet_judging`), `evidence_of` returns
everything else that counts; learning and the backtest take `failed_checks` from it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from pytest_anubis.core.asking.next_step import with_part_act
from pytest_anubis.core.asking.open_questions import kept_silent
from pytest_anubis.core.baseline import Baseline
from pytest_anubis.core.machine_marks import identity_marks
from pytest_anubis.core.measurement import PlannedTest
from pytest_anubis.core.run import RunEvidence, RunRecord
from pytest_anubis.core.standing.recorded_run import key_of
from pytest_anubis.core.verdict import (
    Decision,
    MetricVerdict,
    NodeVerdict,
    Outcome,
    Reason,
)
from pytest_anubis.core.waiving import with_waiver
from pytest_anubis.validator.changes.segments import changes_of
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
from pytest_anubis.validator.judging.change_screening import judge_measurement, screened_changes
from pytest_anubis.validator.surveying.shared_parts import shared_parts


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """What the Selector left out of a run."""

    verdicts: tuple[MetricVerdict, ...] = ()  # one NOT_TESTED for each benchmark
    # Returns the remaining probability of an incident, given the benchmarks that passed
    risk_after: Callable[[Sequence[str]], float | None] = lambda _: None
    # Returns its 95 % interval, given the same
    interval_after: Callable[[Sequence[str]], tuple[float, float] | None] = lambda _: None
    unneeded: str = ""  # why nothing had to be measured at all; empty if something had to be


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDecision:
    """The decision about a run."""

    node_verdict: NodeVerdict  # the decision about the node
    # Verdicts that no test reached: on tests without any, on what was left out, from comparing
    # devices and runs
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
        run: The run; a test that has not ended counts as not reported.
        baseline: What it was held against; None if there is none, or it is no longer available.
        fail_on: Mildest verdict that rejects.
        require_all: What is only listed blocks too.
        history: Returns the earlier runs of the node.
        left_out: What the Selector left out; None without a Selector.
        broken_off: Why the run did not come to its end, so that nothing is decided; empty if it did.
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
        # A waived verdict also explains why its test failed.
        explained=rejecting([*counted, *run.verdicts], run.planned, fail_on) | excused,
        silent=silent,
        measurements=run.measurements,
    )
    left_out = left_out or LeftOut()
    extra += verdicts_of_repeats(run)
    extra += left_out.verdicts
    # A run that was decided before has these verdicts already, perhaps in other words.
    known = {replace(verdict, test="") for verdict in run.verdicts}
    extra = [verdict for verdict in extra if verdict not in known]
    met = {_subject(verdict) for verdict in run.verdicts}
    further = [verdict for verdict in further if _subject(verdict) not in met]
    good = passed([*counted, *extra])
    evidence = _evidence(
        run, silent, risk=left_out.risk_after(good), interval=left_out.interval_after(good)
    )
    node_verdict = judge_node(
        [*counted, *extra],
        # The run had a baseline whose criteria are no longer available.
        expected=() if baseline is None and run.baseline else None,
        baseline=baseline,
        node=run.node,
        evidence=evidence,
        fail_on=fail_on,
        require_all=require_all,
        unneeded=left_out.unneeded,
        broken_off=broken_off,
    )
    shared = shared_parts(run, baseline, [*counted, *extra])
    node_verdict = with_part_act(replace(node_verdict, shared=shared))
    # They belong to no test: a resumed run concludes them anew.
    added = tuple(replace(verdict, test="") for verdict in (*extra, *further))
    return RunDecision(node_verdict=node_verdict, added=added)


def decide_anew(
    run: RunRecord,
    baseline: Baseline | None,
    *,
    fail_on: Literal["fail", "marginal"],
    require_all: bool,
    profile: str,
) -> RunRecord:
    """Return a run with the verdicts and the decision that its values and this baseline give, and no other.

    Tests without a verdict that did not pass are not judged, as in the run. Earlier runs are not known.
    """
    judged = {one.test for one in run.verdicts if one.metric}
    judged |= {one.test for one in run.results if one.outcome == "passed"}
    changed = {key_of(v) for v in run.verdicts if v.reason is Reason.CHANGE_POINT or v.onset}
    verdicts = [
        one
        for one in _not_from_values(run)
        # No value shows that these are good.
        if (one.outcome not in (Outcome.PASS, Outcome.MARGINAL) or _by_hook(one))
        and one.reason is not Reason.NO_BASELINE
    ]
    for one in run.measurements:
        if one.test not in judged:
            continue
        name = (one.benchmark, one.metric.name, one.device, one.group)
        criterion = baseline.find(*name[:2], group=one.group) if baseline is not None else None
        search = changes_of if name in changed else screened_changes
        found = search(one, criterion)
        verdict = judge_measurement(one, criterion, baseline, found, node=run.node, profile=profile)
        verdicts.append(replace(verdict, test=one.test))
    fresh = replace(run, verdicts=tuple(verdicts), node_verdict=None)
    said = run.node_verdict
    left_out = LeftOut(
        risk_after=lambda _: said.residual_risk if said else None,
        interval_after=lambda _: said.residual_interval if said else None,
    )
    decision = decide_run(
        fresh,
        baseline,
        fail_on=fail_on,
        require_all=require_all,
        left_out=left_out,
        broken_off=f"the run {run.broken_off}" if run.broken_off else "",
    )
    return replace(fresh, verdicts=(*verdicts, *decision.added), node_verdict=decision.node_verdict)


def _not_from_values(run: RunRecord) -> list[MetricVerdict]:
    """Return the verdicts of a run that its values do not give again."""
    measured = {(m.benchmark, m.metric.name, m.device) for m in run.measurements}
    return [
        verdict
        for verdict in run.verdicts
        # Pooled and measured values are judged again, and repeated attempts are added elsewhere.
        if verdict.scope == "unit"
        and (verdict.reason is not Reason.REPEATED or verdict.metric)
        and (
            (verdict.benchmark, verdict.metric, verdict.device) not in measured
            or _by_hook(verdict)
            or verdict.reason is Reason.REPEATED  # an exact result that was wrong in an attempt
        )
    ]


def evidence_of(run: RunRecord, unmeasured: Collection[str] = ()) -> RunEvidence:
    """Return everything that judging a run's samples anew would miss.

    `unmeasured` are its tests that recorded nothing, and whose metrics no other run knows.
    """
    verdicts = _not_from_values(run)
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
    verdicts += verdicts_of_repeats(run)
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

    `silent` maps a test to what kept it from running. `name` is the id of a collected run, so that blockers
    name it, and empty while the run goes on. Risk and interval are those of an incident that pruned
    benchmarks leave.
    """
    rejected = run.node_verdict and run.node_verdict.decision is Decision.REJECTED
    ended_early = name and run.broken_off and not rejected
    required = run.settings.get("require")
    return RunEvidence(
        verdicts=verdicts,
        blockers=tuple(replace(one, run=name) for one in blockers_by_cause(run, silent)),
        notes=run.driver_words,
        modules=tuple(one.module for one in run.hardware if one.module is not None),
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
    """Return node and run -> the first failure that no sample shows.

    Learning and the backtest use it to count the same failed nodes as judging. A waived failure does not
    count, and neither does a run that was broken off. `unmeasured` maps run and node to its tests that
    recorded nothing.
    """
    found: dict[tuple[str, str], MetricVerdict] = {}
    for run in runs:
        if run.broken_off:
            continue
        known = evidence_of(run, unmeasured.get((run.run, run.node), ()))
        verdicts = (with_waiver(verdict, known.waivers) for verdict in known.verdicts)
        failure = next((one for one in verdicts if one.outcome is Outcome.FAIL), None)
        if failure is not None:
            found[run.node, run.run] = failure
    return found


def _subject(verdict: MetricVerdict) -> tuple[str, ...]:
    """Return what a verdict is about, what decided, and the result, without the text."""
    place = (verdict.benchmark, verdict.metric, verdict.group, verdict.device, verdict.scope)
    return (*place, verdict.reference, verdict.outcome, verdict.reason)


def _by_hook(verdict: MetricVerdict) -> bool:
    """Return whether a user's hook found something wrong, which no baseline finds again in the values."""
    wrong = verdict.outcome in (Outcome.FAIL, Outcome.MARGINAL, Outcome.INCONCLUSIVE)
    return wrong and verdict.reference.is_baseline and not verdict.baseline


def _counted(run: RunRecord, further: Sequence[MetricVerdict]) -> list[MetricVerdict]:
    """Return the verdicts on metrics that count: those of the tests, and those from comparisons."""
    settled = {
        (verdict.benchmark, verdict.metric, verdict.device)
        for verdict in further
        if verdict.scope == "unit"
    }
    return [
        verdict
        for verdict in (*run.effective_verdicts, *further)
        # The decision has one blocker for a missing baseline.
        if verdict.reason is not Reason.NO_BASELINE
        or (verdict.benchmark, verdict.metric, verdict.device) not in settled
    ]


def passed(verdicts: Sequence[MetricVerdict]) -> list[str]:
    """Return the benchmarks that a baseline found normal, with no metric missing."""
    good = {
        v.benchmark
        for v in verdicts
        if v.outcome in (Outcome.PASS, Outcome.MARGINAL) and not v.reference.only_compares
    }
    bad = (Outcome.FAIL, Outcome.INCONCLUSIVE, Outcome.NOT_TESTED)
    return sorted(good - {v.benchmark for v in verdicts if v.outcome in bad})
