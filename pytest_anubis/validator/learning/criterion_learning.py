"""Learn one criterion: the centre of a population, and its healthy units.

`learning_steps` calls it for a baseline, `history_judging` for a device's own runs. Limits come afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pytest_anubis.core.baseline import ALPHA, DOUBTFUL, MAX_MEDIANS, Criterion, Exclusion, Scope
from pytest_anubis.core.gather import SampleStorage
from pytest_anubis.core.metric import (
    Direction,
    distinguishing_decimals,
    first_of,
    loss_size,
    loss_text,
)
from pytest_anubis.core.sample import FloatArray, Population
from pytest_anubis.validator.learning.doubtful_values import (
    MAX_NODES_NAMED,
    clearly_slower,
    finding_on,
    never_normal,
    strange_finding,
    without_strange,
)
from pytest_anubis.validator.learning.learned_criterion import (
    LearnedCriterion,
    LearnError,
    learn_constant,
)
from pytest_anubis.validator.learning.machine_thresholds import machine_thresholds, run_spread
from pytest_anubis.validator.learning.subpopulations import cluster_finding, clusters
from pytest_anubis.validator.learning.undecided_groups import with_undecided
from pytest_anubis.validator.limits.healthy_null import HALF, healthy_null
from pytest_anubis.validator.limits.power import detectable
from pytest_anubis.validator.similarity.centre import (
    MIN_UNITS,
    Method,
    median_centre,
    medoid_row,
    repeatability,
)
from pytest_anubis.validator.similarity.distance import worse
from pytest_anubis.validator.similarity.partial_loss import part_text
from pytest_anubis.validator.similarity.pooling import pooled, usual_devices
from pytest_anubis.validator.similarity.too_good import EVEN, slip_between, strange_rows
from pytest_anubis.validator.similarity.usable_rows import (
    LARGE,
    BoolArray,
    UsableRows,
    distinct_codes,
    name_codes,
    rows_of,
    usual_rows,
)

WEAK = 4
"""Most units of a criterion that is marked weak: of four, two sick ones leave no majority."""
WITHIN_ALPHA, GAP = 0.75, 1.2
"""Without a majority within alpha, units beyond it are noise if WITHIN_ALPHA of the units in the healthy tail
are within alpha, and the nearest unit outside the tail lost GAP times as much as any in it. A judgement: a
quarter of the healthy units may be noise, and noise rarely leaves a gap of a fifth."""
MAX_DIFFERENT = 0.1
"""Share of the nodes, and at least one node, that may differ from the exact value of all others; if more do,
the others may be wrong."""
MIN_SAMPLE, SHORTER = 5, 4
"""A sample can be judged with MIN_SAMPLE values, or one in SHORTER of the smallest learned sample, so that
its median is no single value and a run that was cut short is recognised."""


def learn_criterion(
    population: Population,
    *,
    alpha: float = ALPHA,
    method: Method = "median",
    one_machine: bool = False,
    scope: Scope = "unit",
    storage: SampleStorage | None = None,
) -> LearnedCriterion:
    """Learn what is normal for one metric.

    The centre is the pointwise median of the quantile functions of the healthy units (or their medoid). Units
    whose one-sided similarity to it is below ``alpha`` are dropped, and the centre is learned anew until
    nothing changes; then all units are checked against the final centre. The order of the rows has no
    influence.

    Args:
        population: Samples of comparable units of one hardware class.
        alpha: Practical threshold, in (0, 1).
        method: ``median`` or ``medoid``.
        one_machine: All rows are runs of one machine: none is dropped. Callers replace the threshold later.
        scope: ``node`` pools the values of each node (and run) first.
        storage: Storage for values that exceed the memory.

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
        population = pooled(population, storage if population.values.nbytes > LARGE else None)
    rows = rows_of(population, storage)
    strange = strange_rows(rows, population.metric)
    if strange:
        population = without_strange(population, strange)
        rows = rows_of(population, storage)
    # A problem of pooled values is a problem of a device, which is reported there.
    known = () if scope == "unit" else population.problems
    exclusions = tuple(
        _exclusion(population, row, f"{problem.kind}: {problem.text}")
        for row, problem in sorted(rows.problems.items())
        if row not in known
    )
    too_few = _too_few(population, rows.usable)
    if too_few:
        learned = _no_criterion(rows, too_few)
    elif population.metric.better == "equal":
        learned = _exact(rows, scope)
    elif doubted := never_normal(rows):
        learned = _refused(rows, *doubted)
    elif one_machine:
        learned = _of_machine(rows, alpha, method, scope)
    else:
        learned = _of_fleet(rows, alpha, method, scope)
    findings = learned.findings
    if strange and scope == "unit":
        findings += (strange_finding(population, strange),)
    return replace(learned, exclusions=(*exclusions, *learned.exclusions), findings=findings)


def _of_fleet(rows: UsableRows, alpha: float, method: Method, scope: Scope) -> LearnedCriterion:
    columns = rows.quantile_columns(rows.grid())
    population, better = rows.population, rows.population.metric.better
    without_extra_runs = usual_rows(population, rows.usable)
    centre, (below, above), centred = _settled_centre(
        rows, columns, without_extra_runs, better, alpha, method
    )
    groups = clusters(rows, alpha, (below, above))
    findings = tuple(cluster_finding(rows, one, float(np.median(centre))) for one in groups)
    slower = np.zeros(rows.total, dtype=np.bool_)
    even = next((one for one in groups if EVEN <= one.share <= 1 - EVEN), None)
    if even is not None:
        # Chance decides which of two nearly equal groups is larger, so the faster one is the centre.
        faster = even.side == better
        slower = rows.usable & ~even.members if faster else even.members
        if factor := slip_between(rows, slower):
            why = f"two groups of nearly one size differ by a factor of {factor}: another unit?"
            return _refused(rows, _rows(slower), why)
        centre, (below, above), centred = _settled_centre(
            rows, columns, rows.usable & ~slower, better, alpha, method
        )
    losses = worse(below, above, better)
    flagged = rows.usable & (np.nan_to_num(losses) > 1 - alpha)
    slower = slower & flagged
    healthy = rows.usable & ~flagged
    excluded = tuple(_too_far(population, losses, flagged & ~slower, alpha, centre.tolist()))
    why = _no_majority(
        population,
        without_extra_runs & ~slower,
        healthy & without_extra_runs,
        below + above,
        losses,
    )
    if why:
        sick = clearly_slower(population, losses, without_extra_runs & flagged, healthy)
        sick = sick if scope == "unit" else []  # pooled values repeat what the units show
        return replace(_refused(rows, sick, why), exclusions=excluded)
    learned = LearnedCriterion(
        criterion=_criterion(rows, columns, centre, healthy, alpha, scope),
        exclusions=excluded,
        findings=findings,
        losses=losses,
        gains=below + above - losses,
        flagged=flagged,
        rows=rows,
        centred=centred & (method == "median"),
        clusters=groups,
    )
    return with_undecided(learned, slower) if slower.any() else learned


def _settled_centre(
    rows: UsableRows,
    columns: FloatArray,
    members: BoolArray,
    better: Direction,
    alpha: float,
    method: Method,
) -> tuple[FloatArray, tuple[FloatArray, FloatArray], BoolArray]:
    """Return the centre of the members close to it, all units' distances below and above it, and the members.

    If the members spread too far, none is close to the centre, and all of them remain.
    """
    while True:
        centre = _centre(rows, columns, members, method)
        below, above = rows.sides(centre)
        flagged = rows.usable & (np.nan_to_num(worse(below, above, better)) > 1 - alpha)
        kept = members & ~flagged
        if not kept.any() or kept.sum() == members.sum():
            return centre, (below, above), members
        members = kept


def _of_machine(rows: UsableRows, alpha: float, method: Method, scope: Scope) -> LearnedCriterion:
    columns = rows.quantile_columns(rows.grid())
    centre = _centre(rows, columns, rows.usable, method)
    losses = rows.losses(centre, rows.population.metric.better)
    criterion = _criterion(rows, columns, centre, rows.usable, alpha, scope)
    spread = run_spread(rows, centre)
    [threshold] = machine_thresholds([spread])
    return LearnedCriterion(
        criterion=replace(
            criterion,
            learned=threshold.confirmed,
            unconfirmed=threshold.unconfirmed,
            spread=threshold.scale,
        ),
        losses=losses,
        flagged=np.zeros(rows.total, dtype=np.bool_),
        rows=rows,
        spread=spread,
    )


def _exact(rows: UsableRows, scope: Scope) -> LearnedCriterion:
    population = rows.population
    constant, flagged = learn_constant(rows)
    right = population.metric.right
    if right is not None and constant != right:
        wrong = [row for row in _rows(rows.usable) if (population.sample(row) != right).any()]
        if not wrong:
            constant, flagged = right, np.zeros(rows.total, dtype=np.bool_)
        else:
            return _refused(rows, wrong, f"{right:g} is right, and others have other values")
    if constant is None:
        reason = "fewer than half of the units agree on one value"
        return _refused(rows, _rows(rows.usable), reason)
    odd = sorted({population.nodes[row] for row in _rows(flagged)})
    if right is None and len(odd) > max(1, MAX_DIFFERENT * len({*population.nodes})):
        return _refused(rows, _rows(flagged), f"not all but a few nodes agree on {constant:g}")
    centre, healthy = np.array([constant]), rows.usable & ~flagged
    return LearnedCriterion(
        criterion=_criterion(rows, np.empty((0, rows.total)), centre, healthy, ALPHA, scope),
        exclusions=tuple(
            _exclusion(population, row, f"differs from the exact value {constant:g}")
            for row in _rows(flagged)
        ),
        losses=rows.losses(centre, "equal"),
        flagged=flagged,
        rows=rows,
    )


def _centre(
    rows: UsableRows, columns: FloatArray, members: BoolArray, method: Method
) -> FloatArray:
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
    rows: UsableRows,
    columns: FloatArray,
    centre: FloatArray,
    healthy: BoolArray,
    alpha: float,
    scope: Scope,
) -> Criterion:
    population, medians = rows.population, np.sort(rows.medians()[healthy])
    if len(medians) > MAX_MEDIANS:
        places = np.linspace(0, len(medians) - 1, MAX_MEDIANS)
        medians = medians[np.round(places).astype(np.int64)]
    nodes, count = _count(population, healthy)
    exact = population.metric.better == "equal"
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
        units=int(healthy.sum()),
        devices=usual_devices(population) if scope == "unit" else (),
        least=max(1, min(MIN_SAMPLE, min(rows.sizes, default=0) // SHORTER)),
        weak=count <= WEAK,
    )


def _count(population: Population, members: BoolArray) -> tuple[int, int]:
    """Return how many distinct nodes there are, and how many units count as independent."""
    _, codes = name_codes(population.nodes)
    nodes = len(distinct_codes(codes[members]))
    return nodes, nodes if nodes != 1 else int(members.sum())


def _too_few(population: Population, usable: BoolArray) -> str:
    nodes, count = _count(population, usable)
    if count >= MIN_UNITS:
        return ""
    what = "usable unit" if nodes <= 1 else "node"
    return f"{count} {what}{'s' if count != 1 else ''}, at least {MIN_UNITS} needed for a criterion"


def _no_majority(
    population: Population,
    usable: BoolArray,
    healthy: BoolArray,
    apart: FloatArray,
    losses: FloatArray,
) -> str:
    """Return why the healthy units are no majority, or ''.

    Units beyond alpha that continue the healthy units' tail without a gap are noise. They count for the
    majority, not for the criterion. If there are several nodes, a node counts as one unit.
    """
    nodes, units = _count(population, healthy)
    after = units if _count(population, usable)[0] == 1 else nodes
    whole = int(usable.sum())
    if after >= MIN_UNITS and 2 * int(healthy.sum()) >= whole:
        return ""
    if after >= MIN_UNITS:
        signed = np.where(usable, 2 * losses - apart, np.nan)
        own = usable & (healthy_null(signed, healthy).healthy(signed) >= HALF)
        mostly = 2 * int(own.sum()) >= whole and int(healthy.sum()) >= WITHIN_ALPHA * int(own.sum())
        if mostly and losses[usable & ~own].min(initial=1.0) > GAP * losses[own].max():
            return ""
    return (
        f"no majority: {int(healthy.sum())} of {whole} units agree within the limit; "
        "learn the parts of the fleet apart, or look for what differs between them"
    )


def _no_criterion(rows: UsableRows, reason: str) -> LearnedCriterion:
    finding = finding_on(rows.population, "no-criterion", f"no criterion, {reason}")
    return LearnedCriterion(
        criterion=None,
        reason=reason,
        findings=(finding,),
        losses=np.full(rows.total, np.nan),
        flagged=np.zeros(rows.total, dtype=np.bool_),
        rows=rows,
    )


def _refused(rows: UsableRows, odd: Sequence[int], why: str) -> LearnedCriterion:
    """Refuse a criterion, and name the nodes with odd rows, because an engineer must look at their values."""
    if not odd:
        return _no_criterion(rows, why)
    names = sorted({rows.population.nodes[row] for row in odd})
    learned = _no_criterion(rows, f"{why}: {first_of(names, MAX_NODES_NAMED)}")
    return replace(learned, findings=(replace(learned.findings[0], kind=DOUBTFUL),))


def _rows(members: BoolArray) -> list[int]:
    return np.flatnonzero(members).tolist()


def _exclusion(population: Population, row: int, reason: str) -> Exclusion:
    return Exclusion(
        node=population.nodes[row],
        device=population.devices[row],
        benchmark=population.benchmark,
        metric=population.metric.name,
        reason=reason,
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
    for row in _rows(flagged):
        alike = max(0.0, 1 - float(losses[row]))
        decimals = distinguishing_decimals(alike, alpha, better)
        part = part_text(population.sample(row), alike, centre, better, unit)
        loss = loss_text(
            alike, better, unit, than="the centre", shape=bool(part), decimals=decimals
        )
        loss += f" in its distribution ({part})" if part else ""
        text = f"{loss}, and {loss_size(alpha, better, decimals)} still counts as healthy here"
        found.append(_exclusion(population, row, text))
    return found
