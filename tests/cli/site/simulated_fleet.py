"""A simulated fleet with known faults, for the pages: sick nodes, a bad batch, a driver, a drift."""

from __future__ import annotations

import csv
import datetime
import json
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pytest_anubis.core.metric import Metric
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.sample import FloatArray, Population
from pytest_anubis.store.samples.columnar_files import Columns, save_columns

RACK = 16
"""Nodes in a rack."""
VALUES = 25
"""Of a sample: one more than a search for changes within the run needs."""
NOISE, SPREAD = 0.004, 0.006
"""Relative scatter of values, and between healthy nodes: what well-kept machines show."""
BEGIN = datetime.datetime(2026, 8, 3, 6, tzinfo=datetime.UTC)
ROUNDS, APART = 2, 42
"""How often each node was measured, and days between."""
HEALTHY = 240
"""Nodes that are learned from."""
BATCH, DRIVER, DRIFTING = "B4", "580.95", "loopback_rate"
OF_BATCH, OF_DRIVER, OF_TIME = 0.92, 0.982, 0.028
"""What the bad batch and the driver leave of the rate, and what the drift takes in all."""
KINDS = (
    ("accelerator.compute", "test_gemm", "TFLOP/s", "higher"),
    ("accelerator.memory", "test_copy", "GB/s", "higher"),
    ("accelerator.launch", "test_launch", "us", "lower"),
    ("memory.bandwidth", "test_stream", "GB/s", "higher"),
    ("memory.latency", "test_chase", "ns", "lower"),
    ("network.loopback", "test_loopback", "Gbit/s", "higher"),
    ("network.fabric", "test_allreduce", "GB/s", "higher"),
    ("storage.disk", "test_fio", "IOPS", "higher"),
    ("storage.disk", "test_sync", "ms", "lower"),
    ("workload.training", "test_step", "ms/step", "lower"),
)  # fmt: skip
FORMS = ("small", "medium", "large", "mixed", "wide", "deep", "read", "write", "random", "burst")


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """What was planted in the fleet, to be found.

    Attributes:
        sick: Node -> (metric, share of its rate that it lost).
        batch: Nodes of the bad batch.
        batch_metrics: What is slow in that batch.
        driver: Nodes with the driver that costs a little.
        driver_metrics: What it costs.
    """

    sick: dict[str, tuple[str, float]]
    batch: frozenset[str]
    batch_metrics: tuple[str, ...]
    driver: frozenset[str]
    driver_metrics: tuple[str, ...]


def metrics_of(count: int) -> list[tuple[str, str, Metric]]:
    """Return benchmark, component and metric of so many metrics."""
    found = []
    for number in range(count):
        component, test, unit, better = KINDS[number % len(KINDS)]
        form = FORMS[number // len(KINDS) % len(FORMS)]
        form += "" if number < len(KINDS) * len(FORMS) else f"_{number}"
        name = f"{test.removeprefix('test_')}_{form}"
        name = DRIFTING if name == "loopback_small" else name
        benchmark = f"suites/{component.partition('.')[0]}/{test}.py::{test}[{form}]"
        found.append((benchmark, component, Metric(name=name, unit=unit, better=better)))  # type: ignore[arg-type]
    return found


def simulate(folder: Path, *, nodes: int = 1000, metrics: int = 100, seed: int = 7) -> Planted:
    """Write a fleet: ``healthy/`` to be learned from, ``runs/`` with ``nodes.csv`` to be judged.

    Args:
        folder: Where to.
        nodes: How many there are; a fifth is of a second hardware class.
        metrics: How many each is measured by.
        seed: Of the random numbers.
    """
    chance = np.random.default_rng(seed)
    names = [f"r{i // RACK + 1:02d}n{i % RACK + 1:02d}" for i in range(nodes)]
    classes = ["gen2" if i >= nodes * 4 // 5 else "gen1" for i in range(nodes)]
    # A batch fills three racks; only one delivery of the bad one came.
    batches = [f"B{1 + i // (3 * RACK) % 6}" for i in range(nodes)]
    bad = range(9 * RACK, min(12 * RACK, nodes * 4 // 5))
    batches = [BATCH if i in bad else "B5" if b == BATCH else b for i, b in enumerate(batches)]
    catalogue = metrics_of(metrics)
    well = [i for i in range(nodes) if i not in bad]
    picked = sorted(chance.choice(well, size=max(1, nodes // 60), replace=False).tolist())
    planted = Planted(
        sick={
            names[i]: (catalogue[chance.integers(metrics)][2].name, float(chance.uniform(0.1, 0.5)))
            for i in picked
        },
        batch=frozenset(names[i] for i in bad),
        batch_metrics=tuple(m.name for _, c, m in catalogue if c == "accelerator.memory")[:2],
        driver=frozenset(names[2::5]),
        driver_metrics=tuple(m.name for _, c, m in catalogue if c == "accelerator.launch")[:3],
    )
    sound = [i for i in well if names[i] not in planted.sick]
    chosen = sound[:: max(1, len(sound) // HEALTHY)]
    healthy = [(names[i], classes[i], -30) for i in chosen]
    _write(folder / "healthy" / "fleet.npz", healthy, catalogue, None, chance)
    visits = [
        (names[i], classes[i], turn * APART + i * 7 % APART)
        for i in range(nodes)
        for turn in range(ROUNDS)
    ]
    _write(folder / "runs" / "fleet.npz", visits, catalogue, planted, chance)
    with (folder / "runs" / "nodes.csv").open("w", newline="", encoding="utf-8") as out:
        table = csv.writer(out)
        table.writerow(["node", "class", "rack", "position", "batch", "serial"])
        for i, name in enumerate(names):
            rack, place = f"rack {i // RACK + 1:02d}", i % RACK + 1
            table.writerow([name, classes[i], rack, place, batches[i], f"S{7000 + i}"])
    return planted


Visit = tuple[str, str, int]
"""A node, its class, and the day on which it was measured."""


def _write(
    path: Path,
    visits: list[Visit],
    catalogue: list[tuple[str, str, Metric]],
    planted: Planted | None,
    chance: np.random.Generator,
) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    runs = [
        RunRecord(
            run=f"{node}-{day}",
            node=node,
            hardware_class=key,
            profile="standard",
            started=(BEGIN + datetime.timedelta(days=day)).isoformat(timespec="seconds"),
            ended=(BEGIN + datetime.timedelta(days=day)).isoformat(timespec="seconds"),
            attributes={"driver": DRIVER if planted and node in planted.driver else "580.82"},
        )
        for node, key, day in visits
    ]
    populations = []
    for number, (benchmark, component, metric) in enumerate(catalogue):
        for key in sorted({visit[1] for visit in visits}):
            rows = [visit for visit in visits if visit[1] == key]
            own = {node: chance.normal(1, SPREAD) for node, _, _ in rows}
            rate = np.array(
                [own[node] * _left(node, day, metric.name, planted) for node, _, day in rows]
            )
            typical = 40.0 * (number + 1) * (1.25 if key == "gen2" else 1.0)
            values: FloatArray = rate[:, None] * chance.normal(1, NOISE, (len(rows), VALUES))
            values = typical * values if metric.better == "higher" else typical / values
            populations.append(
                Population(
                    hardware_class=key,
                    benchmark=benchmark,
                    metric=metric,
                    component=component,
                    nodes=[node for node, _, _ in rows],
                    devices=["node"] * len(rows),
                    runs=[f"{node}-{day}" for node, _, day in rows],
                    values=values.ravel(),
                    offsets=np.arange(len(rows) + 1, dtype=np.int64) * VALUES,
                )
            )
    save_columns(Columns(populations=tuple(populations), runs=tuple(runs)), path)


def _left(node: str, day: int, metric: str, planted: Planted | None) -> float:
    """Return which share of its rate a node has left."""
    if planted is None:
        return 1.0
    left = 1.0
    if planted.sick.get(node, ("", 0.0))[0] == metric:
        left *= 1 - planted.sick[node][1]
    if node in planted.batch and metric in planted.batch_metrics:
        left *= OF_BATCH
    if node in planted.driver and metric in planted.driver_metrics:
        left *= OF_DRIVER
    if metric == DRIFTING:
        left *= 1 - OF_TIME * day / (ROUNDS * APART)
    return left


def found(index: str, planted: Planted) -> list[tuple[str, bool]]:
    """Return what the page says on top of what was planted: (what, whether it is there)."""
    data = json.loads(re.findall(r"id='fleet'>(.*?)</script>", index)[0])
    rejected = {one[0] for one in data["nodes"] if data["decisions"][one[1]] == "REJECTED"}
    top = index[: index.index("id='map'")]
    shared = top[top.index("What they share") : top.index("What drifts")]
    drifts = top[top.index("What drifts") :].partition("</section>")[0]
    expected = {*planted.sick, *planted.batch}
    return [
        (
            f"{len(planted.sick)} sick nodes and {len(planted.batch)} of the batch rejected",
            expected <= rejected,
        ),
        (f"{len(rejected - expected)} other nodes rejected", rejected <= expected),
        (
            f"batch {BATCH} is the first thing that they share",
            f"<li><b>batch {BATCH}</b>" in shared[:200],
        ),
        (f"driver {DRIVER} stands apart", f"driver {DRIVER}" in shared),
        (f"{DRIFTING} is all that drifts", DRIFTING in drifts and drifts.count("<li>") == 1),
    ]
