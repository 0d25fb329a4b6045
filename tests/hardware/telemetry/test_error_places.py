"""Where corrected memory errors are: the sketch of their rows, and what is said of a module."""

from __future__ import annotations

import math
import sys
from collections import Counter
from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_anubis.core.node_map import Spread
from pytest_anubis.hardware.telemetry import error_places
from pytest_anubis.hardware.telemetry.error_places import (
    DEPTH,
    MAX_MODULES,
    MIN_ERRORS,
    ONE_ROW,
    SCATTERED,
    CountMinSketch,
    ErrorPlaces,
    error_place,
)

MODULE = "CPU_SrcID#0_MC#0_Chan#1_DIMM#0"
PAGE = "page:0x4d2 offset:0x0 grain:32 syndrome:0x0 - "
ROW = (
    f"4,812,5,-;EDAC MC0: 1 CE memory read error on {{module}} (channel:1 slot:0 {PAGE}"
    " err_code:0x0101:0x0090 socket:0 imc:0 rank:0 bg:1 ba:{bank} row:0x{row:x} col:0x8)"
)


def line(row: int, bank: int = 2, module: str = MODULE) -> str:
    return ROW.format(row=row, bank=bank, module=module)


def spread_of(lines: list[str]) -> Spread | None:
    places = ErrorPlaces()
    places.read(lines)
    (found,) = places.modules() or (None,)
    assert found is None or (found.module, found.errors) == (MODULE, len(lines))
    return found.spread if found is not None else None


@given(st.lists(st.tuples(st.integers(0, 300), st.integers(1, 50)), max_size=400))
def test_sketch_is_never_below_the_truth_and_within_its_error(
    counts: list[tuple[int, int]],
) -> None:
    sketch, truth = CountMinSketch(width=64), Counter[bytes]()
    for number, count in counts:
        key = b"%d" % number
        truth[key] += count
        assert sketch.add(key, count) == sketch.estimate(key) >= truth[key]
    assert sketch.total == truth.total()
    assert sketch.error == int(math.e / 64 * truth.total())
    more = [sketch.estimate(key) - count for key, count in truth.items()]
    assert min(more, default=0) >= 0
    # Each key may exceed the error with probability e^-DEPTH, of which twice is far beyond chance.
    assert sum(one > sketch.error for one in more) <= 1 + 2 * math.exp(-DEPTH) * len(more)


@given(st.integers(0, 9), st.integers(1, 9))
def test_a_count_is_as_many_errors(number: int, count: int) -> None:
    at_once, singly = CountMinSketch(width=4), CountMinSketch(width=4)
    at_once.add(b"%d" % number, count)
    for _ in range(count):
        singly.add(b"%d" % number)
    assert all(at_once.estimate(b"%d" % n) == singly.estimate(b"%d" % n) for n in range(10))


def test_narrow_sketch_errs_so_that_its_error_is_no_empty_promise() -> None:
    sketch = CountMinSketch(width=2)
    for number in range(1000):
        sketch.add(b"%d" % number)
    assert sketch.estimate(b"1") > 100


def test_ten_million_errors_need_less_than_a_mebibyte() -> None:
    """Of 100,000 rows of 15 modules, few have most errors; one row of another module has 5 million."""
    drawn = np.random.default_rng(7).zipf(1.2, 5_000_000) % 100_000
    counts = dict(zip(*(one.tolist() for one in np.unique(drawn, return_counts=True)), strict=True))
    places = ErrorPlaces()
    for number, count in counts.items():
        places.add(f"DIMM_{number % 15}", f"row {number}", count)
    places.add(MODULE, "row 1", 5_000_000)
    sketch, modules = places._rows, places._modules
    assert (sketch.total, sketch.error) == (10_000_000, 1659)
    parts = (sketch._counts, modules, *modules, *modules.values(), *chain(*modules.values()))
    assert sum(map(sys.getsizeof, parts)) < 1 << 20
    over = [
        sketch.estimate(f"DIMM_{number % 15} row {number}".encode()) - count
        for number, count in counts.items()
    ]
    assert min(over) >= 0
    assert sum(one > sketch.error for one in over) <= math.exp(-DEPTH) * len(over)
    assert {one.module: one.spread for one in places.modules()}[MODULE] == "row"


@pytest.mark.parametrize(
    ("rows", "spread"),
    [
        ([7] * MIN_ERRORS, "row"),
        ([7] * (MIN_ERRORS - 1), None),
        ([*[7] * 5, 1, 2, 3, 4, 5], "row"),
        ([*[7] * 4, 1, 2, 3, 4, 5, 6], None),
        (list(range(MIN_ERRORS)), "scattered"),
        (list(range(MIN_ERRORS - 1)), None),
        ([*range(9), 8], None),
        (list(range(20)) * 50, "scattered"),
        ([], None),
    ],
)
def test_spread_is_stated_where_it_is_clear(rows: list[int], spread: Spread | None) -> None:
    assert spread_of([line(row) for row in rows]) == spread


def test_fewest_errors_keep_both_mistakes_below_two_percent() -> None:
    def binomial(hits: range, share: float) -> float:
        count = MIN_ERRORS
        return sum(math.comb(count, k) * share**k * (1 - share) ** (count - k) for k in hits)

    half, tenth = int(ONE_ROW * MIN_ERRORS), int(SCATTERED * MIN_ERRORS)
    assert 10 * binomial(range(half, MIN_ERRORS + 1), 0.1) < 0.02
    assert binomial(range(tenth + 1), 0.5) < 0.02
    assert int(SCATTERED * (MIN_ERRORS - 1)) == 0


def test_one_row_in_several_banks_is_several_rows() -> None:
    assert spread_of([line(7, bank=bank) for bank in range(10)]) == "scattered"


def test_each_module_has_a_spread_of_its_own() -> None:
    places = ErrorPlaces()
    for row in range(12):
        places.read([line(row), line(7, module="DIMM A1"), line(row, module="DIMM_B1")])
    found = [(one.module, one.spread) for one in places.modules()]
    assert found == [(MODULE, "scattered"), ("DIMM A1", "row"), ("DIMM_B1", "scattered")]


def test_many_errors_elsewhere_make_no_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """A narrow sketch makes all counts of a scattered module too high: then nothing is said."""
    monkeypatch.setattr(error_places, "CountMinSketch", lambda: CountMinSketch(width=8))
    places = ErrorPlaces()
    for row in range(1000):
        places.add("DIMM_A1", f"row {row}")
    places.read([line(row) for row in range(20)])
    assert places._modules[MODULE][1] > 10
    assert places.modules() == ()


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (f"1 CE memory read error on {MODULE} (channel:0 slot:0 {PAGE} err_code:0101:0090 "
         "socket:1 imc:0 rank:0 bg:1 ba:2 row:d4d1 col:3f8)",
         (MODULE, {"rank": "0", "bg": "1", "ba": "2", "row": "d4d1"})),
        (f"78 CE memory scrubbing error on {MODULE} (channel:0 slot:1 {PAGE} OVERFLOW "
         "err_code:0x0008:0x00c0 socket:0 imc:0 rank:0 bg:3 ba:2 row:0x6ecc col:0xe8 "
         "retry_rd_err_log[0000a20d 00000000 ffff0000 0434f10f 000091dd])",
         (MODULE, {"rank": "0", "bg": "3", "ba": "2", "row": "0x6ecc"})),
        (f"1 CE memory read error on {MODULE} (channel:0 slot:0 {PAGE} err_code:0x0101:0x0090 "
         "ProcessorSocketId:0x0 MemoryControllerId:0x1 "
         "PhysicalRankId:0x1 Row:0x7f Column:0x8 Bank:0x3 BankGroup:0x2)",
         (MODULE, {"physicalrankid": "0x1", "row": "0x7f", "bank": "0x3", "bankgroup": "0x2"})),
        (f"1 CE memory read error on CPU_SrcID#0_Ha#0_Chan#1_DIMM#0 (channel:1 slot:0 {PAGE} area:DRAM "
         "err_code:0001:0091 socket:0 ha:0 channel_mask:2 rank:1 row:0x1a2b col:0x3e8 "
         "bank_addr:1 bank_group:2)",
         ("CPU_SrcID#0_Ha#0_Chan#1_DIMM#0",
          {"rank": "1", "row": "0x1a2b", "bank_addr": "1", "bank_group": "2"})),
        ("1 CE Single-bit ECC on PROC 1 DIMM 2 (node:0 card:0 module:1 rank:0 bank:3 device:5 row:291 "
         f"column:4 {PAGE} APEI location: node:0 row:291 bank:3)",
         ("PROC 1 DIMM 2", {"rank": "0", "bank": "3", "row": "291"})),
        # AMD's driver and older ones of Intel name no row of the memory; "csrow" is a rank.
        (f"1 CE on mc#0csrow#1channel#0 (csrow:1 channel:0 {PAGE})", None),
        (f"1 CE memory read error on CPU_SrcID#0_Ha#0_Chan#2_DIMM#0 (channel:2 slot:0 {PAGE} area:DRAM "
         "err_code:0001:0092 socket:0 ha:0 channel_mask:4 rank:0)", None),
        (f"1 CE memory read error on any memory ({PAGE} row:0x1)", None),
        (f"1 CE memory read error on DIMM_A1 or DIMM_A2 ({PAGE} row:0x1)", None),
        (f"1 UE memory read error on DIMM_A1 ({PAGE} rank:0 row:0x1)", None),
        ("Giving out device to module skx_edac", None),
    ],
)  # fmt: skip
def test_lines_of_all_drivers_are_read(text: str, place: tuple[str, dict[str, str]] | None) -> None:
    found = error_place(f"4,812,5,-;EDAC MC0: {text}")
    assert found == (place and (place[0], repr(sorted(place[1].items()))))


def test_what_programs_write_is_not_counted() -> None:
    assert spread_of([line(7).replace("4,812", "12,812")] * 20) is None


HOSTILE = st.one_of(
    st.text(max_size=300),
    st.text("EDACMC0: 1on(row:xf) ", max_size=300),
    st.sampled_from(
        ["", "9" * 5000, "\0" * 9000, "EDAC MC0: " * 900, " on " * 3000, "row:" * 3000]
    ),
)


@given(st.lists(st.tuples(HOSTILE, HOSTILE, HOSTILE), max_size=20))
def test_hostile_lines_break_nothing(parts: list[tuple[str, str, str]]) -> None:
    places = ErrorPlaces()
    places.read(f"4,1,2,-;EDAC MC0: {a} CE {b} on {c} (row:0x{a}) row:{b}" for a, b, c in parts)
    places.read("".join(one) for one in parts)
    assert all(len(one) <= 80 for one in places._modules)
    assert len(places._modules) <= 40


def test_modules_that_no_node_has_are_left_out() -> None:
    places = ErrorPlaces()
    places.read(
        line(7, module=f"DIMM_{number}") for number in range(2 * MAX_MODULES) for _ in range(10)
    )
    assert len(places.modules()) == len(places._modules) == MAX_MODULES
    assert places._rows.total == 10 * MAX_MODULES
