"""The fleet page: a simulated fleet of 1,000 nodes x 100 metrics, its page written, opened and searched.

Run: ``python -m benchmarks.fleet_page [--nodes 1000] [--keep DIR]``. The fleet has sick nodes, one bad batch, a driver
that costs a little, and a metric that drifts. Times of the page are taken in a real headless Chromium
(``performance.now``), which is skipped where there is none.
"""

from __future__ import annotations

import csv
import datetime
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pytest_anubis.core.metric import Metric
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.sample import Population
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
BATCH, DRIVER, DRIFTING = "B4", "580.95", "loopback_rate"
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


@dataclass(frozen=True, slots=True)
class Planted:
    """What was planted in the fleet, to be found.

    Attributes:
        sick: Node -> (metric, share of its rate that it lost).
        batch: Nodes of the bad batch.
        batch_metrics: What is slow in that batch.
        driver: Nodes with the driver that costs a little.
        drifting: The metric that drifts on all nodes.
    """

    sick: dict[str, tuple[str, float]]
    batch: tuple[str, ...]
    batch_metrics: tuple[str, ...]
    driver: tuple[str, ...]
    drifting: str


def metrics_of(count: int) -> list[tuple[str, str, Metric, float]]:
    """Return benchmark, component, metric and typical value of so many metrics."""
    found = []
    for number in range(count):
        component, test, unit, better = KINDS[number % len(KINDS)]
        form = FORMS[number // len(KINDS) % len(FORMS)]
        more = "" if number < 100 else f"_{number // 100}"
        name = f"{test.removeprefix('test_')}_{form}{more}"
        if number == 5:
            name = DRIFTING
        benchmark = f"suites/{component.partition('.')[0]}/{test}.py::{test}[{form}{more}]"
        found.append(
            (benchmark, component, Metric(name=name, unit=unit, better=better), 40.0 * (1 + number))
        )
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
    # A batch was delivered in one go, and was put into racks three at a time.
    batches = [f"B{1 + (i // (3 * RACK)) % 6}" for i in range(nodes)]
    batch = tuple(
        n for n, b, c in zip(names, batches, classes, strict=True) if (b, c) == (BATCH, "gen1")
    )[:48]
    batches = [
        "B5" if b == BATCH and n not in batch else b for n, b in zip(names, batches, strict=True)
    ]
    driver = tuple(n for i, n in enumerate(names) if i % 5 == 2)
    catalogue = metrics_of(metrics)
    of_batch = tuple(m.name for _, c, m, _ in catalogue if c == "accelerator.memory")[:2]
    costly = [m.name for _, c, m, _ in catalogue if c == "accelerator.launch"][:3]
    well = [n for n in names if n not in batch]
    picked = chance.choice(len(well), size=max(1, nodes // 60), replace=False)
    sick = {
        well[i]: (catalogue[chance.integers(metrics)][2].name, float(chance.uniform(0.1, 0.5)))
        for i in sorted(picked.tolist())
    }
    for place, rounds, ill in (("healthy", 1, False), ("runs", ROUNDS, True)):
        (folder / place).mkdir(parents=True, exist_ok=True)
        chosen = [i for i, n in enumerate(names) if ill or (n not in batch and n not in sick)]
        chosen = chosen if ill else chosen[:: max(1, len(chosen) // 240)]
        populations, runs = [], []
        units = [(i, r) for i in chosen for r in range(rounds)]
        days = {(i, r): (r * APART + (i * 7) % APART) if ill else 0 for i, r in units}
        for i, r in units:
            began = (
                BEGIN
                + datetime.timedelta(days=days[i, r], minutes=i % 600)
                - datetime.timedelta(days=0 if ill else 30)
            )
            version = DRIVER if names[i] in driver and ill else "580.82"
            runs.append(
                RunRecord(
                    run=f"{names[i]}-{place}-{r}", node=names[i], hardware_class=classes[i], profile="standard",
                    started=began.isoformat(timespec="seconds"), attributes={"driver": version},
                )
            )  # fmt: skip
        for benchmark, component, metric, typical in catalogue:
            for key in ("gen1", "gen2"):
                rows = [(i, r) for i, r in units if classes[i] == key]
                if not rows:
                    continue
                rate = np.empty(len(rows))
                own = {i: chance.normal(1, SPREAD) for i in chosen}
                for at, (i, r) in enumerate(rows):
                    rate[at] = own[i]
                    if not ill:
                        continue
                    if names[i] in sick and sick[names[i]][0] == metric.name:
                        rate[at] *= 1 - sick[names[i]][1]
                    if names[i] in batch and metric.name in of_batch:
                        rate[at] *= 0.92
                    if names[i] in driver and metric.name in costly:
                        rate[at] *= 0.982
                    if metric.name == DRIFTING:
                        rate[at] *= 1 - 0.028 * days[i, r] / (ROUNDS * APART)
                values = typical * (1.25 if key == "gen2" else 1) * rate[:, None]
                values = values * chance.normal(1, NOISE, (len(rows), VALUES))
                if metric.better == "lower":
                    values = typical**2 / values
                populations.append(
                    Population(
                        hardware_class=key, benchmark=benchmark, metric=metric, component=component,
                        nodes=[names[i] for i, _ in rows], devices=["node"] * len(rows),
                        runs=[f"{names[i]}-{place}-{r}" for i, r in rows], values=values.ravel(),
                        offsets=np.arange(len(rows) + 1, dtype=np.int64) * VALUES,
                    )
                )  # fmt: skip
        save_columns(
            Columns(populations=tuple(populations), runs=tuple(runs)), folder / place / "fleet.npz"
        )
    with (folder / "runs" / "nodes.csv").open("w", newline="", encoding="utf-8") as out:
        table = csv.writer(out)
        table.writerow(["node", "class", "rack", "position", "batch", "serial"])
        for i, name in enumerate(names):
            table.writerow(
                [
                    name,
                    classes[i],
                    f"rack {i // RACK + 1:02d}",
                    i % RACK + 1,
                    batches[i],
                    f"S{7000 + i}",
                ]
            )
    return Planted(sick=sick, batch=batch, batch_metrics=of_batch, driver=driver, drifting=DRIFTING)
