"""Tables of a recommendation network (DLRM) that are looked up and updated, and exact checks of both.

A lookup sums rows of a table; an update subtracts gradients from the same rows. Numbers are whole and small
enough that no sum rounds, so results have the same bits on every device, with any number of threads and in
any order. What a table holds is computed from the number of its row, so it can be checked everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch

from pytest_anubis.benchmarking.verification import fingerprint, hashed

Spread = Literal["uniform", "skewed"]

STEEPEST = 8
"""A gradient's numbers lie within this, so that a million of them add up in a row without rounding. A
table's have 16 bits: 512 of them add up in single precision without rounding."""

PIECE = {"cpu": 1 << 18}
"""Numbers that are made or checked at a time, on a CPU few enough for its caches."""

CARD_PIECE = 1 << 24

ELEMENT = 4
"""Bytes of a number: single precision."""

_SHUFFLE = 0x9E3779B1
"""Odd, so that multiplying by it gives each row of a table another one: frequent rows lie far apart."""


@dataclass(frozen=True, slots=True)
class Shape:
    """How many tables there are and how much of them one step touches.

    Attributes:
        rows: Rows of each table, a power of two.
        width: Numbers in a row.
        samples: Samples of a step; each looks up every table.
        pooling: For each table how many of its rows one sample sums.
    """

    rows: int
    width: int
    samples: int
    pooling: tuple[int, ...]

    @property
    def tables(self) -> int:
        """Number of tables."""
        return len(self.pooling)

    @property
    def bytes(self) -> int:
        """Bytes of all tables."""
        return self.tables * self.rows * self.width * ELEMENT

    @property
    def looked_up(self) -> int:
        """Bytes of the rows that one step looks up."""
        return self.samples * sum(self.pooling) * self.width * ELEMENT


@dataclass(frozen=True, slots=True)
class Batch:
    """The rows that one step looks up.

    Attributes:
        rows: Numbers of rows, one sum behind the other.
        sums: For each of them the number of its sum.
        starts: For each sum where its rows begin.
    """

    rows: torch.Tensor
    sums: torch.Tensor
    starts: torch.Tensor

    @classmethod
    def drawn(cls, shape: Shape, number: int, spread: Spread, device: torch.device) -> Batch:
        """Draw the rows of a step of all tables; sum ``sample * tables + table`` is of one table.

        Args:
            shape: Sizes.
            number: Another number draws other rows.
            spread: ``uniform``, or ``skewed``: of every power of two as many rows, so few are frequent.
            device: Where they are.
        """
        counts = torch.tensor(shape.pooling, device=device).repeat(shape.samples)
        sums = torch.arange(len(counts), device=device).repeat_interleave(counts)
        first = 1 + number * len(sums)
        random = hashed(torch.arange(first, first + len(sums), device=device))
        rows = random.bitwise_right_shift(20).bitwise_and_(shape.rows - 1)
        if spread == "skewed":
            powers = random.bitwise_and(0xFFFF).remainder_(shape.rows.bit_length())
            kept = torch.bitwise_left_shift(torch.ones_like(powers), powers).sub_(1)
            rows = rows.bitwise_and_(kept).mul_(_SHUFFLE).bitwise_and_(shape.rows - 1)
        rows.add_(sums.remainder(shape.tables).mul_(shape.rows))
        return cls(rows, sums, counts.cumsum(0).sub_(counts))

    def part(self, tables: int, table: int, first: int, count: int) -> Batch:
        """Return what is looked up in some rows of one of the tables, with one sum for each sample.

        Args:
            tables: How many tables there are.
            table: Number of the table.
            first: The first of the rows.
            count: How many.
        """
        here = (self.rows >= first) & (self.rows < first + count)
        here &= self.sums.remainder(tables) == table
        sums = self.sums[here].div(tables, rounding_mode="floor")
        counts = torch.bincount(sums, minlength=len(self.starts) // tables)
        return Batch(self.rows[here] - first, sums, counts.cumsum(0).sub_(counts))


class Plan:
    """An update of the rows of a batch: sorted, and equal ones together, so that each is written once.

    Args:
        batch: The rows that were looked up.

    Attributes:
        rows: The rows, each once, ascending.
        sums: In sorted order, for each looked-up row the number of its sum.
        starts: For each of `rows` where its `sums` begin.
    """

    def __init__(self, batch: Batch) -> None:
        ordered, places = batch.rows.sort(stable=True)
        self.rows, counts = torch.unique_consecutive(ordered, return_counts=True)
        self.sums = batch.sums[places]
        self.starts = counts.cumsum(0).sub_(counts)


class Tables:
    """Tables on one device.

    Args:
        shape: Sizes.
        device: Where they are.
        first: The first row, counted through all tables, that is kept here.
        rows: How many are kept here; None: all.

    Attributes:
        weights: The rows, (rows, width), float32.
    """

    def __init__(
        self, shape: Shape, device: torch.device, first: int = 0, rows: int | None = None
    ) -> None:
        self.shape, self.device, self.first = shape, device, first
        count = shape.tables * shape.rows if rows is None else rows
        self.weights = torch.empty(count, shape.width, device=device)
        for begin, piece in self._pieces():
            piece.copy_(_content(first + begin, len(piece), shape.width, device))

    def lookup(self, rows: torch.Tensor, starts: torch.Tensor) -> torch.Tensor:
        """Return sums of rows, (sums, width); rows are counted from the first one that is kept here."""
        return torch.nn.functional.embedding_bag(rows, self.weights, starts, mode="sum")

    def update(self, plan: Plan, gradients: torch.Tensor, sign: int = -1) -> None:
        """Add to each row the sum of its gradients, times a sign.

        Args:
            plan: The rows, counted from the first one that is kept here.
            gradients: One for each sum of a lookup, (sums, width).
            sign: -1 to learn, 1 to take it back.
        """
        steps = torch.nn.functional.embedding_bag(plan.sums, gradients, plan.starts, mode="sum")
        learned = self.weights.index_select(0, plan.rows).add_(steps, alpha=sign)
        self.weights[plan.rows] = learned

    def wrong_rows(self) -> list[tuple[int, int]]:
        """Return table and row of each row that differs from what the tables held at first."""
        wrong: list[tuple[int, int]] = []
        for begin, piece in self._pieces():
            right = _content(self.first + begin, len(piece), self.shape.width, self.device)
            for row in (piece != right).any(1).nonzero().flatten().tolist():
                wrong.append(divmod(self.first + begin + row, self.shape.rows))
        return wrong

    def bits(self) -> int:
        """Return the rows' fingerprint; those of all parts of the tables add up, modulo 2^64."""
        return fingerprint(self.weights, self.first * self.shape.width)

    def _pieces(self) -> Iterator[tuple[int, torch.Tensor]]:
        """Yield pieces of the rows, and where they begin."""
        step = max(1, PIECE.get(self.device.type, CARD_PIECE) // self.shape.width)
        for begin in range(0, len(self.weights), step):
            yield begin, self.weights[begin : begin + step]


def gradients_of(
    shape: Shape, number: int, device: torch.device, part: int = 0, parts: int = 1
) -> torch.Tensor:
    """Return small whole numbers for the sums of a step, or of one of equal parts of its samples.

    They are (samples * tables, width), float32.
    """
    count = shape.samples // parts * shape.tables
    drawn = _content((number * parts + part) * count, count, shape.width, device)
    return drawn.remainder_(2 * STEEPEST).sub_(STEEPEST).to(torch.float32)


def wrong_sums(shape: Shape, batch: Batch, sums: torch.Tensor) -> list[tuple[int, int]]:
    """Return sample and table of each wrong sum of a lookup in tables that nothing has changed.

    Args:
        shape: Sizes.
        batch: The same batch as was looked up, drawn anew, so that a changed index shows.
        sums: What the lookup returned.
    """
    right = _added(_rows(batch.rows, shape.width), batch.sums, len(sums))
    wrong = (sums != right).any(1).nonzero().flatten().tolist()
    return [divmod(one, shape.tables) for one in wrong]


def wrong_updates(
    tables: Tables, plan: Plan, batch: Batch, gradients: torch.Tensor
) -> list[tuple[int, int]]:
    """Update rows of tables that nothing has changed; return table and row of each wrong one; take it back.

    Args:
        tables: All tables.
        plan: The update.
        batch: Its batch, drawn anew.
        gradients: Likewise.
    """
    tables.update(plan, gradients)
    rows, places = torch.unique(batch.rows, return_inverse=True)
    steps = _added(gradients.to(torch.int32)[batch.sums], places, len(rows))
    right = _rows(rows, tables.shape.width).to(torch.int32) - steps
    wrong = (tables.weights[rows] != right).any(1)
    tables.update(plan, gradients, 1)
    return [divmod(int(row), tables.shape.rows) for row in rows[wrong]]


def _added(numbers: torch.Tensor, places: torch.Tensor, count: int) -> torch.Tensor:
    """Return sums of rows of whole numbers, each row added at its place, (count, width), int32."""
    found = torch.zeros(count, numbers.shape[1], dtype=torch.int32, device=numbers.device)
    return found.index_add_(0, places, numbers.to(torch.int32))


def _content(first: int, count: int, width: int, device: torch.device) -> torch.Tensor:
    """Return what so many rows from a first one on hold, (count, width), int16."""
    return _rows(torch.arange(first, first + count, device=device), width)


def _rows(rows: torch.Tensor, width: int) -> torch.Tensor:
    """Return what rows of these numbers hold, (rows, width), int16."""
    columns = torch.arange(-width, 0, device=rows.device)
    return _low(rows)[:, None] ^ _low(columns)


def _low(numbers: torch.Tensor) -> torch.Tensor:
    """Return 16 bits of the hash of each number, (numbers,), int16."""
    return hashed(numbers).bitwise_right_shift(48).to(torch.int16)


SMALL = Shape(rows=1 << 13, width=64, samples=1680, pooling=(4, 1, 8, 2))
"""As many samples as can be shared out over any number of ranks up to 8, and over 10, 12 and 16;
other numbers of ranks have a few more."""

UPDATES = 8
BITS = 10731116362891961812
"""Fingerprint of the small tables after their updates, computed by `tests/suites/test_suites_tables.py`."""


def small_batches(
    device: torch.device, shape: Shape = SMALL
) -> Iterator[tuple[Batch, torch.Tensor]]:
    """Yield the batches of the updates of small tables and their gradients."""
    for number in range(UPDATES):
        spread: Spread = "skewed" if number % 2 else "uniform"
        yield Batch.drawn(shape, number, spread, device), gradients_of(shape, number, device)


def bits_after_updates(device: torch.device, shape: Shape = SMALL) -> int:
    """Return the fingerprint of small tables after their updates: `BITS` of `SMALL`, whatever computes it."""
    tables = Tables(shape, device)
    for batch, gradients in small_batches(device, shape):
        tables.update(Plan(batch), gradients)
    return tables.bits()
