"""Gathering samples from many runs into populations of comparable units."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np

from pytest_anubis.core.metric import Metric
from pytest_anubis.core.sample import FloatArray, IntArray, Population, Problem, problem_with

Key = tuple[str, str, str, str]  # hardware class, benchmark, metric name, group
Variant = tuple[str, str]  # unit, direction
T = TypeVar("T")


def key_of(population: Population) -> Key:
    """Return what makes units comparable: hardware class, benchmark, metric name, group."""
    return (
        population.hardware_class,
        population.benchmark,
        population.metric.name,
        population.group,
    )


def invalid_rows(
    values: FloatArray, offsets: IntArray, known: Iterable[int] = ()
) -> dict[int, Problem]:
    """Find the rows that cannot be samples: NaN, infinite, negative, or without a value.

    Args:
        values: Shape (total,).
        offsets: Shape (n + 1,), where each row's values begin and end.
        known: Rows that have a problem already; they are left out.

    Returns:
        Row -> problem, ``invalid`` or ``missing``.
    """
    bad = np.flatnonzero(~(np.isfinite(values) & (values >= 0)))
    rows = set((np.searchsorted(offsets, bad, side="right") - 1).tolist())
    empty = set(np.flatnonzero(np.diff(offsets) == 0).tolist())
    problems: dict[int, Problem] = {}
    for row in sorted((rows | empty).difference(known)):
        text = problem_with(values[offsets[row] : offsets[row + 1]].tolist()) or ""
        kind = "missing" if row in empty else "invalid"
        problems[row] = Problem(kind=kind, text="no value was recorded" if row in empty else text)
    return problems


@dataclass(slots=True)
class _Rows:
    """The samples of one key, as they come."""

    nodes: list[str] = field(default_factory=list)
    devices: list[str] = field(default_factory=list)
    runs: list[str] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    arrays: list[FloatArray] = field(default_factory=list)
    variants: list[Variant] = field(default_factory=list)
    problems: dict[int, Problem] = field(default_factory=dict)
    looks: dict[int, int] = field(default_factory=dict)
    paces: dict[int, Mapping[str, FloatArray]] = field(default_factory=dict)
    given: bool = False
    metrics: Counter[Metric] = field(default_factory=Counter)
    components: Counter[str] = field(default_factory=Counter)


class Gather:
    """Collects samples and makes populations of them; the order of adding does not matter."""

    def __init__(self) -> None:
        self._rows: dict[Key, _Rows] = {}
        self._whole: dict[Key, Population] = {}

    def add(
        self,
        *,
        hardware_class: str,
        benchmark: str,
        metric: Metric,
        component: str,
        group: str,
        node: str,
        device: str,
        run: str,
        values: Sequence[float],
        problem: Problem | None = None,
        looks: int = 1,
        pace: Iterable[tuple[str, Sequence[float]]] = (),
        given: bool = False,
    ) -> None:
        """Add one sample: all values of one metric from one unit in one run, in time order."""
        rows = self._open((hardware_class, benchmark, metric.name, group))
        if problem is not None:
            rows.problems[len(rows.nodes)] = problem
        rows.given |= given
        if looks > 1:
            rows.looks[len(rows.nodes)] = looks
        beside = {kind: _seconds(found, len(values)) for kind, found in pace}
        if beside:
            rows.paces[len(rows.nodes)] = beside
        rows.nodes.append(node)
        rows.devices.append(device)
        rows.runs.append(run)
        rows.sizes.append(len(values))
        rows.arrays.append(np.asarray(values, dtype=np.float64))
        rows.variants.append((metric.unit, metric.better))
        rows.metrics[metric] += 1
        rows.components[component] += 1

    def add_population(self, population: Population) -> None:
        """Add all samples of a population; one that stays alone for its key is used as it is."""
        key = key_of(population)
        if key in self._rows or key in self._whole:
            self._unpack(self._open(key), population)
        else:
            self._whole[key] = population

    def keys(self) -> list[tuple[Key, Metric, str]]:
        """Return every key so far with its most frequent metric and component."""
        found = [(key, p.metric, p.component) for key, p in self._whole.items()]
        for key, rows in self._rows.items():
            found.append((key, _most(rows.metrics), _most(rows.components)))
        return found

    def populations(self) -> tuple[Population, ...]:
        """Return the populations, sorted by key, their rows by node, device and run.

        A sample whose unit or direction is not that of most samples of its key keeps its row and has
        the problem ``unit``.
        """
        built = dict(self._whole)
        built.update((key, _build(key, rows)) for key, rows in self._rows.items())
        return tuple(built[key] for key in sorted(built))

    def _open(self, key: Key) -> _Rows:
        rows = self._rows.get(key)
        if rows is None:
            rows = self._rows[key] = _Rows()
            if key in self._whole:
                self._unpack(rows, self._whole.pop(key))
        return rows

    @staticmethod
    def _unpack(rows: _Rows, population: Population) -> None:
        first, count = len(rows.nodes), len(population)
        rows.problems.update((first + row, p) for row, p in population.problems.items())
        rows.looks.update((first + row, count) for row, count in population.looks.items())
        rows.given |= population.given
        if population.paces:
            rows.paces.update((first + row, population.pace(row)) for row in range(count))
        rows.nodes.extend(population.nodes)
        rows.devices.extend(population.devices)
        rows.runs.extend(population.runs)
        rows.sizes.extend(np.diff(population.offsets).tolist())
        rows.arrays.append(population.values)
        rows.variants.extend([(population.metric.unit, population.metric.better)] * count)
        rows.metrics[population.metric] += count
        rows.components[population.component] += count


def _most(counts: Counter[T]) -> T:
    """Return the most frequent item; ties go to the first in the order of their text."""
    return min(counts, key=lambda item: (-counts[item], repr(item)))


def _build(key: Key, rows: _Rows) -> Population:
    hardware_class, benchmark, _, group = key
    chosen = _most(Counter(rows.variants))
    metric = _most(Counter({m: n for m, n in rows.metrics.items() if (m.unit, m.better) == chosen}))
    flat = np.concatenate(rows.arrays) if rows.arrays else np.empty(0)
    units = list(zip(rows.nodes, rows.devices, rows.runs, strict=True))
    order = sorted(range(len(units)), key=units.__getitem__)
    problems = {row: rows.problems[i] for row, i in enumerate(order) if i in rows.problems}
    other = set()
    if len(set(rows.variants)) > 1:
        other = {i for i, variant in enumerate(rows.variants) if variant != chosen}
        problems |= {
            row: other_unit(rows.variants[i], chosen) for row, i in enumerate(order) if i in other
        }
    values, offsets = _reordered(flat, rows.sizes, order, other)
    population = Population(
        hardware_class=hardware_class,
        benchmark=benchmark,
        metric=metric,
        component=_most(rows.components),
        group=group,
        nodes=tuple(rows.nodes[i] for i in order),
        devices=tuple(rows.devices[i] for i in order),
        runs=tuple(rows.runs[i] for i in order),
        values=values,
        offsets=offsets,
        problems=problems,
        looks={row: rows.looks[i] for row, i in enumerate(order) if i in rows.looks},
        paces=_paces(rows, order, other),
        given=rows.given,
    )
    more = invalid_rows(population.values, offsets, problems)
    return replace(population, problems=problems | more) if more else population


def _seconds(found: Sequence[float], count: int) -> FloatArray:
    """Return the probe's seconds beside each value; NaN where they do not belong to these values."""
    return np.asarray(found, dtype=np.float64) if len(found) == count else np.full(count, np.nan)


def _paces(rows: _Rows, order: Sequence[int], other: Collection[int]) -> dict[str, FloatArray]:
    """Return what the probes took beside all values, in the order of the population's rows."""
    kinds = sorted({kind for one in rows.paces.values() for kind in one})
    nothing = {i: np.full(rows.sizes[i], np.nan) for i in order} if kinds else {}
    paces = {}
    for kind in kinds:
        parts = [rows.paces.get(i, {}).get(kind, nothing[i]) for i in range(len(rows.sizes))]
        paces[kind], _ = _reordered(np.concatenate(parts), rows.sizes, order, other)
    return paces


def _reordered(
    flat: FloatArray, sizes: Sequence[int], order: Sequence[int], other: Collection[int]
) -> tuple[FloatArray, IntArray]:
    """Put rows of different lengths into another order; those in `other` lose their values."""
    size = np.array(sizes, dtype=np.int64)
    starts = np.concatenate([[0], np.cumsum(size)])[:-1]
    size[list(other)] = 0
    starts, size = starts[order], size[order]
    offsets = np.concatenate([[0], np.cumsum(size)]).astype(np.int64)
    # Value k of the result lies as far behind its row's old start as behind its new one.
    where = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], size)
    return flat[where], offsets


def other_unit(found: Variant, expected: Variant) -> Problem:
    """Return the problem of a sample in another unit or direction than most of its population."""
    return Problem(
        kind="unit",
        text=f"recorded in {found[0]} ({found[1]}), most others in {expected[0]} ({expected[1]})",
    )
