"""Learning a whole baseline: all criteria of one hardware class, with one stated error rate."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial

import numpy as np

from pytest_anubis.core.baseline import (
    ALPHA,
    ERROR_RATE,
    Baseline,
    Criterion,
    Exclusion,
    Finding,
    Scope,
    cannot_fail,
)
from pytest_anubis.core.sample import Population
from pytest_anubis.validator.changes.steady_state import shortest_window
from pytest_anubis.validator.learning.criterion_learning import (
    LearnedCriterion,
    LearnError,
    detectable,
    learn_criterion,
)
from pytest_anubis.validator.learning.fleet_thresholds import (
    CONFIDENCE,
    HealthyTail,
    fleet_thresholds,
    healthy_tail,
)
from pytest_anubis.validator.learning.machine_thresholds import machine_thresholds
from pytest_anubis.validator.learning.pace_learning import paced_forms, paces_of, with_paced
from pytest_anubis.validator.learning.subpopulations import subpopulation_findings
from pytest_anubis.validator.similarity.centre import Method

Progress = Callable[[int, int], None]
Learned = tuple[LearnedCriterion, "HealthyTail | None"]


def learn_baseline(
    populations: Sequence[Population],
    *,
    hardware_class: str,
    attributes: Mapping[str, str] | None = None,
    created: str,
    alpha: float = ALPHA,
    method: Method = "median",
    error_rate: float | None = ERROR_RATE,
    confidence: float | None = CONFIDENCE,
    node_attributes: Mapping[str, Mapping[str, str]] | None = None,
    one_machine: bool | None = None,
    progress: Progress | None = None,
    executor: Executor | None = None,
) -> Baseline:
    """Learn the baseline of one hardware class.

    Args:
        populations: One for each (benchmark, metric, group); all of one hardware class.
        hardware_class: Key of the class.
        attributes: What the key was made of.
        created: Date and time, ISO 8601, UTC (this room has no clock).
        alpha: Practical threshold.
        method: ``median`` or ``medoid``.
        error_rate: Chance that a healthy node is beyond any learned threshold; None for alpha alone.
        confidence: Wanted confidence of that rate.
        node_attributes: Node -> attributes, to name what separates a subpopulation.
        one_machine: Whether all units are runs of one machine; None: they are, if there is one node and
            more than one run of it.
        progress: Called with (done, all) after every criterion.
        executor: Learns the populations in parallel; the result is the same.

    Raises:
        LearnError: No population, two hardware classes, two populations of one metric, mixed units, or a
            unit that appears twice in one run.
    """
    _check(populations, hardware_class)
    single = _one_machine(populations) if one_machine is None else one_machine
    tasks = _tasks(populations, single)
    together = len(tasks) if error_rate is not None and not single else 0
    learn = partial(_learn, alpha=alpha, method=method, one_machine=single, together=together)
    results: list[Learned] = []
    for done in executor.map(learn, tasks) if executor else map(learn, tasks):
        results.append(done)
        if progress is not None:
            progress(len(results), len(tasks))
    found = [result for result in results if result[0].criterion is not None]
    forms = paced_forms([item for item, _ in found], alpha, method, single)
    beside = [(one.learned, _tail(one.learned, together)) for one in forms]
    for population in paces_of(populations, forms):  # the pace itself is judged as well
        results.append(learn((population, "unit")))
        found += [results[-1]] if results[-1][0].criterion is not None else []
    if single:
        rate = (error_rate or ERROR_RATE) / (2 if forms else 1)  # either form may reject
        criteria, factor, reached, notes = _machine(found, rate), None, None, ""
        of_forms = _machine(beside, rate)
    else:
        fleet = fleet_thresholds(
            [item for item, _ in found + beside],
            [tail for _, tail in found + beside],
            error_rate=error_rate,
            confidence=confidence,
        )
        factor, reached, notes = fleet.factor, fleet.confidence, fleet.note
        criteria, of_forms = fleet.criteria[: len(found)], fleet.criteria[len(found) :]
    criteria = with_paced(criteria, forms, of_forms)
    criteria, useless = _that_can_fail(criteria)
    return Baseline(
        hardware_class=hardware_class,
        attributes=dict(attributes or {}),
        criteria=_in_order(criteria),
        created=created,
        nodes=tuple(sorted({node for p in populations for node in set(p.nodes)})),
        runs=tuple(sorted({run for p in populations for run in set(p.runs)} - {""})),
        one_machine=single,
        error_rate=error_rate,
        confidence=reached,
        factor=factor,
        method=method,
        exclusions=_exclusions(results),
        findings=(*_findings(results, criteria, notes, alpha, node_attributes), *useless),
    )


def _learn(
    task: tuple[Population, Scope],
    *,
    alpha: float,
    method: Method,
    one_machine: bool,
    together: int,
) -> Learned:
    population, scope = task
    learned = learn_criterion(
        population, alpha=alpha, method=method, one_machine=one_machine, scope=scope
    )
    if learned.criterion is not None and scope == "unit" and population.metric.better != "equal":
        window = shortest_window(population, learned.rows.usable & ~learned.flagged)
        learned = replace(learned, criterion=replace(learned.criterion, window=window))
    return learned, _tail(learned, together)


def _tail(learned: LearnedCriterion, together: int) -> HealthyTail | None:
    return healthy_tail(learned, criteria=together) if together else None


def _tasks(populations: Sequence[Population], single: bool) -> list[tuple[Population, Scope]]:
    tasks: list[tuple[Population, Scope]] = []
    for population in populations:
        tasks.append((population, "unit"))
        several = len(set(population.nodes)) < len(
            set(zip(population.nodes, population.devices, strict=True))
        )
        if several and not single and population.metric.better != "equal":
            tasks.append((population, "node"))
    return tasks


def _check(populations: Sequence[Population], hardware_class: str) -> None:
    if not populations:
        raise LearnError("nothing to learn from: no population was given")
    seen: dict[tuple[str, str, str], Population] = {}
    checked: set[tuple[int, int, int]] = set()
    for population in populations:
        name = f"{population.benchmark} {population.metric.name}"
        if population.hardware_class not in ("", hardware_class):
            raise LearnError(
                f"{name}: hardware class {population.hardware_class!r} among runs of {hardware_class!r}; "
                "learn one baseline for each class"
            )
        key = (population.benchmark, population.metric.name, population.group)
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
    units = list(zip(population.nodes, population.devices, population.runs, strict=True))
    if len(set(units)) == len(units):
        return
    known: set[tuple[str, str, str]] = set()
    for node, device, run in units:
        if (node, device, run) in known:
            where = f" in run {run}" if run else ""
            raise LearnError(
                f"{name}: node {node!r}, device {device!r} appears twice{where}; "
                "give every run its id, or drop the duplicate"
            )
        known.add((node, device, run))


def _one_machine(populations: Sequence[Population]) -> bool:
    nodes = {node for population in populations for node in set(population.nodes)}
    runs = {run for population in populations for run in set(population.runs)}
    return len(nodes) == 1 and len(runs) > 1


def _machine(found: Sequence[Learned], error_rate: float) -> tuple[Criterion, ...]:
    noisy = [item for item, _ in found if item.spread is not None]
    thresholds = machine_thresholds(
        [item.spread for item in noisy if item.spread is not None],
        error_rate=error_rate,
    )
    by_item = {id(item): found for item, found in zip(noisy, thresholds, strict=True)}
    out = []
    for item, _ in found:
        criterion = item.criterion
        if criterion is None:
            continue
        if id(item) in by_item:
            threshold = by_item[id(item)]
            criterion = replace(
                criterion,
                learned=threshold.confirmed,
                unconfirmed=threshold.unconfirmed,
                spread=threshold.scale,
                detectable=detectable(
                    criterion.metric.better, criterion.alpha, threshold.confirmed
                ),
                notes=(
                    *criterion.notes,
                    f"one machine: the limit is the spread of its {criterion.units} runs with a margin "
                    "for how few they are; more runs tighten it",
                ),
            )
        out.append(criterion)
    return tuple(out)


def _that_can_fail(
    criteria: Sequence[Criterion],
) -> tuple[tuple[Criterion, ...], tuple[Finding, ...]]:
    """Leave out criteria that no sample could fail, and say so: being judged by them means nothing."""
    kept, findings = [], []
    for criterion in criteria:
        why = cannot_fail(criterion)
        if not why:
            kept.append(criterion)
            continue
        name = criterion.metric.name
        text = f"{name}: no criterion, it could never fail: {why}"
        findings.append(
            Finding(kind="no-criterion", benchmark=criterion.benchmark, metric=name, text=text)
        )
    return tuple(kept), tuple(findings)


def _in_order(criteria: Sequence[Criterion]) -> tuple[Criterion, ...]:
    return tuple(
        sorted(criteria, key=lambda c: (c.benchmark, c.metric.name, c.group, c.scope != "unit"))
    )


def _exclusions(results: Sequence[Learned]) -> tuple[Exclusion, ...]:
    every = {exclusion for item, _ in results for exclusion in item.exclusions}
    return tuple(sorted(every, key=lambda e: (e.benchmark, e.metric, e.node, e.device, e.reason)))


def _findings(
    results: Sequence[Learned],
    criteria: Sequence[Criterion],
    note: str,
    alpha: float,
    node_attributes: Mapping[str, Mapping[str, str]] | None,
) -> tuple[Finding, ...]:
    found: list[Finding] = []
    for item, _ in results:
        findings = item.findings
        if findings and item.criterion is not None and node_attributes:
            centre = np.asarray(item.criterion.centre)
            findings = subpopulation_findings(
                item.population, item.rows, centre, alpha, node_attributes
            )
        found.extend(findings)
    for criterion in criteria:
        text = _unrepeatable(criterion)
        if text:
            found.append(
                Finding(
                    kind="not-repeatable",
                    benchmark=criterion.benchmark,
                    metric=criterion.metric.name,
                    text=text,
                )
            )
    found.sort(key=lambda f: (f.kind, f.benchmark, f.metric, f.text))
    if note:
        found.insert(0, Finding(kind="few-nodes", text=note))
    return tuple(dict.fromkeys(found))


def _unrepeatable(criterion: Criterion) -> str:
    """Say so when a metric cannot show a loss as small as alpha asks for."""
    if criterion.metric.better == "equal" or criterion.repeatability is None:
        return ""
    loose = criterion.learned is not None and criterion.learned < criterion.alpha
    if criterion.repeatability >= criterion.alpha and not loose:
        return ""
    detects = (
        f"; it shows losses of {criterion.detectable:.1%} and more" if criterion.detectable else ""
    )
    return (
        f"{criterion.metric.name} repeats to {criterion.repeatability:.2%} and cannot show a loss of "
        f"{1 - criterion.alpha:.1%}{detects}"
    )
