"""Average a unit's losses over all metrics of one component.

A card that is 8 % slower in both precisions of a benchmark with 3 % noise is sick, although neither metric
shows it. The mean of all its losses does. Losses are logarithms of the unit's medians over typical medians,
each weighted by one over the square of the scale of its metric's healthy tail. The mean is judged like any
other metric; its healthy spread, learned from the same fleet, includes the noise that its members share.
`baseline_learning`, `column_judging` and `shared_parts` use it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from pytest_anubis.core.baseline import Criterion
from pytest_anubis.core.metric import Metric, whole_of
from pytest_anubis.core.sample import FloatArray, Population

MIN_METRICS = 2
"""Fewest metrics of a component that are averaged."""
MAX_METRICS_NAMED = 3
"""Metrics in the name of a mean."""
MIN_SPREAD = 1e-3
"""Smallest spread in a weight: otherwise very quiet metrics would determine the mean alone."""


class Member(NamedTuple):
    """One metric of a component."""

    criterion: Criterion  # its criterion, with its spread
    population: Population  # its units
    medians: FloatArray  # shape (n,), the median of each unit; NaN where it is not to be used


def component_means(members: Iterable[Member]) -> Iterator[Population]:
    """Yield for each component the mean rate of all units that have all its metrics; 1 is typical.

    Exact metrics and metrics of groups or whole nodes are not averaged. If a component is measured on several
    kinds of devices, the kind with most metrics counts. Each metric of the class may occur once.
    """
    found: dict[str, dict[tuple[str, ...], list[Member]]] = {}
    for one in members:
        criterion = one.criterion
        rate = criterion.metric.better != "equal" and criterion.typical > 0
        if rate and criterion.component and criterion.scope == "unit" and not criterion.group:
            kinds = found.setdefault(criterion.component, {})
            kinds.setdefault(criterion.devices, []).append(one)
    for component, kinds in sorted(found.items()):
        some = max(kinds.values(), key=len)
        if len(some) >= MIN_METRICS:
            some.sort(key=lambda one: (one.criterion.benchmark, one.criterion.metric.name))
            yield _mean(component, some)


def _mean(component: str, members: Sequence[Member]) -> Population:
    first = members[0].population
    keys = list(first.units())
    lost, total = np.zeros(len(keys)), 0.0
    for one in members:
        weight = max(one.criterion.spread, MIN_SPREAD) ** -2
        lost += weight * _aligned(keys, one)
        total += weight
    known = np.flatnonzero(np.isfinite(lost))
    names = [one.criterion.metric.name for one in members]
    more = [f"{len(names) - MAX_METRICS_NAMED} more"] if len(names) > MAX_METRICS_NAMED else []
    return Population(
        hardware_class=first.hardware_class,
        benchmark=whole_of(component),
        metric=Metric(
            name=f"mean of {', '.join([*names[:MAX_METRICS_NAMED], *more])}",
            unit="1",
            better="higher",
            question=f"How quick is {component} by {', '.join(names)} together?",
            action=members[0].criterion.metric.action,
        ),
        component=component,
        nodes=tuple(first.nodes[row] for row in known.tolist()),
        devices=tuple(first.devices[row] for row in known.tolist()),
        runs=tuple(first.runs[row] for row in known.tolist()),
        values=np.exp(-lost[known] / total),
        offsets=np.arange(len(known) + 1),
    )


def _aligned(keys: Sequence[tuple[str, str, str]], member: Member) -> FloatArray:
    """Return the logarithmic loss of each unit in `keys`; NaN if it has none."""
    values, typical = member.medians, member.criterion.typical
    with np.errstate(divide="ignore", invalid="ignore"):
        losses = np.log(typical) - np.log(values)
    if member.criterion.metric.better == "lower":
        losses = -losses
    own = list(member.population.units())
    if own == keys:
        return np.asarray(losses)
    place = dict(zip(own, losses.tolist(), strict=True))
    return np.array([place.get(key, np.nan) for key in keys])
