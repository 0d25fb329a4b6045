"""Arrange the usable rows of a population in blocks of one size, so that every step is vectorised.

`usual_rows` keeps nodes that were measured far more often than others from determining the centre.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from pytest_anubis.core.gather import SampleStorage
from pytest_anubis.core.metric import Direction
from pytest_anubis.core.sample import (
    HIGH,
    FloatArray,
    IntArray,
    Population,
    SampleProblem,
    unusable_reason,
)
from pytest_anubis.validator.similarity.distance import losses, worse

GRID = 256
"""Most quantiles that a centre keeps, so that a baseline stays readable. Samples of one size up to this lose
nothing, and nearly all are such (60 values and fifteen looks are 240); in longer samples a step is .4 % of
the values."""
BLOCK = 1 << 20
"""Elements of one temporary array: 8 MiB of doubles."""

LARGE = 1 << 28
"""Bytes of a population's values from which they are sorted in the storage, if there is one: 131,072 units of
256, which take four times as much when they are sorted in memory."""
COLUMNS = 16
"""Quantiles that are read from the storage at a time: 128 MB for a million units, in sixteen passes for all
256."""

BoolArray = np.ndarray[tuple[int], np.dtype[np.bool_]]


@lru_cache(maxsize=32)  # a few lists of nodes, devices and runs for each class
def _codes(names: tuple[str, ...]) -> tuple[tuple[str, ...], IntArray]:
    distinct = tuple(sorted(set(names)))
    place = {name: index for index, name in enumerate(distinct)}
    codes = np.fromiter((place[name] for name in names), dtype=np.int64, count=len(names))
    codes.setflags(write=False)
    return distinct, codes


def name_codes(names: Sequence[str]) -> tuple[tuple[str, ...], IntArray]:
    """Return the distinct names in order, and each entry's index among them; kept for the next population."""
    return _codes(tuple(names))


def mostly_in(codes: IntArray, members: BoolArray, usable: BoolArray) -> IntArray:
    """Return the codes of the nodes most of whose usable units are members, sorted; all shapes are (n,).

    A node with one sick device belongs to no group of slower nodes.
    """
    size = int(codes.max(initial=0)) + 1
    mine = np.bincount(codes[members], minlength=size)
    return np.flatnonzero(2 * mine > np.bincount(codes[usable], minlength=size))


def distinct_codes(codes: IntArray) -> IntArray:
    """Return the distinct values of small non-negative numbers, ascending; counting beats hashing."""
    return np.flatnonzero(np.bincount(codes))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Block:
    """Rows of one size: ``index`` (k,) into the population, ``values`` (k, n), each row ascending."""

    index: IntArray
    values: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UsableRows:
    """The rows of a population that can be compared, sorted, in blocks of one size."""

    population: Population
    usable: BoolArray  # shape (total,), whether a row is in a block
    problems: dict[int, SampleProblem]  # row -> why it is not usable
    sizes: tuple[int, ...]  # distinct sizes of the usable rows, ascending
    held: tuple[Block, ...] | None = None  # blocks in memory; None: sorted anew when needed
    storage: SampleStorage | None = None  # storage for blocks that exceed the memory

    @property
    def total(self) -> int:
        """Number of rows of the population."""
        return len(self.usable)

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The usable rows, by size."""
        if self.held is not None:
            return self.held
        return _blocks(self.population, self.usable, self.sizes, self.storage)

    def each(self, number_of: Callable[[FloatArray], FloatArray]) -> FloatArray:
        """Return a number of every row, shape (total,), NaN if unusable, from sorted values (k, n)."""
        out = np.full(self.total, np.nan)
        for block in self.blocks:
            out[block.index] = number_of(block.values)
        return out

    def losses(self, centre: FloatArray, better: Direction) -> FloatArray:
        """Return every row's one-sided loss against a centre, shape (total,), NaN if unusable."""
        return self.each(lambda values: worse(*losses(values, centre), better))

    def sides(self, centre: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return every row's losses below and above a centre, each (total,), NaN if unusable."""
        below, above = np.full(self.total, np.nan), np.full(self.total, np.nan)
        for block in self.blocks:
            below[block.index], above[block.index] = losses(block.values, centre)
        return below, above

    def medians(self) -> FloatArray:
        """Return every row's median, shape (total,), NaN if unusable."""

        def middle(values: FloatArray) -> FloatArray:
            n = values.shape[1]
            low = values[:, (n - 1) // 2].astype(np.float64)
            return low + (values[:, n // 2] - low) / 2  # no sum that overflows

        return self.each(middle)

    def means(self) -> FloatArray:
        """Return every row's mean, shape (total,), NaN if unusable."""
        return self.each(lambda values: values.mean(axis=1, dtype=np.float64))

    def idle(self) -> BoolArray:
        """Return which rows are rates (`Metric.is_rate`) of which all values are 0, shape (total,)."""
        if not self.population.metric.is_rate:
            return np.zeros(self.total, dtype=np.bool_)
        idle: BoolArray = self.each(lambda values: values[:, -1]) == 0
        return idle

    def grid(self) -> int:
        """Return how many quantiles represent these rows, without loss up to ``GRID``."""
        common = math.lcm(*self.sizes) if self.sizes else 1
        return common if common <= GRID else GRID

    def quantile_columns(self, size: int) -> FloatArray:
        """Return the quantile functions, shape (size, total): one contiguous row per quantile.

        Unusable rows are NaN. The value at a midpoint (i + 1/2) / size is the step that contains it.
        """
        blocks = self.blocks
        if self.storage is None or 8 * size * self.total <= LARGE:
            return self._columns(blocks, size, range(size))
        some = (range(at, min(at + COLUMNS, size)) for at in range(0, size, COLUMNS))
        parts = (self._columns(blocks, size, places) for places in some)
        return self.storage.keep(parts).reshape(size, self.total)

    def _columns(self, blocks: Sequence[Block], size: int, places: range) -> FloatArray:
        """Return some of the quantiles, shape (places, total)."""
        out = np.full((len(places), self.total), np.nan, dtype=self.population.values.dtype)
        for block in blocks:
            n = block.values.shape[1]
            index = (2 * np.asarray(places, dtype=np.int64) + 1) * n // (2 * size)
            every = len(block.index) == self.total
            for place, column in enumerate(index):
                if every:
                    out[place] = block.values[:, column]
                else:
                    out[place, block.index] = block.values[:, column]
        if self.storage is not None:
            self.storage.release()
        return out


def rows_of(population: Population, storage: SampleStorage | None = None) -> UsableRows:
    """Sort a population's samples and set aside the rows that are no sample.

    Rows in ``population.problems`` keep their reason; NaN, infinity, negative values, durations of 0 and
    empty samples get a reason here. Disturbed samples of an exact metric are usable: load makes no result
    wrong. Large populations are sorted in the storage, if there is one.
    """
    offsets = np.asarray(population.offsets)
    sizes = np.diff(offsets)
    total = len(sizes)
    exact = population.metric.better == "equal"
    problems = {
        row: problem
        for row, problem in population.problems.items()
        if not (exact and problem.kind == "disturbed")
    }
    usable = np.ones(total, dtype=np.bool_)
    for row in problems:
        usable[row] = False
    values, durations = population.values, population.metric.is_duration
    if values.size:
        low, high = float(values.min()), float(values.max())
        if not (low >= 0 and high <= HIGH) or (durations and low == 0):
            wrong = ~((values <= HIGH) & (values > 0 if durations else values >= 0))
            touched = np.add.reduceat(np.append(wrong, False), offsets[:-1]) > 0
            usable &= ~(touched & (sizes > 0))
    usable &= sizes > 0
    for row in np.flatnonzero(~usable).tolist():
        if row not in problems:
            reason = (
                unusable_reason(population.sample(row), durations=durations) or "no usable values"
            )
            problems[row] = SampleProblem(kind="invalid", text=reason)
    distinct = tuple(_distinct(sizes[usable]).tolist())
    return UsableRows(
        population=population,
        usable=usable,
        problems=problems,
        sizes=distinct,
        held=_blocks(population, usable, distinct, storage),
        storage=storage,
    )


def usual_rows(population: Population, usable: BoolArray) -> BoolArray:
    """Return the usable rows (n,) without those of a node beyond twice the usual number of rows.

    Suspects are measured again and again, and must not determine the centre.
    """
    _, codes = name_codes(population.nodes)
    counts = np.bincount(codes[usable])
    out = usable.copy()
    there = counts[counts > 0]
    if not len(there) or there.max() <= 2 * there.min():
        return out  # no node has more than twice the median
    most = 2 * max(int(np.median(there)), 1)
    for code in np.flatnonzero(counts > most).tolist():
        out[np.flatnonzero(usable & (codes == code))[most:]] = False
    return out


def _blocks(
    population: Population,
    usable: BoolArray,
    distinct: Sequence[int],
    storage: SampleStorage | None,
) -> tuple[Block, ...]:
    offsets = np.asarray(population.offsets)
    sizes = np.diff(offsets)
    found = []
    for size in distinct:
        index = np.flatnonzero(usable & (sizes == size))
        if storage is not None and population.values.nbytes > LARGE:
            parts = _sorted_parts(population.values, offsets[index], size, storage)
            matrix = storage.keep(parts).reshape(len(index), size)
        elif len(index) == len(sizes):
            matrix = population.values[offsets[0] : offsets[-1]].reshape(len(sizes), size)
            matrix = np.sort(matrix, axis=1) if size > 1 else matrix
        else:
            matrix = np.sort(population.values[offsets[index][:, None] + np.arange(size)], axis=1)
        found.append(Block(index=index, values=matrix))
    return tuple(found)


def _sorted_parts(
    values: FloatArray, begins: IntArray, size: int, storage: SampleStorage
) -> Iterator[FloatArray]:
    """Yield blocks of rows of one size, each row ascending."""
    step = max(1, BLOCK // size)
    for first in range(0, len(begins), step):
        where = begins[first : first + step, None] + np.arange(size)
        yield np.sort(values[where], axis=1)
        storage.release()


def _distinct(sizes: IntArray) -> IntArray:
    """Return the distinct sizes, ascending; mostly there is one."""
    return sizes[:1] if len(sizes) and sizes.min() == sizes.max() else np.unique(sizes)
