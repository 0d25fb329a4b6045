"""Tables spread over ranks: sums of looked-up rows travel to the samples' ranks, and gradients back.

Each rank has samples of its own, which look up all tables. A table is whole on one rank, or its rows are
shared out over all of them; then its sums are sums of every rank's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
import torch.distributed as dist

from pytest_anubis.benchmarking.children import Message
from pytest_anubis.benchmarking.ranks import timed
from pytest_anubis.benchmarking.sizes import fitting
from suites.recommendation.placement import BY_ROWS
from suites.recommendation.tables import (
    ELEMENT,
    SMALL,
    UPDATES,
    Batch,
    Plan,
    Shape,
    Spread,
    Tables,
    gradients_of,
    wrong_sums,
)
from suites.traffic.seat import Seat

DRAWN = 6 * 8
"""Bytes that drawing one looked-up row takes at most: every rank draws those of all samples, and keeps those
of its own tables."""

SHOWN = 3
"""Wrong rows that a rank names."""


class Held:
    """The part of one table that a rank has, and what a step of all ranks does in it.

    Args:
        table: Number of the table.
        tables: Its rows here.
        batch: What all ranks' samples look up, of all tables.
    """

    def __init__(self, table: int, tables: Tables, batch: Batch) -> None:
        self.table, self.tables = table, tables
        self.batch = batch.part(tables.shape.tables, table, tables.first, len(tables.weights))
        self.plan = Plan(self.batch)

    def lookup(self) -> torch.Tensor:
        """Return this part's sums for all ranks' samples, (samples, width)."""
        return self.tables.lookup(self.batch.rows, self.batch.starts)


class TableTraffic:
    """One rank's part of tables that are spread over all of them.

    Args:
        seat: The rank.
    """

    def __init__(self, seat: Seat) -> None:
        self._seat = seat
        self._held: list[Held] = []

    def fit_tables(self, request: Message) -> Message:
        """Answer how many ``times`` fewer rows and samples of a shape this rank's device has room for."""
        shape, seat = _shape_of(request), self._seat
        tables = -(-shape.tables // seat.world)
        wanted = tables * shape.rows * shape.width * ELEMENT
        wanted += DRAWN * shape.samples * sum(shape.pooling)
        return {"times": wanted // fitting(wanted, seat.device)}

    def prepare_tables(self, request: Message) -> Message:
        """Make tables of a shape (``rows``, ``width``, ``samples``, ``pooling``) at their ``places``."""
        shape = _shape_of(request)
        self._places: list[int] = request["places"]
        self._take(shape, 0, "uniform", self._tables(shape))
        return {}

    def time_tables(self, request: Message) -> Message:
        """Answer the seconds of some ``forms`` of a step, the mean of so many ``times``.

        They are ``together``, ``alone`` without exchanges, and ``exchange`` without lookups and updates.
        """
        forms: dict[str, Callable[[], object]] = {
            "together": self._step,
            "alone": partial(self._step, exchanging=False),
            "exchange": self._travel,
        }
        device, times = self._seat.device, request["times"]
        return {form: timed(forms[form], device, times) for form in request["forms"]}

    def wrong_rows(self, _request: Message) -> Message:
        """Take back what the last timed steps learned; answer which rows are ``wrong`` then, in words."""
        for exchanging, sign in list(self._signs.items()):
            if sign > 0:
                self._step(exchanging=exchanging)
        wrong = [place for held in self._held for place in held.tables.wrong_rows()]
        named = ", ".join(f"table {table} row {row}" for table, row in wrong[:SHOWN])
        said = f"rank {self._seat.number}: {named} ({len(wrong)} in all)"
        return {"wrong": said if wrong else ""}

    def check_tables(self, request: Message) -> Message:
        """Answer how many sums are ``wrong`` and the ``bits`` of this rank's part after all updates.

        They are those of small tables at their ``places``, whose ``samples`` are shared out over the ranks.
        """
        self._places, shape = request["places"], replace(SMALL, samples=request["samples"])
        device, world = self._seat.device, self._seat.world
        parts, wrong = self._tables(shape), 0
        for number in range(UPDATES):
            spread: Spread = "skewed" if number % 2 else "uniform"
            self._take(shape, number, spread, parts)
            sums = self._lookup()
            if number == 0:
                batch = Batch.drawn(shape, number, spread, device)
                all_sums = torch.empty(world * len(sums), sums.shape[1], device=device)
                dist.all_gather_into_tensor(all_sums, sums)
                wrong = len(wrong_sums(shape, batch, all_sums))
            self._update(self._gradients, -1)
        bits = sum(tables.bits() for _, tables in parts) % (1 << 64)
        return {"wrong": wrong, "bits": bits}

    def rest(self, _request: Message) -> Message:
        """Give up all tables."""
        self._held = []
        return {}

    def _tables(self, shape: Shape) -> list[tuple[int, Tables]]:
        """Make this rank's parts of all tables."""
        seat, parts = self._seat, []
        share = shape.rows // seat.world
        for table, place in enumerate(self._places):
            first, count = table * shape.rows, shape.rows
            if place == BY_ROWS:
                first += seat.number * share
                count = share if seat.number < seat.world - 1 else shape.rows - seat.number * share
            if place in (BY_ROWS, seat.number):
                parts.append((table, Tables(shape, seat.device, first, count)))
        return parts

    def _take(
        self, shape: Shape, number: int, spread: Spread, parts: list[tuple[int, Tables]]
    ) -> None:
        """Make ready for a step in which all ranks' samples together are those of a shape."""
        seat = self._seat
        self._shape = replace(shape, samples=shape.samples // seat.world)
        batch = Batch.drawn(shape, number, spread, seat.device)
        self._held = [Held(table, tables, batch) for table, tables in parts]
        self._gradients = gradients_of(shape, number, seat.device, seat.number, seat.world)
        self._signs = {True: -1, False: -1}

    def _sources(self, rank: int) -> list[int]:
        """Return the tables of which a rank sends sums."""
        return [table for table, place in enumerate(self._places) if place in (BY_ROWS, rank)]

    def _step(self, *, exchanging: bool = True) -> None:
        """Look up and learn, or take back what such a step has learned: every other one."""
        sign = self._signs[exchanging]
        self._signs[exchanging] = -sign
        if exchanging:
            self._lookup()
            self._update(self._gradients, sign)
            return
        gradients = self._gradients.view(-1, self._shape.tables, self._shape.width)
        for held in self._held:
            held.lookup()
            steps = gradients[:, held.table].repeat(self._seat.world, 1)
            held.tables.update(held.plan, steps, sign)

    def _travel(self) -> None:
        """Exchange sums and gradients as in a step, whatever they are."""
        samples, width = self._shape.samples, self._shape.width
        empty = torch.zeros(self._seat.world * samples, width, device=self._seat.device)
        self._arrived([empty] * len(self._held))
        self._sent(self._gradients)

    def _lookup(self) -> torch.Tensor:
        """Return the sums of this rank's samples, (samples * tables, width)."""
        shape = self._shape
        sums = torch.zeros(shape.samples, shape.tables, shape.width, device=self._seat.device)
        for rank, block in enumerate(self._arrived([held.lookup() for held in self._held])):
            for table, some in zip(self._sources(rank), block, strict=True):
                sums[:, table] += some
        return sums.view(-1, shape.width)

    def _update(self, gradients: torch.Tensor, sign: int) -> None:
        """Send this rank's gradients to where their rows are, and update the rows that are here."""
        for held, steps in zip(self._held, self._sent(gradients), strict=True):
            held.tables.update(held.plan, steps, sign)

    def _arrived(self, sums: list[torch.Tensor]) -> list[torch.Tensor]:
        """Send sums of all ranks' samples to the ranks; return each rank's, (its tables, samples, width)."""
        shape, world = self._shape, self._seat.world
        blocks = [one.view(world, shape.samples, shape.width) for one in sums]
        sent = [
            torch.cat([block[rank] for block in blocks]) if blocks else None
            for rank in range(world)
        ]
        counts = [len(self._sources(rank)) * shape.samples for rank in range(world)]
        return [one.view(-1, shape.samples, shape.width) for one in self._exchange(sent, counts)]

    def _sent(self, gradients: torch.Tensor) -> list[torch.Tensor]:
        """Send gradients to the ranks of their tables; return those of the tables here, all samples'."""
        shape, world = self._shape, self._seat.world
        mine = gradients.view(shape.samples, shape.tables, shape.width)
        sent = []
        for rank in range(world):
            columns = [mine[:, table] for table in self._sources(rank)]
            sent.append(torch.cat(columns) if columns else None)
        here = len(self._held)
        arrived = self._exchange(sent, [here * shape.samples] * world)
        every = [one.view(here, shape.samples, shape.width) for one in arrived]
        return [torch.cat([one[place] for one in every]) for place in range(here)]

    def _exchange(self, sent: list[torch.Tensor | None], counts: list[int]) -> list[torch.Tensor]:
        """Send each rank its rows; return those that came from each, of which the numbers are known."""
        width, device = self._shape.width, self._seat.device
        nothing = torch.empty(0, width, device=device)
        rows = [nothing if one is None else one for one in sent]
        arrived = torch.empty(sum(counts), width, device=device)
        dist.all_to_all_single(arrived, torch.cat(rows), counts, [len(one) for one in rows])
        self._seat.spoil(arrived)
        return list(torch.split(arrived, counts))


def _shape_of(request: Message) -> Shape:
    """Return the shape that a request states."""
    return Shape(request["rows"], request["width"], request["samples"], tuple(request["pooling"]))
