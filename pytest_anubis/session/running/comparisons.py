"""What only a whole run, or earlier runs, can tell: pooled values, the other devices, the own history."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_anubis.core.baseline import Criterion
from pytest_anubis.core.measurement import Measurement
from pytest_anubis.core.sample import Population, Problem
from pytest_anubis.core.verdict import MetricVerdict, Outcome, Reason, Reference
from pytest_anubis.session.measuring.sample_verdicts import changes_of
from pytest_anubis.store.earlier_runs import earlier_populations
from pytest_anubis.store.samples.gather import Gather
from pytest_anubis.validator import judge_by_history, judge_by_peers, judge_columns, with_segments

if TYPE_CHECKING:
    from pytest_anubis.session.running.live_run import Run

Key = tuple[str, str, str]
"""Benchmark, metric, device."""

_UNREFERENCED = (Reason.NO_BASELINE, Reason.NO_CRITERION)
_CONCLUSIVE = (Outcome.PASS, Outcome.MARGINAL, Outcome.FAIL)


def comparisons(run: Run) -> dict[str, list[MetricVerdict]]:
    """Judge what the tests could not judge one by one.

    The node's pooled values are held against the baseline's criteria for whole nodes. A metric without a
    criterion is compared with the other devices of this node, or else with its own earlier runs; a change
    within its run is told in any case. None of these can accept a node.

    Args:
        run: The run, all tests reported.

    Returns:
        Test -> further verdicts; those on pooled values under the test of the first device.
    """
    open_ones = {
        (v.benchmark, v.metric, v.device): v
        for v in run.all_verdicts()
        if v.reason in _UNREFERENCED
    }
    baseline = run.context.baseline
    whole = [c for c in baseline.criteria if c.scope == "node"] if baseline else []
    if not open_ones and not whole:
        return {}
    latest = {
        (m.benchmark, m.metric.name, m.device): m
        for m in run.measurements
        if _outcome(run, m) not in ("failed", "error", "crashed")
    }
    found: dict[str, list[MetricVerdict]] = {}
    for measurement, verdict in _pooled(run, whole, list(latest.values())):
        found.setdefault(measurement.test, []).append(verdict)
    lonely = {key: latest[key] for key in open_ones if key in latest}
    for key, verdict in _compared(run, lonely, open_ones).items():
        found.setdefault(lonely[key].test, []).append(verdict)
    return found


def _outcome(run: Run, measurement: Measurement) -> str:
    """Return how a test ended; a rejection by its verdict is no failure of its own."""
    result = run.results.get(measurement.test)
    if result is None:
        return "not reported"
    judged = any(
        verdict.outcome in (Outcome.FAIL, Outcome.MARGINAL)
        for verdict in run.verdicts.get(measurement.test, ())
    )
    return "judged" if judged and result.outcome == "failed" else result.outcome


def _pooled(
    run: Run, criteria: Sequence[Criterion], measurements: Sequence[Measurement]
) -> Iterator[tuple[Measurement, MetricVerdict]]:
    baseline = run.context.baseline
    for criterion in criteria:
        name = (criterion.benchmark, criterion.metric.name, criterion.group)
        mine = [m for m in measurements if (m.benchmark, m.metric.name, m.group) == name]
        planned = {p.device for p in run.planned.values() if p.benchmark == criterion.benchmark}
        # Without a device the pooled values are of another kind; that device blocks by itself.
        if len(mine) < 2 or planned != {m.device for m in mine}:
            continue
        for population in _populations(run, mine):
            judged = judge_columns(population, criterion, baseline=baseline)
            for verdict in judged.verdicts(baseline):
                yield mine[0], verdict


def _compared(
    run: Run, lonely: Mapping[Key, Measurement], open_ones: Mapping[Key, MetricVerdict]
) -> dict[Key, MetricVerdict]:
    found: dict[Key, MetricVerdict] = {}
    for judged in judge_by_peers(_populations(run, _beside_others(lonely.values()))):
        for verdict in judged.verdicts():
            _keep(found, verdict)
    rest = [m for key, m in lonely.items() if key not in found]
    for verdict in _by_history(run, rest):
        _keep(found, verdict)
    for key, measurement in lonely.items():
        change = changes_of(measurement)
        if key in found:
            found[key] = with_segments(replace(found[key], evidence=measurement.evidence), change)
        elif change.change and change.change.lasting and not measurement.disturbance:
            found[key] = _alone(open_ones[key], change.sentence())
    return found


def _beside_others(measurements: Iterable[Measurement]) -> list[Measurement]:
    """Return those that more than one device has: a node of one device is spared the comparison."""
    several: dict[tuple[str, str, str], list[Measurement]] = {}
    for m in measurements:
        several.setdefault((m.benchmark, m.metric.name, m.group), []).append(m)
    return [m for members in several.values() if len(members) > 1 for m in members]


def _keep(found: dict[Key, MetricVerdict], verdict: MetricVerdict) -> None:
    if verdict.outcome in _CONCLUSIVE or verdict.reason is Reason.DISTURBED:
        found[verdict.benchmark, verdict.metric, verdict.device] = verdict


def _by_history(run: Run, measurements: Sequence[Measurement]) -> Iterator[MetricVerdict]:
    context = run.context
    if not measurements:
        return
    history = earlier_populations(
        context.settings.store,
        node=context.node,
        hardware_class=context.hardware_class,
        profile=context.settings.profile,
        before=context.run_id,
    )
    if history:
        for judged in judge_by_history(_populations(run, measurements), history):
            yield from judged.values()


def _alone(verdict: MetricVerdict, change: str) -> MetricVerdict:
    """Return the warning about a change where nothing else is known about the metric."""
    return replace(
        verdict,
        outcome=Outcome.MARGINAL,
        reason=Reason.CHANGE_POINT,
        reference=Reference.SELF,
        population="the earlier values of this run",
        text=f"{verdict.metric} {change}; as a whole it could not be judged",
        evidence=tuple(dict.fromkeys((*verdict.evidence, change))),
    )


def _populations(run: Run, measurements: Iterable[Measurement]) -> tuple[Population, ...]:
    gather = Gather()
    for m in measurements:
        disturbed = Problem(kind="disturbed", text="; ".join(m.disturbance))
        gather.add(
            hardware_class=run.context.hardware_class,
            benchmark=m.benchmark,
            metric=m.metric,
            component=m.component,
            group=m.group,
            node=run.context.node,
            device=m.device,
            run=run.context.run_id,
            values=m.values,
            problem=disturbed if m.disturbance else None,
            looks=m.looks,
        )
    return gather.populations()
