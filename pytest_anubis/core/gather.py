"""Samples of many runs gathered into populations of comparable units, for learning and judging."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeVar

import numpy as np

from pytest_anubis.core.metric import Metric, Variant
from pytest_anubis.core.sample import (
    FloatArray,
    IntArray,
    Population,
    SampleProblem,
    unusable_reason,
    values_of,
)

Key = tuple[str, str, str, str]  # hardware class, benchmark, metric name, group
T = TypeVar("T")

PENDING = 1 << 25
"""Bytes of samples written to the storage at a time: 32 MiB fill long stretches of a file."""
OBJECT = 128
"""Bytes that a sample takes in memory besides its values."""
CHUNK = 1 << 20
"""Values reordered at a time on their way to the storage: 8 MiB, and as much for their indices."""


class SampleStorage(Protocol):
    """Storage for samples that exceed the memory."""

    def append(self, name: str, values: FloatArray) -> None:
        """Append values to those of this name."""

    def pop(self, name: str) -> FloatArray:
        """Return all values of a name as one array, which may be on disk; pop no name twice."""

    def keep(self, parts: Iterable[FloatArray]) -> FloatArray:
        """Return parts of any shape as one array, which may be on disk."""

    def release(self) -> None:
        """Free memory that can be read again from disk."""


def key_of(population: Population) -> Key:
    """Return the key that comparable units share: hardware class, benchmark, metric name, group."""
    return (
        population.hardware_class,
        population.benchmark,
        population.metric.name,
        population.group,
    )


def invalid_rows(
    values: FloatArray, offsets: IntArray, known: Iterable[int] = ()
) -> dict[int, SampleProblem]:
    """Return the rows that cannot be samples: NaN, infinite, negative (``invalid``), or empty (``missing``).

    Each row's values (total,) begin and end at offsets (n + 1,). Rows that already have a problem, the known
    ones, are skipped.
    """
    found = [np.empty(0, dtype=np.int64)]
    for start in range(0, len(values), CHUNK):
        part = values[start : start + CHUNK]
        found.append(start + np.flatnonzero(~(np.isfinite(part) & (part >= 0))))
    bad = np.concatenate(found)
    rows = set((np.searchsorted(offsets, bad, side="right") - 1).tolist())
    empty = set(np.flatnonzero(np.diff(offsets) == 0).tolist())
    problems: dict[int, SampleProblem] = {}
    for row in sorted((rows | empty).difference(known)):
        text = unusable_reason(values[offsets[row] : offsets[row + 1]]) or ""
        kind = "missing" if row in empty else "invalid"
        problems[row] = SampleProblem(
            kind=kind, text="no value was recorded" if row in empty else text
        )
    return problems


@dataclass(slots=True, kw_only=True)
class _KeySamples:
    """The samples of one key in order of arrival; values of earlier ones are in the storage, if any."""

    name: str  # in the storage
    arrays: list[FloatArray] = field(default_factory=list)  # values in memory
    nodes: list[str] = field(default_factory=list)
    devices: list[str] = field(default_factory=list)
    runs: list[str] = field(default_factory=list)
    sizes: array[int] = field(default_factory=lambda: array("q"))
    variants: list[Variant] = field(default_factory=list)
    problems: dict[int, SampleProblem] = field(default_factory=dict)
    looks: dict[int, int] = field(default_factory=dict)
    given: bool = False
    metrics: Counter[Metric] = field(default_factory=Counter)
    components: Counter[str] = field(default_factory=Counter)

    def write(self, storage: SampleStorage) -> None:
        """Move the values in memory to the storage."""
        if self.arrays:
            storage.append(self.name, np.concatenate(self.arrays))
            self.arrays.clear()

    def values(self, storage: SampleStorage | None) -> FloatArray:
        if storage is None:
            return np.concatenate(self.arrays) if self.arrays else np.empty(0)
        self.write(storage)
        return storage.pop(self.name)


_WITHOUT_VALUES = ("failed", "waived", "missing")
"""Kinds of problems that do not depend on the values."""


class Gather:
    """Collector of samples that builds populations of them; the order of adding does not matter.

    Args:
        storage: Storage for values that exceed the memory; None: all stay in memory.
    """

    def __init__(self, storage: SampleStorage | None = None) -> None:
        self._rows: dict[Key, _KeySamples] = {}
        self._whole: dict[Key, Population] = {}
        self._storage = storage
        self._pending = 0

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
        problem: SampleProblem | None = None,
        looks: int = 1,
        given: bool = False,
    ) -> None:
        """Add one sample: all values of one metric from one unit in one run, in time order."""
        rows = self._open((hardware_class, benchmark, metric.name, group))
        if problem is not None:
            rows.problems[len(rows.nodes)] = problem
        rows.given |= given
        if looks > 1:
            rows.looks[len(rows.nodes)] = looks
        rows.nodes.append(node)
        rows.devices.append(device)
        rows.runs.append(run)
        rows.sizes.append(len(values))
        self._take(rows, np.asarray(values, dtype=np.float64))
        rows.variants.append(metric.variant)
        rows.metrics[metric] += 1
        rows.components[component] += 1

    def add_population(self, population: Population) -> None:
        """Add all samples of a population; the only one of its key is used unchanged."""
        key = key_of(population)
        if key in self._rows or key in self._whole:
            self._unpack(self._open(key), population)
        elif self._storage is None:
            self._whole[key] = population
        else:
            self._whole[key] = replace(population, values=self._storage.keep([population.values]))

    def keys(self) -> list[tuple[Key, Metric, str]]:
        """Return every key so far with its most frequent metric and component."""
        found = [(key, p.metric, p.component) for key, p in self._whole.items()]
        for key, rows in self._rows.items():
            found.append((key, _most(rows.metrics), _most(rows.components)))
        return found

    def populations(self) -> tuple[Population, ...]:
        """Return the populations, sorted by key, their rows by node, device and run.

        A sample whose unit or direction is not that of most samples of its key keeps its row and has
        the problem ``unit``; one of an earlier version than the newest of these the problem ``version``.
        """
        built = dict(self._whole)
        for key in list(self._rows) if self._storage is None else sorted(self._rows):
            built[key] = _build(key, self._rows[key], self._storage)
        return tuple(built[key] for key in sorted(built))

    def _open(self, key: Key) -> _KeySamples:
        rows = self._rows.get(key)
        if rows is None:
            rows = self._rows[key] = _KeySamples(name=f"{len(self._rows)}")
            if key in self._whole:
                self._unpack(rows, self._whole.pop(key))
        return rows

    def _unpack(self, rows: _KeySamples, population: Population) -> None:
        first, count = len(rows.nodes), len(population)
        rows.problems.update((first + row, p) for row, p in population.problems.items())
        rows.looks.update((first + row, count) for row, count in population.looks.items())
        rows.given |= population.given
        rows.nodes.extend(population.nodes)
        rows.devices.extend(population.devices)
        rows.runs.extend(population.runs)
        rows.sizes.extend(np.diff(population.offsets).tolist())
        self._take(rows, population.values)
        rows.variants.extend([population.metric.variant] * count)
        rows.metrics[population.metric] += count
        rows.components[population.component] += count

    def _take(self, of_key: _KeySamples, values: FloatArray) -> None:
        of_key.arrays.append(values)
        if self._storage is None:
            return
        self._pending += values.nbytes + OBJECT
        if self._pending > PENDING:
            for rows in self._rows.values():
                rows.write(self._storage)
            self._pending = 0


def _most(counts: Counter[T]) -> T:
    """Return the most frequent item; ties go to the first in the order of their text."""
    return min(counts, key=lambda item: (-counts[item], repr(item)))


def _build(key: Key, rows: _KeySamples, storage: SampleStorage | None) -> Population:
    """Return the population of a key, its rows sorted; rows of another variant lose their values."""
    hardware_class, benchmark, _, group = key
    usual = _most(Counter(variant[:2] for variant in rows.variants))
    chosen = max(variant for variant in rows.variants if variant[:2] == usual)
    metric = _most(Counter({m: n for m, n in rows.metrics.items() if m.variant == chosen}))
    if len({m.nominal and m.nominal.value for m in rows.metrics if m.variant == chosen}) > 1:
        metric = replace(metric, nominal=None)  # that of one kind of link says nothing about others
    units = list(zip(rows.nodes, rows.devices, rows.runs, strict=True))
    order = sorted(range(len(units)), key=units.__getitem__)
    problems = {row: rows.problems[i] for row, i in enumerate(order) if i in rows.problems}
    other = set()
    if len(set(rows.variants)) > 1:
        other = {i for i, variant in enumerate(rows.variants) if variant != chosen}
        problems |= {
            row: other_variant(rows.variants[i], chosen)
            for row, i in enumerate(order)
            if i in other and not _keeps_problem(rows, i, usual)
        }
    size = np.array(rows.sizes, dtype=np.int64)
    begins = np.concatenate([[0], np.cumsum(size)]).astype(np.int64)[:-1]
    size[list(other)] = 0
    size = size[order]
    offsets = np.concatenate([[0], np.cumsum(size)]).astype(np.int64)
    values = reordered(rows.values(storage), begins[order], offsets, storage)
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
        given=rows.given,
    )
    more = invalid_rows(population.values, offsets, problems)
    return replace(population, problems=problems | more) if more else population


def _keeps_problem(rows: _KeySamples, row: int, usual: tuple[str, str]) -> bool:
    """Return whether a row keeps its problem although its version differs: a failed test has failed."""
    known = rows.problems.get(row)
    return rows.variants[row][:2] == usual and known is not None and known.kind in _WITHOUT_VALUES


def reordered(
    flat: FloatArray, begins: IntArray, offsets: IntArray, storage: SampleStorage | None
) -> FloatArray:
    """Return `values_of` rows in another order; they go to the storage, if there is one."""
    if storage is None:
        return values_of(flat, begins, offsets)
    return storage.keep(_parts(flat, begins, offsets, storage))


def _parts(
    flat: FloatArray, begins: IntArray, offsets: IntArray, storage: SampleStorage
) -> Iterator[FloatArray]:
    """Yield the values of one row at a time, or of several that have `CHUNK` values together."""
    first = 0
    while first < len(begins):
        last = max(first + 1, int(np.searchsorted(offsets, offsets[first] + CHUNK)))
        part = offsets[first : last + 1]
        yield values_of(flat, begins[first : first + len(part) - 1], part - part[0])
        storage.release()
        first = last


def other_variant(found: Variant, expected: Variant) -> SampleProblem:
    """Return the problem of a sample in another unit, direction or version than its population."""
    if found[:2] == expected[:2]:
        return SampleProblem(
            kind="version",
            text=f"measured by version {found[2]} of its benchmark, others by version {expected[2]}",
        )
    return SampleProblem(
        kind="unit",
        text=f"recorded in {found[0]} ({found[1]}), most others in {expected[0]} ({expected[1]})",
    )
