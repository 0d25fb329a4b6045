"""Learn a whole baseline, for `anubis learn`: all criteria of one hardware class, with one stated error rate.

The limits are those of a fleet (`fleet_thresholds`) or of one machine's runs (`machine_thresholds`).
`class_learning` calls it through `pytest_anubis.validator`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from pytest_anubis.core.baseline import (
    ALPHA,
    ERROR_RATE,
    VIRTUAL,
    Baseline,
    Criterion,
    Exclusion,
    Finding,
    SelfCheck,
    Unjudged,
    UnlikeNode,
)
from pytest_anubis.core.gather import SampleStorage
from pytest_anubis.core.metric import metric_name
from pytest_anubis.core.sample import Population
from pytest_anubis.validator.changes.change_rate import change_rates
from pytest_anubis.validator.changes.segments import least_change
from pytest_anubis.validator.learning.criterion_learning import learn_criterion
from pytest_anubis.validator.learning.fleet_thresholds import fleet_thresholds
from pytest_anubis.validator.learning.healthy_tails import (
    HealthyTail,
    healthy_tails,
    of_enough_nodes,
    sick_nodes,
)
from pytest_anubis.validator.learning.learned_criterion import LearnedCriterion, LearnError
from pytest_anubis.validator.learning.learning_findings import learning_findings
from pytest_anubis.validator.learning.learning_steps import learned_of, tasks_of
from pytest_anubis.validator.learning.machine_thresholds import (
    DISKS,
    LASTING,
    beyond_loss,
    machine_thresholds,
    shared_loss,
)
from pytest_anubis.validator.learning.self_check import failed_nodes, movement_findings, self_check
from pytest_anubis.validator.learning.undecided_groups import decide_clusters, explained
from pytest_anubis.validator.limits.power import detectable
from pytest_anubis.validator.limits.promises import (
    Decision,
    apply_decision,
    promise_prices,
    that_can_fail,
    with_promises,
)
from pytest_anubis.validator.limits.tails import ONE_IN_TWENTY, Tail
from pytest_anubis.validator.similarity.centre import Method
from pytest_anubis.validator.similarity.component_means import Member, component_means

Progress = Callable[[int, int], None]


def learn_baseline(
    populations: Sequence[Population],
    *,
    hardware_class: str,
    attributes: Mapping[str, str] | None = None,
    created: str,
    alpha: float = ALPHA,
    method: Method = "median",
    error_rate: float | None = ERROR_RATE,
    node_attributes: Mapping[str, Mapping[str, str]] | None = None,
    one_machine: bool | None = None,
    promises: Mapping[str, float] | None = None,
    progress: Progress | None = None,
    executor: Executor | None = None,
    storage: SampleStorage | None = None,
    failed: Mapping[str, UnlikeNode] | None = None,
    decide: Callable[[Criterion], Decision] | None = None,
) -> Baseline:
    """Learn the baseline of one hardware class.

    Args:
        populations: One for each (benchmark, metric, group); all of one hardware class.
        hardware_class: Key of the class.
        attributes: The attributes from which the key was made.
        created: Date and time, ISO 8601, UTC.
        alpha: Practical threshold.
        method: ``median`` or ``medoid``.
        error_rate: Chance that a healthy node is rejected; None for alpha alone.
        node_attributes: Node -> attributes, to name the one that separates a subpopulation.
        one_machine: Whether all units are runs of one machine; None: if there is one node with several runs.
        promises: Metric or component (empty: all) -> loss, as a fraction of the value, that must fail.
        progress: Called with (done, all) after every criterion.
        executor: Learns the populations in parallel; the result is the same.
        storage: Storage for values that exceed the memory; the result is the same.
        failed: Nodes with a failed test that no sample shows.
        decide: Returns what was decided about a criterion's slower group of units; None: nothing.

    Raises:
        LearnError: No population, two hardware classes, two populations of one metric, mixed units, or a
            unit that appears twice in one run.
    """
    _check(populations, hardware_class)
    single = _one_machine(populations) if one_machine is None else one_machine
    tasks = tasks_of(populations, single)
    learned = learned_of(
        tasks, alpha=alpha, method=method, one_machine=single, executor=executor, storage=storage
    )
    results: list[LearnedCriterion] = []
    for done in learned:
        results.append(done)
        if progress is not None:
            progress(len(results), len(tasks))
    if not single:
        results = [explained(item, node_attributes) for item in decide_clusters(results)]
    found = [item for item in results if item.criterion is not None]
    limits = (
        _machine_limits(found, error_rate, virtual=(attributes or {}).get("memory") == VIRTUAL)
        if single
        else _fleet_limits(found, error_rate, executor, alpha, method)
    )
    found += limits.together
    criteria, tightened = with_promises(limits.criteria, limits.lucky, limits.tails, promises or {})
    criteria = tuple(_with_decision(one, decide) for one in criteria)
    nodes = tuple(sorted({node for p in populations for node in set(p.nodes)}))
    check: SelfCheck | None = None
    seen: tuple[Finding, ...] = ()
    if not single:
        check, seen = self_check(
            criteria,
            found,
            limits.healthy,
            limits.factor,
            error_rate,
            len({*nodes, *(failed or ())}),
            limits.sick,
            {**(failed or {}), **failed_nodes(populations)},
        )
        seen += movement_findings(found)
    criteria = _with_change_rates(criteria, found)
    criteria, useless = that_can_fail(criteria)
    means = {one.population.benchmark for one in limits.together}
    together = tuple(one for one in criteria if one.benchmark in means)
    criteria = tuple(one for one in criteria if one.benchmark not in means)
    return Baseline(
        hardware_class=hardware_class,
        attributes=dict(attributes or {}),
        criteria=_in_order(criteria),
        created=created,
        nodes=nodes,
        runs=tuple(sorted({run for p in populations for run in set(p.runs)} - {""})),
        one_machine=single,
        error_rate=error_rate,
        factor=limits.factor,
        method=method,
        exclusions=_exclusions(results),
        findings=(
            *seen,
            *learning_findings(
                results,
                criteria,
                limits.note,
                tightened,
                node_attributes,
                promise_prices(*limits[:3]),
            ),
            *tightened,
            *useless,
        ),
        unjudged=_unjudged(results, criteria, useless),
        self_check=check,
        promises=dict(promises or {}),
        together=_in_order(together),
    )


def _with_decision(
    criterion: Criterion, decide: Callable[[Criterion], Decision] | None
) -> Criterion:
    """Apply an operator's decision about a slower group, unless a promise decided already."""
    if decide is None or criterion.second is None or criterion.second.decided:
        return criterion
    what = decide(criterion)
    return apply_decision(criterion, what) if what else criterion


class Limits(NamedTuple):
    """Criteria with their thresholds, and what these rest on; one entry per criterion."""

    criteria: tuple[Criterion, ...]  # with thresholds
    lucky: tuple[float, ...]  # how much better than typical one healthy unit in twenty is
    tails: tuple[tuple[Tail, float] | None, ...]  # with the units of a node, if any
    healthy: tuple[HealthyTail | None, ...] = ()  # with the scores of every node
    factor: float | None = None  # rarity that rejects; None: alpha or the runs' spread decides
    note: str = ""  # a finding about all limits
    sick: tuple[str, ...] = ()  # nodes that are surely sick
    together: tuple[LearnedCriterion, ...] = ()  # criteria of whole components, the last entries


def _fleet_limits(
    found: Sequence[LearnedCriterion],
    error_rate: float | None,
    executor: Executor | None,
    alpha: float,
    method: Method,
) -> Limits:
    healthy = healthy_tails(found, executor=executor)
    sick = sick_nodes(healthy)
    if sick:
        healthy = healthy_tails(found, sick, executor)
    together = _component_criteria(found, healthy, alpha, method) if error_rate is not None else ()
    found, healthy = [*found, *together], [*healthy, *healthy_tails(together, sick, executor)]
    fleet = fleet_thresholds(found, healthy, error_rate=error_rate)
    return Limits(
        criteria=fleet.criteria,
        lucky=tuple(tail.lucky if tail else 0.0 for tail in healthy),
        tails=tuple((tail.tail, tail.each) if tail else None for tail in healthy),
        healthy=tuple(healthy),
        factor=fleet.factor,
        note=fleet.note,
        sick=tuple(sorted(sick)),
        together=together,
    )


def _component_criteria(
    found: Sequence[LearnedCriterion],
    healthy: Sequence[HealthyTail | None],
    alpha: float,
    method: Method,
) -> tuple[LearnedCriterion, ...]:
    """Learn the mean rates of components; their metrics already report findings such as slower groups."""
    members = (
        Member(
            replace(item.criterion, spread=tail.tail.scale), item.population, item.rows.medians()
        )
        for item, tail in zip(found, of_enough_nodes(healthy), strict=True)
        if item.criterion is not None and tail is not None and item.undecided is None
    )
    learned = (learn_criterion(one, alpha=alpha, method=method) for one in component_means(members))
    return tuple(
        replace(one, exclusions=(), findings=(), clusters=())
        for one in learned
        if one.criterion is not None and one.undecided is None
    )


def _check(populations: Sequence[Population], hardware_class: str) -> None:
    if not populations:
        raise LearnError("nothing to learn from: no population was given")
    seen: dict[tuple[str, str, str], Population] = {}
    checked: set[tuple[int, int, int]] = set()
    for population in populations:
        name = metric_name(population.benchmark, population.metric.name)
        if population.hardware_class not in ("", hardware_class):
            raise LearnError(
                f"{name}: hardware class {population.hardware_class!r} among runs of {hardware_class!r}; "
                "learn one baseline for each class"
            )
        key = population.series
        other = seen.setdefault(key, population)
        if other is not population:
            ours, theirs = population.metric, other.metric
            if (ours.unit, ours.better) != (theirs.unit, theirs.better):
                raise LearnError(
                    f"{name}: mixed units or directions ({theirs.unit}, {theirs.better} and "
                    f"{ours.unit}, {ours.better}); fix the benchmark or learn the runs apart"
                )
            raise LearnError(f"{name}: two populations of the same metric; join them into one")
        same = (id(population.nodes), id(population.devices), id(population.runs))
        if same not in checked:
            checked.add(same)
            _check_units(population, name)


def _check_units(population: Population, name: str) -> None:
    units = Counter(population.units())
    for (node, device, run), count in units.items():
        if count > 1:
            where = f" in run {run}" if run else ""
            raise LearnError(
                f"{name}: node {node!r}, device {device!r} appears twice{where}; "
                "give every run its id, or drop the duplicate"
            )


def _one_machine(populations: Sequence[Population]) -> bool:
    nodes = {node for population in populations for node in set(population.nodes)}
    runs = {run for population in populations for run in set(population.runs)}
    return len(nodes) == 1 and len(runs) > 1


def _machine_limits(
    found: Sequence[LearnedCriterion], error_rate: float | None, *, virtual: bool
) -> Limits:
    rate = ERROR_RATE if error_rate is None else error_rate
    spreads = [item.spread for item in found if item.spread is not None]
    thresholds = iter(machine_thresholds(spreads, error_rate=rate))
    out, lucky = [], []
    for item in found:
        criterion = item.criterion
        if criterion is None:
            continue
        own = 0.0
        if item.spread is not None:
            threshold = next(thresholds)
            note = (
                f"one machine: the limit is the spread of its {criterion.units} runs with a margin for how "
                "few they are; more runs tighten it"
            )
            loss = 0.0
            if virtual and not item.spread.card:
                loss = shared_loss(criterion.component, criterion.benchmark)
            if loss:
                threshold = beyond_loss(threshold, loss)
                note += f", down to a loss of {100 * loss:.0f} %: other virtual machines use the same part"
            # Values that a test recorded itself cannot be measured again before they fail.
            single = int(np.diff(item.population.offsets)[item.rows.usable].max()) == 1
            once = single or item.population.given
            limit = threshold.unconfirmed if once else threshold.confirmed
            own = ONE_IN_TWENTY * threshold.scale * (1.0 if once else math.sqrt(LASTING))
            criterion = replace(
                criterion,
                learned=threshold.confirmed,
                unconfirmed=threshold.unconfirmed,
                spread=threshold.scale,
                shared=loss > 0 and criterion.component.partition(".")[0] == DISKS,
                detectable=detectable(criterion.metric.better, min(criterion.alpha, limit), own),
                notes=(*criterion.notes, note),
            )
        out.append(criterion)
        lucky.append(own)
    return Limits(criteria=tuple(out), lucky=tuple(lucky), tails=(None,) * len(out))


def _with_change_rates(
    criteria: Sequence[Criterion], learned: Sequence[LearnedCriterion]
) -> tuple[Criterion, ...]:
    """Fill in how often healthy units change within a run; both arguments are in the same order."""
    places = [place for place, one in enumerate(criteria) if one.scope == "unit"]
    rates = change_rates(
        [
            (
                learned[place].population,
                np.flatnonzero(learned[place].rows.usable & ~learned[place].flagged).tolist(),
                least_change(criteria[place]),
            )
            for place in places
        ]
    )
    known = dict(zip(places, rates, strict=True))
    return tuple(
        replace(one, change_rate=known[place]) if known.get(place) is not None else one
        for place, one in enumerate(criteria)
    )


def _unjudged(
    results: Sequence[LearnedCriterion], criteria: Sequence[Criterion], useless: Sequence[Finding]
) -> tuple[Unjudged, ...]:
    """Return the measured metrics without a criterion, each with the first reason."""
    judged = {(criterion.benchmark, criterion.metric.name) for criterion in criteria}
    why = {(f.benchmark, f.metric): f.text.partition("no criterion, ")[2] for f in useless}
    found: dict[tuple[str, str], Unjudged] = {}
    for item in results:
        key = (item.population.benchmark, item.population.metric.name)
        reason = item.reason or why.get(key, "")
        if key not in judged and key not in found and reason:
            component = item.population.component
            found[key] = Unjudged(
                benchmark=key[0], metric=key[1], component=component, reason=reason
            )
    return tuple(found[key] for key in sorted(found))


def _in_order(criteria: Sequence[Criterion]) -> tuple[Criterion, ...]:
    return tuple(
        sorted(criteria, key=lambda c: (c.benchmark, c.metric.name, c.group, c.scope != "unit"))
    )


def _exclusions(results: Sequence[LearnedCriterion]) -> tuple[Exclusion, ...]:
    every = {exclusion for item in results for exclusion in item.exclusions}
    return tuple(sorted(every, key=lambda e: (e.benchmark, e.metric, e.node, e.device, e.reason)))
