"""Draw events of a node's life, and write each as a table or a journal."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import numpy as np

from pytest_anubis.core.baseline import Baseline
from pytest_anubis.core.metric import Metric
from pytest_anubis.core.sample import population_of
from pytest_anubis.validator import learn_baseline

Cell = tuple[str, str, str]
"""Benchmark, metric and device."""

CLASS = "c1"
BEGIN = 1_767_225_600.0  # 2026-01-01
DAY = 86400.0
DEVICES = tuple(f"cuda:{card}" for card in range(4))
METRICS = (("t.py::test_gemm", "rate"), ("t.py::test_copy", "rate"), ("t.py::test_copy", "lag"))
CELLS: tuple[Cell, ...] = tuple((*metric, device) for metric in METRICS for device in DEVICES)
SLOW = 0.5


@dataclass(frozen=True, kw_only=True)
class Statement:
    """What one run, or one table, says of one node."""

    run: str
    day: float  # when it began
    said: dict[Cell, bool] = field(default_factory=dict)  # whether a value is good, if there is one
    empty: frozenset[Cell] = frozenset()  # without a value in a table, or planned and not reached
    absent: frozenset[str] = frozenset()  # devices that the run's inventory lacks
    broken: str = ""  # ``interrupted`` or ``killed``; empty: neither
    waived: dict[str, str] = field(default_factory=dict)  # metric -> last day of its waiver


def drawn(draw: random.Random, *, tables: bool) -> list[Statement]:
    """Return what is said of one node, in the order in which it comes to be known."""
    count = draw.randint(1, 5)
    days = draw.sample([0, 1, 2, 3, 5, 8, 12, 20, 28, 40], count)
    if draw.random() < 0.5:
        days.sort()
    found = [_statement(draw, f"r{n}", day, tables=tables) for n, day in enumerate(days)]
    # Half of the later ones measure again what is bad or lacking by then.
    for place in range(1, count):
        if draw.random() < 0.5:
            found[place] = _retest(draw, found[place], found[:place])
    return found if tables else [_of_tests(one) for one in found]


def _of_tests(one: Statement) -> Statement:
    """Return what a run says, of which every test records all of its metrics, or fails to."""
    places = {(cell[0], cell[2]) for cell in (*one.said, *one.empty)}
    said = {
        cell: one.said.get(cell, True)
        for cell in CELLS
        if (cell[0], cell[2]) in places and cell not in one.empty
    }
    return replace(one, said=said)


def _statement(draw: random.Random, run: str, day: float, *, tables: bool) -> Statement:
    cells = list(CELLS)
    kind = draw.random()
    absent: frozenset[str] = frozenset()
    if kind < 0.2:
        metrics = draw.sample(METRICS, draw.randint(1, 2))
        cells = [cell for cell in cells if cell[:2] in metrics]
    elif kind < 0.4:
        devices = draw.sample(DEVICES, draw.randint(1, 3))
        cells = [cell for cell in cells if cell[2] in devices]
    elif kind < 0.5:
        absent = frozenset({draw.choice(DEVICES)})
        cells = [cell for cell in cells if cell[2] not in absent]
    said = dict.fromkeys(cells, True)
    for cell in draw.sample(cells, min(len(cells), draw.choice([0, 0, 0, 1, 1, 2]))):
        said[cell] = False
    empty = frozenset(draw.sample(cells, 1)) if draw.random() < 0.15 else frozenset()
    said = {cell: good for cell, good in said.items() if cell not in empty}
    broken = draw.choice(["interrupted", "killed"]) if not tables and draw.random() < 0.15 else ""
    waived = {}
    if not tables and draw.random() < 0.2:
        waived = {draw.choice(("rate", "lag")): draw.choice(["2026-03-01", "2999-01-01"])}
    return Statement(
        run=run, day=day, said=said, empty=empty, absent=absent if not tables else frozenset(),
        broken=broken, waived=waived,
    )  # fmt: skip


def _retest(draw: random.Random, one: Statement, before: list[Statement]) -> Statement:
    bad = {c for s in before for c, good in s.said.items() if not good} | {
        c for s in before for c in s.empty
    }
    if not bad:
        return one
    way = draw.random()
    if way < 0.4:
        cells = sorted(bad)
    elif way < 0.7:
        cells = [c for c in CELLS if any(c[2] == b[2] for b in bad)]
    else:
        cells = [c for c in CELLS if any(c[:2] == b[:2] for b in bad)]
    said = {cell: draw.random() < 0.85 for cell in cells}
    return replace(one, said=said, empty=frozenset(), absent=frozenset(), broken="")


def metric(name: str) -> Metric:
    if name == "rate":
        return Metric(name=name, unit="GB/s", better="higher")
    return Metric(name=name, unit="us", better="lower")


def values(cell: Cell, good: bool, key: str) -> tuple[float, ...]:
    """Return what was measured, always the same."""
    rng = random.Random(f"{cell} {key}")
    factor = 1.0 if good else SLOW if cell[1] == "rate" else 1 / SLOW
    return tuple(100 * factor * rng.gauss(1, 0.004) for _ in range(8))


@cache
def baseline() -> Baseline:
    """Return a baseline that expects every cell, learned from twelve healthy nodes."""
    units = [(f"b{node:02d}", device) for node in range(12) for device in DEVICES]
    return learn_baseline(
        [
            population_of(
                [np.array(values((*one, device), True, node)) for node, device in units],
                metric=metric(one[1]),
                benchmark=one[0],
                nodes=[node for node, _ in units],
                devices=[device for _, device in units],
                runs=[node for node, _ in units],
                hardware_class=CLASS,
                component="accelerator",
            )
            for one in METRICS
        ],
        hardware_class=CLASS,
        attributes={},
        created="2025-12-01T00:00:00+00:00",
        error_rate=None,
    )


def when(day: float) -> str:
    return datetime.fromtimestamp(BEGIN + day * DAY, UTC).isoformat(timespec="milliseconds")


def write_table(path: Path, of_node: dict[str, Statement]) -> None:
    """Write what one run says of several nodes as a table."""
    rows = ["node,class,device,benchmark,metric,unit,better,component,value,run,time"]
    for node, one in of_node.items():
        for cell in sorted({*one.said, *one.empty}):
            numbers: list[str] = [""]
            if cell in one.said:
                numbers = [f"{v:.5f}" for v in values(cell, one.said[cell], f"{node} {one.run}")]
            known = metric(cell[1])
            rows += [
                f"{node},{CLASS},{cell[2]},{cell[0]},{cell[1]},{known.unit},{known.better},accelerator,"
                f"{number},{one.run},{when(one.day)}"
                for number in numbers
            ]
    path.write_text("\n".join(rows) + "\n")
