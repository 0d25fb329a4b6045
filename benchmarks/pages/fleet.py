"""The fleet page: a simulated fleet of 1,000 nodes x 100 metrics, its pages written, opened and searched.

Run: ``python benchmarks/pages/fleet.py [--nodes 1000] [--metrics 100] [--keep DIR]``. The fleet has sick
nodes, one bad batch, a driver that costs a little, and a metric that drifts. Times of the page are taken in a
real headless Chromium (``performance.now``); without one they are left out. With ``--keep`` the pages stay,
with pictures of them.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import datetime
import io
import json
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout's packages

import numpy as np

from benchmarks.pages import chromium as browsing
from pytest_anubis.cli.main import main as anubis
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
SEARCHES = ("r1", "network", "REJECTED b4", "no such node")
"""What is typed into the search box: a rack, a component, two words, nothing."""


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


_SEARCH = """new Promise(done=>{const q=document.getElementById('q'),t=performance.now();q.value=%s;
q.dispatchEvent(new Event('input'));document.body.offsetHeight;
requestAnimationFrame(()=>setTimeout(()=>done([performance.now()-t,
document.getElementById('told').textContent])))})"""
"""Types into the search box; done when the next picture has been drawn."""


def measured(site: Path, pictures: Path | None) -> Iterator[tuple[str, str]]:
    """Yield what was measured in the browser, (what, how long)."""
    with browsing.Browser() as browser:
        browser.size(1400, 1000)
        index = site / "index.html"
        for turn in ("first", "second"):
            browser.open(index)
            ready = float(browser.value("document.documentElement.dataset.ready"))
            loaded = browser.value("performance.getEntriesByType('navigation')[0].loadEventEnd")
            yield f"opened, {turn} time: searchable, loaded", f"{ready:.0f} ms, {loaded:.0f} ms"
        for words in SEARCHES:
            took, told = browser.value(_SEARCH % json.dumps(words))
            yield f"search {words!r}: {told}", f"{took:.0f} ms"
        wide = browser.value("document.documentElement.scrollWidth")
        browser.size(390, 844)
        narrow = browser.value("document.documentElement.scrollWidth")
        yield "width of the page in windows of 1400 and 390 pixels", f"{wide}, {narrow}"
        if pictures is not None:
            _pictures(browser, index, pictures)


def _pictures(browser: Any, index: Path, folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    browser.open(index)
    for name, width, dark in (("light", 1400, False), ("dark", 1400, True), ("narrow", 390, False)):
        browser.value("scrollTo(0,0)")
        browser.look(folder / f"{name}-top.png", width=width, height=1000, dark=dark)
        browser.value("document.getElementById('map').scrollIntoView()")
        browser.look(folder / f"{name}-map.png", width=width, height=1000, dark=dark)


def main() -> int:
    """Print the table; exit with 1 if something planted is not found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--metrics", type=int, default=100)
    parser.add_argument("--keep", type=Path, help="folder for fleet, pages and pictures")
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        folder = options.keep or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        rows, fine = _rows(folder, options)
        width = max(len(name) for name, _ in rows)
        print(f"{options.nodes} nodes x {options.metrics} metrics, {ROUNDS} runs each")
        print("\n".join(f"{name:{width}}  {text}" for name, text in rows))
    return 0 if fine else 1


def _rows(folder: Path, options: Any) -> tuple[list[tuple[str, str]], bool]:
    planted = simulate(folder, nodes=options.nodes, metrics=options.metrics)
    site, baselines = folder / "site", folder / "baselines"
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        anubis(["learn", str(folder / "healthy"), "-o", str(baselines)])
        began, used = time.perf_counter(), time.process_time()
        given = ["report", "--fleet", str(folder / "runs"), "--baseline", str(baselines)]
        code = anubis([*given, "--html", str(site)])
    if code:
        sys.exit(f"anubis report failed:\n{said.getvalue()}")
    took = f"{time.perf_counter() - began:.1f} s, {time.process_time() - used:.1f} s of one CPU"
    pages = list(site.rglob("*.html"))
    size = sum(page.stat().st_size for page in pages)
    index = (site / "index.html").read_text(encoding="utf-8")
    rows = [
        ("read, judged, written", took),
        (f"{len(pages)} pages", f"{size / 1e6:.0f} MB"),
        ("the page itself", f"{len(index) / 1e6:.2f} MB"),
    ]
    facts = found(index, planted)
    rows += [(name, "yes" if true else "NO") for name, true in facts]
    if browsing.chromium():
        rows += measured(site, folder / "pictures" if options.keep else None)
    return rows, all(true for _, true in facts)


if __name__ == "__main__":
    sys.exit(main())
