"""Tables are those of a loop, have the same bits wherever they are kept, and show a flipped bit."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks.suites.traffic import busiest
from pytest_anubis.benchmarking.verification import fingerprint, flip_bit
from pytest_anubis.session.collecting.device_parameters import Device
from suites.recommendation import placement, test_tables
from suites.recommendation import tables as tables_module
from suites.recommendation.placement import BY_ROWS, placed
from suites.recommendation.tables import (
    BITS,
    SMALL,
    Batch,
    Plan,
    Shape,
    Spread,
    Tables,
    bits_after_updates,
    gradients_of,
    small_batches,
    wrong_sums,
)
from suites.traffic import test_sharded_tables
from suites.traffic.group import TrafficGroup
from suites.traffic.seat import Seat
from suites.traffic.sharded_tables import TableTraffic
from tests.suites.test_suites_on_a_card import Node, Taken
from tests.suites.traffic_groups import behind_link, faulty, of_ranks
from tests.suites.work_probe import doubles

CPU = torch.device("cpu")
RATE = 20e6
"""Bytes a second of a link that is slow beside what two processes exchange."""
SHAPE = Shape(rows=1 << 8, width=16, samples=24, pooling=(3, 1, 5))


def drawn(spread: Spread = "uniform", shape: Shape = SHAPE) -> tuple[Tables, Batch]:
    return Tables(shape, CPU), Batch.drawn(shape, 1, spread, CPU)


@pytest.mark.parametrize("spread", ["uniform", "skewed"])
def test_lookups_and_updates_are_those_of_a_loop_in_double_precision(spread: Spread) -> None:
    tables, batch = drawn(spread)
    gradients = gradients_of(SHAPE, 1, CPU)
    right = tables.weights.double().numpy().copy()
    sums = np.zeros((SHAPE.samples * SHAPE.tables, SHAPE.width))
    for row, place in zip(batch.rows.tolist(), batch.sums.tolist(), strict=True):
        assert row // SHAPE.rows == place % SHAPE.tables
        sums[place] += right[row]
    for row, place in zip(batch.rows.tolist(), batch.sums.tolist(), strict=True):
        right[row] -= gradients[place].double().numpy()
    looked_up = tables.lookup(batch.rows, batch.starts)
    assert np.array_equal(looked_up.double().numpy(), sums)
    assert wrong_sums(SHAPE, batch, looked_up) == []
    tables.update(Plan(batch), gradients)
    assert np.array_equal(tables.weights.double().numpy(), right)
    assert tables.wrong_rows()
    tables.update(Plan(batch), gradients, 1)
    assert tables.wrong_rows() == []


def test_bits_are_a_constant_of_the_benchmark() -> None:
    weights = Tables(SMALL, CPU).weights.to(torch.int64)
    for batch, gradients in small_batches(CPU):  # in another order, in whole numbers
        steps = gradients.to(torch.int64)[batch.sums]
        weights.index_add_(0, batch.rows.flip(0), steps.flip(0), alpha=-1)
    assert fingerprint(weights.to(torch.float32)) == BITS


@pytest.mark.parametrize("threads", [1, 2])
def test_bits_do_not_depend_on_the_threads(threads: int) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        assert bits_after_updates(CPU) == BITS
    finally:
        torch.set_num_threads(before)


def test_parts_of_tables_have_the_bits_of_the_whole() -> None:
    parts = [Tables(SHAPE, CPU, first, 256) for first in (0, 256, 512)]
    assert sum(part.bits() for part in parts) % (1 << 64) == Tables(SHAPE, CPU).bits()


def test_skewed_rows_are_few_and_far_apart() -> None:
    shape = replace(SHAPE, rows=1 << 16, pooling=(64,))
    uniform, skewed = (drawn(spread, shape)[1].rows for spread in ("uniform", "skewed"))
    assert len(set(skewed.tolist())) < 0.6 * len(set(uniform.tolist()))
    often = torch.bincount(skewed).topk(8).indices.sort().values
    assert int(often.diff().min()) > 16


def test_flipped_bit_is_found_with_its_table_and_row() -> None:
    tables, batch = drawn()
    row = int(batch.rows[5])
    flip_bit(tables.weights, row * SHAPE.width + 3, 20)
    assert tables.wrong_rows() == [divmod(row, SHAPE.rows)]
    wrong = wrong_sums(SHAPE, batch, tables.lookup(batch.rows, batch.starts))
    assert divmod(int(batch.sums[5]), SHAPE.tables) in wrong


@pytest.mark.alone
@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("update", [False, True])
def test_twice_the_pooling_takes_about_twice_as_long(update: bool) -> None:
    def seconds(times: int) -> float:
        # The tables fit any second-level cache, which twice the rows would leave otherwise.
        shape = Shape(rows=1 << 8, width=64, samples=512, pooling=(64 * times,) * 4)
        tables, batch = drawn(shape=shape)
        plan, gradients, taken = Plan(batch), gradients_of(shape, 1, CPU), list[float]()
        for _ in range(8):
            begin = time.perf_counter()
            if update:
                tables.update(plan, gradients)
            else:
                tables.lookup(batch.rows, batch.starts)
            taken.append(time.perf_counter() - begin)
        return min(taken)

    doubles(seconds)


@pytest.mark.parametrize("fault", ["row", "sum", "index", "idle", "bits", ""])
@pytest.mark.usefixtures("one_thread")
def test_benchmark_records_rates_and_fails_for_a_flipped_bit(
    fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(test_tables, "shape_for", lambda *_: SHAPE)
    update, lookup = Tables.update, Tables.lookup
    flipped: list[bool] = []

    def flipping(self: Tables, plan: Plan, gradients: torch.Tensor, sign: int = -1) -> None:
        if fault != "idle":
            update(self, plan, gradients, sign)
        if fault in ("row", "bits") and not flipped:
            flip_bit(self.weights, 40, 20)
            flipped.append(True)

    def wrong(self: Tables, rows: torch.Tensor, starts: torch.Tensor) -> torch.Tensor:
        sums = lookup(self, rows, starts)
        return sums + (fault == "sum")

    monkeypatch.setattr(Tables, "update", flipping)
    monkeypatch.setattr(Tables, "lookup", wrong)
    taken, device = Taken(), Device("cpu")

    def measure() -> None:
        test_tables.test_tables(taken, device, lambda *_: None, "uniform")

    def bits() -> None:
        test_tables.test_update_bits(taken, device, Node("standard"))

    make = Plan.__init__

    def wrong_index(self: Plan, batch: Batch) -> None:
        make(self, batch)
        self.rows[4] += 1  # as a flipped bit of an index would

    if fault == "index":
        monkeypatch.setattr(Plan, "__init__", wrong_index)
    named = {
        "row": "table 0 row 2",
        "index": "table 0 row",
        "idle": "table 0 row",
        "sum": "sample 0 table 0",
        "bits": "times other bits",
    }
    if fault:
        with pytest.raises(AssertionError, match=named[fault]):
            (bits if fault == "bits" else measure)()
        return
    measure()
    bits()
    assert list(taken.asked) == ["lookup_rate", "update_rate", "update_bits"]


def test_sizes_are_beyond_the_caches_and_within_the_memory() -> None:
    small = test_tables.shape_for("cpu", 1 << 40, 32 << 20)
    assert 4 * (32 << 20) <= small.bytes < 8 * (32 << 20)
    assert test_tables.shape_for("cpu", 1 << 30, 1 << 30).bytes <= 1 << 30
    assert test_tables.shape_for("cuda", 16 << 30, 0).bytes == 16 << 30
    assert test_tables.shape_for("cuda", 9 << 30, 0).bytes == 8 << 30


@pytest.mark.parametrize("ranks", [2, 3])
def test_placements_of_eight_tables_are_the_best_possible(ranks: int) -> None:
    chance = random.Random(4)
    for _ in range(50):
        work = [chance.paretovariate(1.2) for _ in range(8)]
        found = placed(work, ranks)
        assert [rank == BY_ROWS for rank in found] == [one > sum(work) / ranks for one in work]
        whole = [one for one, rank in zip(work, found, strict=True) if rank != BY_ROWS]
        every = itertools.product(range(ranks), repeat=len(whole))
        best = min(busiest(whole, one, ranks) for one in every)
        assert busiest(work, found, ranks) == pytest.approx(best)


def test_placements_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    assert busiest([8, 7, 6, 5, 4], placed([8, 7, 6, 5, 4], 2), 2) == 15
    assert sorted(placed([1, 10, 1], 2)) == [BY_ROWS, 0, 1]
    assert placed([], 3) == []
    monkeypatch.setattr(placement, "STEPS", 0)
    assert busiest([8, 7, 6, 5, 4], placed([8, 7, 6, 5, 4], 2), 2) == 17  # greedy


@pytest.fixture(scope="module")
def two() -> Iterator[TrafficGroup]:
    with of_ranks(2) as group:
        yield group


SIZE: dict[str, Any] = {"rows": 1 << 8, "width": 16}


@pytest.mark.usefixtures("quick_processes")
@pytest.mark.parametrize("places", [[0, 1, 0, 1], [1, 1, 1, 1], [BY_ROWS] * 4, [BY_ROWS, 0, 1, 0]])
def test_bits_do_not_depend_on_where_tables_are(two: TrafficGroup, places: list[int]) -> None:
    test_sharded_tables.right_tables(two, places)


@pytest.mark.usefixtures("quick_processes")
def test_ranks_that_cannot_share_the_samples_are_checked_with_more(
    two: TrafficGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    samples = SMALL.samples + 1  # as nine ranks, which take 1,683
    monkeypatch.setattr(tables_module, "SMALL", replace(SMALL, samples=samples))
    test_sharded_tables.right_tables(two, [BY_ROWS, 0, 1, 0])


def test_parts_of_the_gradients_are_the_whole() -> None:
    parts = [gradients_of(SHAPE, 2, CPU, part, 3) for part in range(3)]
    assert torch.equal(torch.cat(parts), gradients_of(SHAPE, 2, CPU))


@pytest.mark.parametrize("memory", [16 << 30, 3 << 30])
def test_spread_tables_take_half_of_a_devices_memory(
    memory: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytest_anubis.benchmarking.sizes.memory_of", lambda _: (memory, memory))
    shape = {"rows": 1 << 20, "width": 128, "samples": 1 << 13, "pooling": [240, *(8,) * 7]}
    answer = TableTraffic(Seat(0, 2, CPU)).fit_tables(shape)
    assert answer == {"times": 1 if memory > 8 << 30 else 2}


@pytest.mark.alone
@pytest.mark.usefixtures("quick_processes")
def test_sharded_benchmark_records_its_rate_and_a_flipped_bit_fails_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(test_sharded_tables, "ON_A_HOST", SIZE)
    with faulty(tmp_path, monkeypatch) as (group, fault):
        taken, said = Taken(), dict[str, object]()
        test_sharded_tables.test_sharded_tables(taken, group, said.__setitem__)
        assert list(taken.asked) == ["sharded_rate"]
        assert "exchange" in str(said["sharded_step"])
        free = group.tables()
        fault.write_text("slow")
        late = group.tables()
        assert late.exchange > 2 * free.exchange
        assert late.together > late.alone
        fault.write_text("")
        group.prepare_tables([0, 1, 0, 1], samples=48, pooling=(2,) * 4, **SIZE)
        group.tables(3)
        assert group.wrong_rows() == []
        fault.write_text("add")
        group.tables(3)
        fault.write_text("")
        [wrong] = group.wrong_rows()
        assert wrong.startswith("rank 1: table")
        fault.write_text("flip")
        with pytest.raises(AssertionError, match="are wrong"):
            test_sharded_tables.right_tables(group, [0, 1, 0, 1])


@pytest.mark.alone
@pytest.mark.usefixtures("quick_processes")
def test_twice_the_samples_take_about_twice_as_long(two: TrafficGroup) -> None:
    def seconds(times: int) -> float:
        shape: dict[str, Any] = {"rows": 1 << 12, "width": 64, "pooling": (16,) * 4}
        assert two.prepare_tables([0, 1, BY_ROWS, BY_ROWS], samples=1024 * times, **shape)
        return min(two.tables().together for _ in range(20))

    doubles(seconds)


@pytest.mark.alone
def test_half_the_links_rate_shows_in_the_exchange() -> None:
    with behind_link(RATE) as (group, shape):
        group.prepare_tables([0, 1] * 4, rows=1 << 8, width=64, samples=1024, pooling=(1,) * 8)

        def seconds(times: int) -> float:
            shape(RATE / times)
            return min(group.tables().exchange for _ in range(3))

        doubles(seconds)
