"""Find drift, for the fleet's pages: metrics that become worse on all nodes of a class as time goes by.

`view_building` uses it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from pytest_anubis.core.baseline import ERROR_RATE
from pytest_anubis.core.fleet_survey import (
    MIN_MOMENTS,
    MIN_NODES,
    DriftMoment,
    MetricDrift,
    TraitShift,
)
from pytest_anubis.core.sample import FloatArray, IntArray
from pytest_anubis.validator.changes.trend import rising_chance
from pytest_anubis.validator.surveying.trait_shifts import MIN_CHANGE
from pytest_anubis.validator.surveying.unit_medians import UnitMedians

MOMENTS = 20
"""Most stretches of time. Half of them in perfect order have a chance of one in millions, enough for hundreds
of metrics."""
DAY = 86400.0
"""Shortest stretch in seconds, since a fleet is measured rack by rack within a day."""


def metric_drifts(
    table: UnitMedians,
    started: Mapping[tuple[str, str], float],
    shifts: Sequence[TraitShift] = (),
) -> list[MetricDrift]:
    """Return every metric of a class over time, those that drift first, the greatest loss first.

    The time between the first and the last run is cut into equal stretches. A metric drifts if the medians of
    the stretches fall (Mann 1945, Kendall 1938) beyond chance, corrected for the number of metrics
    (Bonferroni), and the last third of them is more than `MIN_CHANGE` worse than the first. Runs (run, node)
    that did not start at a known time (seconds since 1970) are ignored, and so are the groups of `shifts`: a
    slow batch that was measured last is no drift.
    """
    times = np.array(
        [started.get(unit, np.nan) for unit in zip(table.runs, table.nodes, strict=True)]
    )
    dated = np.isfinite(times)
    if not dated.any():
        return []
    first, last = float(times[dated].min()), float(times[dated].max())
    count = min(MOMENTS, int((last - first) / DAY))
    if count < 2:
        return []
    edges = np.linspace(first, last, count + 1)
    stretch = np.full(len(times), -1, dtype=np.int64)
    stretch[dated] = np.clip(np.searchsorted(edges, times[dated], side="right") - 1, 0, count - 1)
    goodness = _without(table, shifts)
    nodes = np.unique(np.array(table.nodes), return_inverse=True)[1]
    found = [
        _drift(table, c, goodness[:, c], stretch, edges, nodes) for c in range(len(table.columns))
    ]
    return sorted(found, key=lambda one: (not one.drifts, one.similarity))


def _without(table: UnitMedians, shifts: Sequence[TraitShift]) -> FloatArray:
    goodness = table.goodness.copy()
    place = {(c.benchmark, c.metric.name): n for n, c in enumerate(table.columns)}
    for shift in shifts:
        members = set(shift.nodes)
        rows = np.array([node in members for node in table.nodes])
        columns = np.array(
            [place[one.benchmark, one.metric.name] for one in shift.metrics], dtype=np.intp
        )
        goodness[np.ix_(rows, columns)] = np.nan
    return goodness


def _drift(
    table: UnitMedians,
    column: int,
    goodness: FloatArray,
    stretch: IntArray,
    edges: FloatArray,
    nodes: IntArray,
) -> MetricDrift:
    usable = ~np.isnan(goodness) & (stretch >= 0)
    moments = []
    for number in range(len(edges) - 1):
        inside = usable & (stretch == number)
        measured = len(np.unique(nodes[inside]))
        if measured < MIN_NODES:
            continue
        low, middle, high = np.quantile(goodness[inside], (0.1, 0.5, 0.9)).tolist()
        moments.append(
            DriftMoment(
                begin=float(edges[number]), end=float(edges[number + 1]), nodes=measured,
                middle=middle, low=low, high=high,
            )
        )  # fmt: skip
    similarity, chance = 1.0, 1.0
    if len(moments) >= MIN_MOMENTS:
        middles = np.array([one.middle for one in moments])
        third = len(middles) // 3
        similarity = min(1.0, float(np.median(middles[-third:]) / np.median(middles[:third])))
        chance = min(1.0, rising_chance(-middles) * len(table.columns))
    known = table.columns[column]
    return MetricDrift(
        hardware_class=table.hardware_class,
        benchmark=known.benchmark,
        metric=known.metric,
        component=known.component,
        moments=tuple(moments),
        similarity=similarity,
        chance=chance,
        drifts=similarity < 1 - MIN_CHANGE and chance < ERROR_RATE,
    )
