"""Learning one criterion: the centre of a population, who belongs to it, and who does not."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from pytest_anubis.core.baseline import ALPHA, MOST_MEDIANS, Criterion, Exclusion, Finding, Scope
from pytest_anubis.core.gather import Shelf
from pytest_anubis.core.metric import Direction, loss_size, loss_text, told_apart
from pytest_anubis.core.sample import FloatArray, Population
from pytest_anubis.validator.learning.learned_criterion import (
    LearnedCriterion,
    LearnError,
    learn_constant,
)
from pytest_anubis.validator.learning.machine_thresholds import machine_thresholds, run_spread
from pytest_anubis.validator.learning.subpopulations import (
    cluster_finding,
    clusters,
)
from pytest_anubis.validator.learning.undecided_groups import with_undecided
from pytest_anubis.validator.limits.majority import (
    WIDEST,
    count_of,
    may_be_broad,
    no_majority,
    too_few,
)
from pytest_anubis.validator.limits.power import detectable
from pytest_anubis.validator.similarity.centre import (
    Method,
    median_centre,
    medoid_row,
    repeatability,
)
from pytest_anubis.validator.similarity.distance import worse
from pytest_anubis.validator.similarity.partial_loss import part_text
from pytest_anubis.validator.similarity.pooling import pooled
from pytest_anubis.validator.similarity.usable_rows import (
    LARGE,
    BoolArray,
    Rows,
    rows_of,
    usual_rows,
)
from pytest_anubis.validator.similarity.usual_devices import usual_devices

WEAK = 4
"""A criterion of so few units is marked weak: of four, two sick ones leave no majority."""
EVEN = 0.35
"""Of two groups that each have at least this share (`Cluster.share`), which is the larger one is luck."""
ENOUGH_VALUES, SHORTER = 5, 4
"""A sample with this many values, or a quarter of the smallest one learned from, can be judged: its median is
then no single value's, and a run that was cut short is told from one that was not."""


def learn_criterion(
    population: Population,
    *,
    alpha: float = ALPHA,
    method: Method = "median",
    one_machine: bool = False,
    scope: Scope = "unit",
    shelf: Shelf | None = None,
) -> LearnedCriterion:
    """Learn what is normal for one metric.

    The centre is the pointwise median of the quantile functions of the units still believed healthy
    (or their medoid). Units whose one-sided similarity to it is below ``alpha`` are dropped and the
    centre is learned anew until nothing changes; then all units are checked against the final centre.
    The order of the rows has no influence.

    Args:
        population: Samples of comparable units of one hardware class.
        alpha: Practical threshold, in (0, 1).
        method: ``median`` or ``medoid``.
        one_machine: All rows are runs of one machine: nothing is dropped, and the spread of the runs
            gives the threshold.
        scope: ``node`` pools the values of each node (and run) first.
        shelf: Where values are sorted that are too many for the memory; None: in memory.

    Returns:
        The criterion, or the reason why there is none; never an exception for bad samples.

    Raises:
        LearnError: ``alpha`` or ``method`` is out of range.
    """
    if not 0 < alpha < 1:
        raise LearnError(f"alpha={alpha!r} must lie between 0 and 1, e.g. 0.95")
    if method not in ("median", "medoid"):
        raise LearnError(f"method={method!r} is unknown; say 'median' or 'medoid'")
    if scope == "node":
        population = pooled(population, shelf if population.values.nbytes > LARGE else None)
    rows = rows_of(population, shelf)
    # A node's values lack what one of its devices lacks: that stands with the device, once.
    exclusions = _unusable(population, rows, () if scope == "unit" else population.problems)
    if few := too_few(population, rows.usable):
        return _without(population, rows, few, exclusions)
    if population.metric.better == "equal":
        return _exact(population, rows, scope, exclusions)
    if one_machine:
        return _of_machine(population, rows, alpha, method, scope, exclusions)
    within, first = alpha, None
    while within >= WIDEST or first is None:
        found = _of_fleet(population, rows, alpha, within, method, scope, exclusions)
        if found.criterion is not None or not may_be_broad(population, rows):
            return found
        within, first = 2 * within - 1, first or found
    return first


def _of_fleet(
    population: Population,
    rows: Rows,
    alpha: float,
    within: float,
    method: Method,
    scope: Scope,
    exclusions: tuple[Exclusion, ...],
) -> LearnedCriterion:
    columns = rows.quantile_columns(rows.grid())
    better = population.metric.better
    usual = usual_rows(population, rows.usable)
    centre, (below, above), centred = _settled_centre(rows, columns, usual, better, within, method)
    beside = clusters(population, rows, within, (below, above))
    findings = tuple(
        cluster_finding(population, rows, one, float(np.median(centre))) for one in beside
    )
    slower = np.zeros(rows.total, dtype=np.bool_)
    even = next((one for one in beside if EVEN <= one.share(rows.usable) <= 1 - EVEN), None)
    if even is not None:
        # Of two groups of nearly one size, which is the larger one is luck: the faster one is the centre.
        faster = even.side == better
        slower = rows.usable & ~even.members if faster else even.members
        centre, (below, above), centred = _settled_centre(
            rows, columns, rows.usable & ~slower, better, within, method
        )
    losses = worse(below, above, better)
    flagged = rows.usable & (np.nan_to_num(losses) > 1 - within)
    slower = slower & flagged
    healthy = rows.usable & ~flagged
    excluded = exclusions + tuple(
        _too_far(population, losses, flagged & ~slower, within, centre.tolist())
    )
    minority = no_majority(
        population, usual & ~slower, healthy & usual, below + above, losses, broad=within < alpha
    )
    if minority:
        return _without(population, rows, minority, excluded)
    learned = LearnedCriterion(
        population=population,
        criterion=_criterion(population, rows, columns, centre, healthy, alpha, scope),
        exclusions=excluded,
        findings=findings,
        losses=losses,
        gains=below + above - losses,
        flagged=flagged,
        rows=rows,
        centred=centred & (method == "median"),
        clusters=beside,
    )
    return with_undecided(learned, slower) if slower.any() else learned


def _settled_centre(
    rows: Rows,
    columns: FloatArray,
    members: BoolArray,
    better: Direction,
    within: float,
    method: Method,
) -> tuple[FloatArray, tuple[FloatArray, FloatArray], BoolArray]:
    """Return the centre of those that are close to it, all units' distances below and above it, and those."""
    while True:
        centre = _centre(rows, columns, members, method)
        below, above = rows.sides(centre)
        flagged = rows.usable & (np.nan_to_num(worse(below, above, better)) > 1 - within)
        kept = members & ~flagged
        if kept.sum() in (
            0,
            members.sum(),
        ):  # of what spreads too far nobody is close to the centre
            return centre, (below, above), members
        members = kept


def _of_machine(
    population: Population,
    rows: Rows,
    alpha: float,
    method: Method,
    scope: Scope,
    exclusions: tuple[Exclusion, ...],
) -> LearnedCriterion:
    columns = rows.quantile_columns(rows.grid())
    centre = _centre(rows, columns, rows.usable, method)
    losses = rows.losses(centre, population.metric.better)
    criterion = _criterion(population, rows, columns, centre, rows.usable, alpha, scope)
    spread = run_spread(population, rows, centre)
    [threshold] = machine_thresholds([spread])
    return LearnedCriterion(
        population=population,
        criterion=replace(
            criterion,
            learned=threshold.confirmed,
            unconfirmed=threshold.unconfirmed,
            spread=threshold.scale,
        ),
        exclusions=exclusions,
        losses=losses,
        flagged=np.zeros(rows.total, dtype=np.bool_),
        rows=rows,
        spread=spread,
    )


def _exact(
    population: Population, rows: Rows, scope: Scope, exclusions: tuple[Exclusion, ...]
) -> LearnedCriterion:
    constant, flagged = learn_constant(population, rows)
    if constant is None:
        return _without(
            population, rows, "fewer than half of the units agree on one value", exclusions
        )
    healthy = rows.usable & ~flagged
    criterion = _criterion(
        population, rows, np.empty((0, rows.total)), np.array([constant]), healthy, ALPHA, scope
    )
    excluded = tuple(
        _exclusion(population, row, f"differs from the exact value {constant:g}")
        for row in np.flatnonzero(flagged).tolist()
    )
    return LearnedCriterion(
        population=population,
        criterion=criterion,
        exclusions=exclusions + excluded,
        losses=rows.losses(np.array([constant]), "equal"),
        flagged=flagged,
        rows=rows,
    )


def _centre(rows: Rows, columns: FloatArray, members: BoolArray, method: Method) -> FloatArray:
    if method == "median":
        return median_centre(columns, members)
    row = medoid_row(rows, members)
    for block in rows.blocks:
        place = np.flatnonzero(block.index == row)
        if len(place):
            sample = block.values[place[0]].astype(np.float64)
            if len(sample) <= rows.grid():
                return np.asarray(sample)
            return np.asarray(columns[:, row], dtype=np.float64)
    raise LearnError("the medoid is not among the usable rows")


def _criterion(
    population: Population,
    rows: Rows,
    columns: FloatArray,
    centre: FloatArray,
    healthy: BoolArray,
    alpha: float,
    scope: Scope,
) -> Criterion:
    medians = np.sort(rows.medians()[healthy])
    if len(medians) > MOST_MEDIANS:
        places = np.linspace(0, len(medians) - 1, MOST_MEDIANS)
        medians = medians[np.round(places).astype(np.int64)]
    units = int(healthy.sum())
    nodes, count = count_of(population, healthy)
    exact = population.metric.better == "equal"
    smallest = rows.smallest()
    return Criterion(
        benchmark=population.benchmark,
        metric=population.metric,
        component=population.component,
        group=population.group,
        scope=scope,
        centre=tuple(centre.tolist()),
        alpha=alpha,
        repeatability=1.0 if exact else repeatability(columns, healthy),
        detectable=None if exact else detectable(population.metric.better, alpha),
        medians=tuple(medians.tolist()),
        nodes=nodes,
        units=units,
        devices=usual_devices(population) if scope == "unit" else (),
        least=max(1, min(ENOUGH_VALUES, smallest // SHORTER)),
        weak=count <= WEAK,
    )


def _without(
    population: Population, rows: Rows, reason: str, exclusions: tuple[Exclusion, ...]
) -> LearnedCriterion:
    finding = Finding(
        kind="no-criterion",
        benchmark=population.benchmark,
        metric=population.metric.name,
        text=f"{population.metric.name}: no criterion, {reason}",
    )
    return LearnedCriterion(
        population=population,
        criterion=None,
        reason=reason,
        exclusions=exclusions,
        findings=(finding,),
        losses=np.full(rows.total, np.nan),
        flagged=np.zeros(rows.total, dtype=np.bool_),
        rows=rows,
    )


def _exclusion(population: Population, row: int, reason: str) -> Exclusion:
    return Exclusion(
        node=population.nodes[row],
        device=population.devices[row],
        benchmark=population.benchmark,
        metric=population.metric.name,
        reason=reason,
    )


def _unusable(population: Population, rows: Rows, told: Collection[int]) -> tuple[Exclusion, ...]:
    """Return the rows that cannot be used, but for those that are told elsewhere."""
    return tuple(
        _exclusion(population, row, f"{problem.kind}: {problem.text}")
        for row, problem in sorted(rows.problems.items())
        if row not in told
    )


def _too_far(
    population: Population,
    losses: FloatArray,
    flagged: BoolArray,
    alpha: float,
    centre: Sequence[float],
) -> list[Exclusion]:
    better, unit = population.metric.better, population.metric.unit
    found = []
    for row in np.flatnonzero(flagged).tolist():
        alike = max(0.0, 1 - float(losses[row]))
        decimals = told_apart(alike, alpha, better)
        part = part_text(population.sample(row), alike, centre, better, unit)
        said = loss_text(
            alike, better, unit, than="the centre", shape=bool(part), decimals=decimals
        )
        said += f" in its distribution ({part})" if part else ""
        text = f"{said}, beyond the limit of {loss_size(alpha, better, decimals)}"
        found.append(_exclusion(population, row, text))
    return found
