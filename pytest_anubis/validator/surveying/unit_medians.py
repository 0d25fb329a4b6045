"""Arrange the samples of a class in a table: a row for each run of a node, a column for each metric.

`trait_shifts` and `metric_drift` search it; the worst device of a node counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from pytest_anubis.core.metric import Metric
from pytest_anubis.core.sample import FloatArray, Population
from pytest_anubis.validator.similarity.usable_rows import rows_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """The metric of one column."""

    benchmark: str
    metric: Metric
    component: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UnitMedians:
    """Medians of a class's samples relative to typical values of the class."""

    hardware_class: str  # the class
    columns: tuple[Column, ...]  # its metrics, except exact ones
    nodes: tuple[str, ...]  # length n, the node of each row
    runs: tuple[str, ...]  # length n, the run of each row
    # Shape (n, columns): ratio to the typical value, inverted if lower is better, so that 1 is
    # typical and less is worse. The worst device counts. NaN if nothing usable was measured.
    goodness: FloatArray

    def by_node(
        self, started: Mapping[tuple[str, str], float] = MappingProxyType({})
    ) -> tuple[tuple[str, ...], FloatArray]:
        """Return the nodes in order, and the latest goodness of each, shape (nodes, columns).

        The median of runs of the same time counts, and runs without a time are all such.
        """
        names = sorted(set(self.nodes))
        place = {name: number for number, name in enumerate(names)}
        codes = np.array([place[name] for name in self.nodes], dtype=np.int64)
        times = np.array(
            [started.get(unit, 0.0) for unit in zip(self.runs, self.nodes, strict=True)]
        )
        order = np.lexsort((times, codes))
        cuts = np.searchsorted(codes[order], np.arange(len(names) + 1))
        found = np.full((len(names), len(self.columns)), np.nan)
        for number in range(len(names)):
            rows = order[cuts[number] : cuts[number + 1]]
            moments = np.flatnonzero(np.diff(times[rows])) + 1
            for same in np.split(self.goodness[rows], moments):  # later runs overwrite earlier ones
                now = same[0] if len(same) == 1 else _median(same)
                np.copyto(found[number], now, where=~np.isnan(now))
        return tuple(names), found


def unit_medians(populations: Iterable[Population]) -> list[UnitMedians]:
    """Return one table for each hardware class, without exact metrics.

    The groups of a metric become one column, each relative to what is typical of the group.
    """
    by_class: dict[str, list[Population]] = {}
    for one in populations:
        if one.metric.better != "equal" and len(one):
            by_class.setdefault(one.hardware_class, []).append(one)
    return [_table(key, found) for key, found in sorted(by_class.items())]


def _table(key: str, populations: Sequence[Population]) -> UnitMedians:
    names: dict[tuple[str, str], Column] = {}
    for one in populations:
        column = Column(benchmark=one.benchmark, metric=one.metric, component=one.component)
        names.setdefault((one.benchmark, one.metric.name), column)
    units = sorted({unit for one in populations for unit in zip(one.nodes, one.runs, strict=True)})
    place = {unit: number for number, unit in enumerate(units)}
    columns = {name: number for number, name in enumerate(names)}
    goodness = np.full((len(units), len(columns)), np.nan)
    last: tuple[Sequence[str], Sequence[str], np.ndarray] | None = None
    for one in populations:
        if last is None or one.nodes != last[0] or one.runs != last[1]:  # most have the same rows
            rows = np.array([place[unit] for unit in zip(one.nodes, one.runs, strict=True)])
            last = (one.nodes, one.runs, rows)
        values = goodness[:, columns[one.benchmark, one.metric.name]]
        np.fmin.at(values, last[2], _goodness(one))
    return UnitMedians(
        hardware_class=key,
        columns=tuple(names.values()),
        nodes=tuple(node for node, _ in units),
        runs=tuple(run for _, run in units),
        goodness=goodness,
    )


def _goodness(population: Population) -> FloatArray:
    """Return how good each row is relative to the typical one, shape (rows,); NaN without a usable sample."""
    medians = rows_of(population).medians()
    usable = np.isfinite(medians) & (medians > 0)
    found = np.full(len(population), np.nan)
    if usable.any():
        typical = float(np.median(medians[usable]))
        ratio = medians[usable] / typical
        found[usable] = ratio if population.metric.better == "higher" else 1 / ratio
    return found


def _median(values: FloatArray) -> FloatArray:
    """Return the median of each column, NaN for columns without a value."""
    known = ~np.isnan(values).all(axis=0)
    found = np.full(values.shape[1], np.nan)
    found[known] = np.nanmedian(values[:, known], axis=0)
    return found
