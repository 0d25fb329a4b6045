"""Judge at a run's end what no single test can: pooled values, component means, peers and earlier runs.

`run_decision.decide_run` calls it; `anubis judge` has whole populations instead.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from pytest_anubis.core.baseline import VIRTUAL, Baseline, Criterion
from pytest_anubis.core.gather import Gather
from pytest_anubis.core.measurement import Measurement
from pytest_anubis.core.onset import Onset
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.sample import Population, SampleProblem
from pytest_anubis.core.verdict import MetricVerdict, Outcome, Reason, Reference
from pytest_anubis.validator.changes.onset_sensors import onset_of
from pytest_anubis.validator.changes.segments import changes_of, with_segments
from pytest_anubis.validator.judging.column_judging import (
    judge_columns,
    judge_components,
    judge_populations,
)
from pytest_anubis.validator.judging.device_split import split_by_device
from pytest_anubis.validator.judging.history_judging import judge_by_history
from pytest_anubis.validator.judging.peer_judging import judge_by_peers
from pytest_anubis.validator.judging.sample_judging import UNREFERENCED

History = Callable[[], Sequence[Population]]
"""Returns what the node measured in earlier runs; called only if needed, since reading takes time."""

Key = tuple[str, str, str]
"""Benchmark, metric, device."""

_CONCLUSIVE = (Outcome.PASS, Outcome.MARGINAL, Outcome.FAIL)


def comparisons(run: RunRecord, baseline: Baseline | None, history: History) -> list[MetricVerdict]:
    """Judge what the tests could not judge one by one.

    The node's pooled values are held against the baseline's criteria for whole nodes. A metric without a
    criterion is compared with the other devices of this node, or else with its own earlier runs, and a change
    within its run is reported; neither can accept a node. A metric that passes only because its limit is wide
    is also compared with the node's other devices. The mean rate of a whole component is held against the
    baseline's `together` criteria, since small losses add up. A verdict names the test that measured it, one
    on pooled values that of the first device, one on a component none.
    """
    open_ones = {
        (v.benchmark, v.metric, v.device): v for v in run.verdicts if v.reason in UNREFERENCED
    }
    criteria = baseline.criteria if baseline else ()
    whole = [c for c in criteria if c.scope == "node"]
    hidden = {(v.benchmark, v.metric) for v in run.verdicts if v.reason is Reason.UNDETECTABLE}
    together = baseline.together if baseline else ()
    if not open_ones and not whole and not hidden and not together:
        return []
    broken = _failed_by_themselves(run)
    latest = {
        (m.benchmark, m.metric.name, m.device): m for m in run.measurements if m.test not in broken
    }
    found = list(_pooled(run, baseline, whole, list(latest.values())))
    found += _slower_devices(run, baseline, hidden, list(latest.values()))
    if baseline and together:
        columns = judge_populations(_populations(run, latest.values()), baseline)
        for judged in judge_components(columns, baseline):
            found += judged.verdicts(baseline)
    # Peers and earlier runs may be wrong alike, so they clear nothing whose right value is known.
    known = (key for key in open_ones if key in latest and latest[key].metric.right is None)
    unreferenced = {key: latest[key] for key in known}
    compared = _compared(run, unreferenced, open_ones, history)
    # Peers or earlier runs may all be as far below the nominal rate, and do not clear it.
    return found + [
        replace(verdict, test=unreferenced[key].test, nominal=unreferenced[key].metric.nominal)
        for key, verdict in compared.items()
        if verdict.outcome is Outcome.FAIL or open_ones[key].reason is not Reason.BELOW_NOMINAL
    ]


def _failed_by_themselves(run: RunRecord) -> set[str]:
    """Return the tests that failed for another reason than a verdict on what they measured."""
    judged = {v.test for v in run.verdicts if v.outcome in (Outcome.FAIL, Outcome.MARGINAL)}
    return {
        result.test
        for result in run.results
        if result.outcome in ("error", "crashed")
        or (result.outcome == "failed" and result.test not in judged)
    }


def _pooled(
    run: RunRecord,
    baseline: Baseline | None,
    criteria: Sequence[Criterion],
    measurements: Sequence[Measurement],
) -> Iterator[MetricVerdict]:
    for criterion in criteria:
        name = (criterion.benchmark, criterion.metric.name, criterion.group)
        mine = [m for m in measurements if (m.benchmark, m.metric.name, m.group) == name]
        planned = {p.device for p in run.planned if p.benchmark == criterion.benchmark}
        # Values without one device are not comparable; the missing device blocks by itself.
        if len(mine) < 2 or planned != {m.device for m in mine}:
            continue
        if planned < set(run.devices):  # some of the node's devices are not the whole node
            continue
        for population in _populations(run, mine):
            judged = judge_columns(population, criterion, baseline=baseline)
            for verdict in judged.verdicts(baseline):
                yield replace(verdict, test=mine[0].test)


def _slower_devices(
    run: RunRecord,
    baseline: Baseline | None,
    hidden: Collection[tuple[str, str]],
    measurements: Sequence[Measurement],
) -> Iterator[MetricVerdict]:
    """Yield verdicts on devices that pass only because limits are wide, and are slower than the others."""
    for criterion in baseline.criteria if baseline else ():
        name = (criterion.benchmark, criterion.metric.name)
        if criterion.scope == "node" or name not in hidden:
            continue
        mine = [
            m
            for m in measurements
            if (m.benchmark, m.metric.name) == name and m.group == criterion.group
        ]
        tests = {m.device: m.test for m in mine}
        for population in _populations(run, mine):
            judged = split_by_device(judge_columns(population, criterion, baseline=baseline))
            for row in judged.splits:
                found = judged.verdict(row, baseline)
                yield replace(found, test=tests[found.device])


def _compared(
    run: RunRecord,
    unreferenced: Mapping[Key, Measurement],
    open_ones: Mapping[Key, MetricVerdict],
    history: History,
) -> dict[Key, MetricVerdict]:
    found: dict[Key, MetricVerdict] = {}
    for judged in judge_by_peers(
        _populations(run, _of_several_devices(run, unreferenced.values()))
    ):
        for verdict in judged.verdicts():
            _keep(found, verdict)
    rest = [m for key, m in unreferenced.items() if key not in found]
    earlier = history() if rest else ()
    virtual = run.attributes.get("memory") == VIRTUAL
    now = _populations(run, rest) if earlier else ()
    for by_row in judge_by_history(now, earlier, virtual=virtual):
        for verdict in by_row.values():
            _keep(found, verdict)
    for key, measurement in unreferenced.items():
        change = changes_of(measurement)
        if key in found:
            known = replace(found[key], evidence=measurement.evidence)
            found[key] = with_segments(known, change, onset_of(measurement, change))
        elif change.change and change.change.lasting and not measurement.disturbance:
            text = change.sentence(measurement.metric.better, measurement.metric.unit)
            found[key] = _changed(open_ones[key], text, onset_of(measurement, change))
    return found


def _of_several_devices(run: RunRecord, measurements: Iterable[Measurement]) -> list[Measurement]:
    """Return the measurements of metrics that more than one device has; others have no peers.

    Other hosts and ways to them are no devices of this node.
    """
    several: dict[tuple[str, str, str], list[Measurement]] = {}
    for m in measurements:
        if not run.devices or set(run.devices).issuperset(m.device.split(">")):
            several.setdefault((m.benchmark, m.metric.name, m.group), []).append(m)
    return [m for members in several.values() if len(members) > 1 for m in members]


def _keep(found: dict[Key, MetricVerdict], verdict: MetricVerdict) -> None:
    if verdict.outcome in _CONCLUSIVE or verdict.reason is Reason.DISTURBED:
        found[verdict.benchmark, verdict.metric, verdict.device] = verdict


def _changed(verdict: MetricVerdict, change: str, onset: Onset | None) -> MetricVerdict:
    """Return a warning about a change in a metric that could not be judged otherwise."""
    return replace(
        verdict,
        outcome=Outcome.MARGINAL,
        reason=Reason.CHANGE_POINT,
        reference=Reference.SELF,
        population="the earlier values of this run",
        text=f"{verdict.metric} {change}; as a whole it could not be judged",
        evidence=tuple(dict.fromkeys((*verdict.evidence, *([] if onset else [change])))),
        onset=onset,
    )


def _populations(run: RunRecord, measurements: Iterable[Measurement]) -> tuple[Population, ...]:
    gather = Gather()
    excused, heat = run.excused, run.ambient_overheating
    for m in measurements:
        what = (*m.disturbance, heat) if m.test in excused else m.disturbance
        if m.metric.better == "equal":  # neither load nor heat makes a result wrong
            what = ()
        gather.add(
            hardware_class=run.hardware_class,
            benchmark=m.benchmark,
            metric=m.metric,
            component=m.component,
            group=m.group,
            node=run.node,
            device=m.device,
            run=run.run,
            values=m.values,
            problem=SampleProblem(kind="disturbed", text="; ".join(what)) if what else None,
            looks=m.looks,
        )
    return gather.populations()
