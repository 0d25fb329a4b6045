"""An operator's Monday: results of 500 nodes in tables, judged from the command line, what is planted found.

Run: ``python benchmarks/fleet/monday.py [--nodes 500] [--seed 1] [--keep DIR] [--no-history]``. Three weekly
rounds of 20 metrics (14 of them on each of eight cards), one value a cell, .4 % of the cells empty. Planted
are one card without any value, twelve faults (5 to 60 % slower, or wrong data), a delivery of 50 nodes with
slower PCIe, a driver change of the third week that costs half of the nodes training speed, and a single bad
value that no later round repeats. The day is played step by step, as an operator types it: import, learn,
judge, push, fleet status, drain list. Printed are seconds and lines of each step, and for every planted fact
the line in which the step that should say it does.

With ``--missing`` it prints instead what empty cells cost: how many nodes are UNDECIDED for them, and how
many of the planted faults would be accepted since exactly the cells that tell of them are empty, by the
share that ``--allow-missing`` lets pass.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import json
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout's packages

import numpy as np

CARDS = 8
EMPTY = 0.004
"""Share of cells without a value."""
NODE, CARD, ROUND = 0.006, 0.006, 0.004
"""Relative spread of healthy nodes, of the cards of a node, and from one round to the next."""
NOISY = {"disk_read": 3.0, "disk_write": 4.0, "net_allreduce": 2.0}
"""How many times as much of it these metrics have."""
BEGIN = datetime(2026, 11, 2, 4, tzinfo=UTC)
WEEKS = 3
BATCH, OF_BATCH = "C", 0.045
DRIVER, OLD_DRIVER, OF_DRIVER = "580", "570", 0.025
GONE = ("n0488", 6)
FIRST = 10
"""In so many lines of a step each planted fact has to stand."""
CARD_METRICS = (
    ("gemm", "gemm_fp32", "TFLOP/s", "higher", "accelerator.compute", 60.0),
    ("gemm", "gemm_tf32", "TFLOP/s", "higher", "accelerator.compute", 400.0),
    ("gemm", "gemm_fp16", "TFLOP/s", "higher", "accelerator.compute", 750.0),
    ("gemm", "gemm_fp8", "TFLOP/s", "higher", "accelerator.compute", 1400.0),
    ("gemm", "gemm_errors", "errors", "equal", "accelerator.compute", 0.0),
    ("burn", "burn_rate", "TFLOP/s", "higher", "accelerator.compute", 680.0),
    ("launch", "launch_time", "us", "lower", "accelerator.launch", 2.4),
    ("hbm", "hbm_copy", "GB/s", "higher", "accelerator.memory", 2600.0),
    ("hbm", "hbm_triad", "GB/s", "higher", "accelerator.memory", 2800.0),
    ("hbm", "hbm_errors", "errors", "equal", "accelerator.memory", 0.0),
    ("pcie", "pcie_h2d", "GB/s", "higher", "accelerator.pcie", 55.0),
    ("pcie", "pcie_d2h", "GB/s", "higher", "accelerator.pcie", 54.0),
    ("p2p", "p2p_write", "GB/s", "higher", "accelerator.link", 371.0),
    ("p2p", "p2p_read", "GB/s", "higher", "accelerator.link", 365.0),
)
NODE_METRICS = (
    ("stream", "stream_copy", "GB/s", "higher", "memory.bandwidth", 480.0),
    ("stream", "stream_triad", "GB/s", "higher", "memory.bandwidth", 500.0),
    ("disk", "disk_read", "GB/s", "higher", "storage.disk", 12.0),
    ("disk", "disk_write", "GB/s", "higher", "storage.disk", 6.5),
    ("net", "net_allreduce", "GB/s", "higher", "network.fabric", 350.0),
    ("training", "training", "samples/s", "higher", "workload.training", 2400.0),
)
METRICS = (*CARD_METRICS, *NODE_METRICS)
PER_NODE = CARDS * len(CARD_METRICS) + len(NODE_METRICS)


@dataclass(frozen=True)
class Fault:
    """A planted fault.

    Attributes:
        node: Its node.
        metrics: What it slows down, or makes wrong.
        card: The card that has it; None: the node, or all of its cards.
        loss: The share of the rate that it costs; of exact metrics how many values are wrong.
        since: The first week that has it, from 1.
        until: The last one.
    """

    node: str
    metrics: tuple[str, ...]
    card: int | None
    loss: float
    since: int = 1
    until: int = WEEKS

    def hits(self, metric: str, card: int | None, week: int) -> bool:
        """Tell whether it is in a cell."""
        here = self.card is None or self.card == card
        return metric in self.metrics and here and self.since <= week <= self.until


FAULTS = (
    Fault("n0309", ("hbm_errors",), 2, 3.0),
    Fault("n0417", ("gemm_errors",), 5, 41.0, since=2),
    Fault("n0052", ("p2p_write", "p2p_read"), 3, 0.60),
    Fault("n0201", ("pcie_h2d", "pcie_d2h"), 1, 0.50),
    Fault("n0230", ("disk_write",), None, 0.45),
    Fault("n0077", ("gemm_fp32", "gemm_tf32", "gemm_fp16", "gemm_fp8", "burn_rate"), 7, 0.30),
    Fault("n0345", ("net_allreduce",), None, 0.25, since=2),
    Fault("n0263", ("stream_copy", "stream_triad"), None, 0.20),
    Fault("n0498", ("hbm_copy", "hbm_triad"), 4, 0.15),
    Fault("n0011", ("launch_time",), 6, 0.12),
    Fault("n0390", ("training",), None, 0.08, since=3),
    Fault("n0179", ("gemm_fp32", "gemm_tf32", "gemm_fp16", "gemm_fp8", "burn_rate"), 0, 0.05),
)
"""Twelve: in one card or in a part that the node has once, from 60 % down to 5 %, or wrong."""
PASSING = Fault("n0479", ("pcie_d2h",), 3, 0.07, since=1, until=1)
"""A single bad value that no later round repeats: somebody used the card meanwhile."""


def batch_of(number: int, nodes: int) -> str:
    """Return a node's delivery: the fifth tenth of the fleet is the slower one."""
    return BATCH if nodes // 5 <= number < nodes // 5 + nodes // 10 else "ABDE"[number * 4 // nodes]


def driver_of(number: int, week: int) -> str:
    """Return a node's driver: the half of them gets the new one before the third round."""
    return DRIVER if week == WEEKS and number % 2 else OLD_DRIVER


def cells(nodes: int, seed: int, *, empty: float = EMPTY) -> Iterator[tuple[int, list[list[Any]]]]:
    """Yield a week and its rows, in the order of the table's columns."""
    chance = np.random.default_rng(seed)
    own = {m[1]: chance.normal(0, NODE, nodes) for m in METRICS}
    cards = {m[1]: chance.normal(0, CARD, (nodes, CARDS)) for m in CARD_METRICS}
    for week in range(1, WEEKS + 1):
        rows: list[list[Any]] = []
        for number in range(nodes):
            node = f"n{number:04d}"
            began = BEGIN + timedelta(weeks=week - 1, minutes=number)
            head = [began.isoformat(), driver_of(number, week)]
            for benchmark, metric, unit, better, component, typical in METRICS:
                of_card = metric in cards
                for card in range(CARDS) if of_card else (None,):
                    if (node, card) == GONE:
                        continue
                    shift = own[metric][number] + (cards[metric][number, card] if of_card else 0.0)
                    shift = (shift + chance.normal(0, ROUND)) * NOISY.get(metric, 1.0)
                    left = np.exp(shift) * _left(number, nodes, metric, week)
                    wrong = 0.0
                    for fault in (*FAULTS, PASSING):
                        if fault.node == node and fault.hits(metric, card, week):
                            left, wrong = left * (1 - fault.loss), fault.loss
                    value = typical * left if better == "higher" else typical / left
                    text = f"{wrong:.0f}" if better == "equal" else f"{value:.5g}"
                    text = "" if chance.random() < empty else text
                    device = "node" if card is None else f"cuda:{card}"
                    rows.append(
                        [node, device, benchmark, metric, unit, better, component, text, *head]
                    )
        yield week, rows


def _left(number: int, nodes: int, metric: str, week: int) -> float:
    """Return what the delivery and the driver leave of a node's rate."""
    left = 1.0
    if metric.startswith("pcie") and batch_of(number, nodes) == BATCH:
        left *= 1 - OF_BATCH
    if metric == "training" and driver_of(number, week) == DRIVER:
        left *= 1 - OF_DRIVER
    return left


def write_fleet(folder: Path, nodes: int, seed: int, *, empty: float = EMPTY) -> None:
    """Write a table a week, and the register of the nodes."""
    for week, rows in cells(nodes, seed, empty=empty):
        with (folder / f"w{week}.csv").open("w", newline="", encoding="utf-8") as out:
            table = csv.writer(out)
            names = "node,device,benchmark,metric,unit,better,component,value,time,driver,class"
            table.writerow(names.split(","))
            table.writerows([*row, "8xH100"] for row in rows)
    with (folder / "nodes.csv").open("w", newline="", encoding="utf-8") as out:
        table = csv.writer(out)
        table.writerow(["node", "class", "rack", "batch", "serial"])
        for number in range(nodes):
            rack, batch = f"r{number // 20:02d}", batch_of(number, nodes)
            table.writerow([f"n{number:04d}", "8xH100", rack, batch, f"S{7000 + number}"])


@dataclass(frozen=True)
class Step:
    """What a step printed.

    Attributes:
        name: Its command, in short.
        seconds: How long it took.
        code: Its exit code.
        lines: What it printed.
    """

    name: str
    seconds: float
    code: int
    lines: Sequence[str]


def play(folder: Path, *, history: bool) -> Iterator[Step]:
    """Yield the steps of the day, each played when it is asked for."""
    weeks = [f"w{week}.csv" for week in range(1, WEEKS + 1)]
    imports = [f".anubis/imports/{name}.npz" for name in weeks]
    steps = [
        ("import", ["import", "table", *weeks]),
        ("learn", ["learn", *imports[:-1], "-o", "baselines"]),
        (
            "judge",
            [
                *("judge", *imports, "--baseline", "baselines"),
                *("--nodes-file", "nodes.csv", "--json", "judged.json"),
            ],
        ),
    ]
    if history:
        steps += [
            ("push", ["push", *imports[1:], "--baseline", "baselines", "--history", "history"]),
            ("status", ["fleet", "status", "--history", "history"]),
            ("drain-list", ["fleet", "drain-list", "--history", "history"]),
        ]
    for name, words in steps:
        began = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-m", "pytest_anubis.cli.main", *words],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        took = time.perf_counter() - began
        said = f"{done.stdout}{done.stderr}"
        (folder / f"{name}.txt").write_text(f"$ anubis {shlex.join(words)}\n{said}")
        if done.returncode not in (0, 1, 20):
            sys.exit(f"anubis {shlex.join(words)} failed:\n{said}")
        yield Step(name, took, done.returncode, said.splitlines())


def facts() -> list[tuple[str, str, str]]:
    """Return the planted facts: what, the step that should say it, and the pattern of how."""
    found = [
        ("the missing card", "judge", rf"{GONE[0]}\b.*cuda:{GONE[1]} is gone"),
        (f"batch {BATCH}", "judge", rf"batch {BATCH}\b.*pcie.*4\.\d %"),
        (f"driver {DRIVER}", "judge", rf"driver {DRIVER}\b.*training.*2\.\d %"),
        ("empty cells, counted", "judge", r"values? (is|are) missing"),
    ]
    for fault in FAULTS:
        card = "" if fault.card is None else f" cuda:{fault.card}"
        size = f"{fault.loss:.0f} wrong" if fault.loss >= 1 else f"{100 * fault.loss:.0f} %"
        what = f"{fault.node}{card} {fault.metrics[0]} {size}"
        found.append((what, "judge", rf"{fault.node}\b"))
    found += [
        ("the missing card", "drain-list", rf"{GONE[0]}\b"),
        ("the missing card", "status", rf"{GONE[0]}\b"),
    ]
    return found


def line_of(pattern: str, lines: Sequence[str]) -> int:
    """Return the number of the first line, from 1, with a pattern; 0: none has it."""
    found = (n for n, line in enumerate(lines, start=1) if re.search(pattern, line))
    return next(found, 0)


def day(folder: Path, options: Any) -> bool:
    """Play the day and print its table; return whether all that was planted was found."""
    steps = {one.name: one for one in play(folder, history=not options.no_history)}
    print(
        f"{options.nodes} nodes x {CARDS} cards x {len(METRICS)} metrics, {WEEKS} rounds, seed {options.seed}"
    )
    for one in steps.values():
        print(f"{one.name:11} {one.seconds:6.1f} s {len(one.lines):5} lines  exit code {one.code}")
    nodes = json.loads((folder / "judged.json").read_text())["nodes"]
    counts = {
        d: sum(n["decision"] == d for n in nodes) for d in ("REJECTED", "UNDECIDED", "ACCEPTED")
    }
    print(", ".join(f"{number} {decision}" for decision, number in counts.items()))
    sick = {GONE[0], *(fault.node for fault in FAULTS)}
    healthy = [n["node"] for n in nodes if n["decision"] == "REJECTED" and n["node"] not in sick]
    in_batch = sum(batch_of(int(name[1:]), options.nodes) == BATCH for name in healthy)
    print(f"rejected without a fault: {len(healthy)}, {in_batch} of them of batch {BATCH}")
    passing = next(n["decision"] for n in nodes if n["node"] == PASSING.node)
    print(f"{PASSING.node}, whose bad value a later round did not repeat: {passing}")
    fine = bool(counts["UNDECIDED"] < 0.05 * options.nodes)
    for what, step, pattern in facts():
        if step not in steps:
            continue
        at = line_of(pattern, steps[step].lines)
        fine = fine and 0 < at <= FIRST
        where = (
            "NOT said" if not at else f"line {at}" + ("" if at <= FIRST else f" (beyond {FIRST})")
        )
        print(f"{step:11} {what:32} {where}")
    return fine


ALLOWANCES = (0.0, 0.01, 0.02, 0.03, 0.05)
SHARES = (EMPTY, 0.01, 0.02, 0.05)
DRAWS = 20_000


def cost_of_missing(folder: Path, options: Any) -> None:
    """Print what empty cells cost, by the share of them and by what is allowed.

    The tables have no empty cell; which cells tell of each fault is what judging the last round finds.
    Then cells are emptied at random, and a fault is hidden where all cells that tell of it are empty on a
    node that is accepted all the same.
    """
    write_fleet(folder, options.nodes, options.seed, empty=0.0)
    week = f".anubis/imports/w{WEEKS}.csv.npz"
    for words in (
        ["import", "table", *(f"w{number}.csv" for number in range(1, WEEKS + 1))],
        ["learn", ".anubis/imports/w1.csv.npz", ".anubis/imports/w2.csv.npz", "-o", "baselines"],
        ["judge", week, "--baseline", "baselines", "--json", "judged.json"],
    ):
        subprocess.run(
            [sys.executable, "-m", "pytest_anubis.cli.main", *words],
            cwd=folder,
            capture_output=True,
        )
    rows = json.loads((folder / "judged.json").read_text())["verdicts"]
    order = {
        (metric, device): place
        for place, (metric, device) in enumerate(
            (m[1], f"cuda:{card}" if m in CARD_METRICS else "node")
            for m in METRICS
            for card in range(CARDS if m in CARD_METRICS else 1)
        )
    }
    telling = {
        fault.node: sorted(
            order[row["metric"], row["device"]]
            for row in rows
            if row["node"] == fault.node and row["verdict"] == "FAIL" and row["scope"] == "unit"
        )
        for fault in FAULTS
    }
    found = {node: cells for node, cells in telling.items() if cells}
    print(f"{len(found)} faults fail in {sorted(map(len, found.values()))} cells of {PER_NODE}")
    parts, benchmarks = {m[1]: m[4] for m in METRICS}, {m[1]: m[0] for m in METRICS}
    devices: dict[tuple[str, str], list[int]] = {}
    whole: dict[tuple[str, str], list[int]] = {}
    for (metric, device), place in order.items():
        devices.setdefault((parts[metric], device), []).append(place)
        whole.setdefault((benchmarks[metric], ""), []).append(place)
    print(
        "there must be another cell of the component on the device, or of the benchmark on the node"
    )
    print(
        "cells empty  allowed  where   nodes UNDECIDED  faults hidden  of those that one cell tells"
    )
    for share, allowed, (where, groups) in product(
        SHARES, ALLOWANCES, {"device": devices, "node": whole}.items()
    ):
        empty = np.random.default_rng(options.seed).random((DRAWS, PER_NODE)) < share
        bare = empty.sum(axis=1) > np.floor(allowed * PER_NODE)
        for places in groups.values():
            bare |= empty[:, places].all(axis=1)
        each = {node: (empty[:, cells].all(axis=1) & ~bare).mean() for node, cells in found.items()}
        alone = [each[node] for node, cells in found.items() if len(cells) == 1]
        print(
            f"{100 * share:9.1f} %  {100 * allowed:5.0f} %  {where:6}  {100 * bare.mean():13.1f} %"
            f"  {100 * np.mean(list(each.values())):11.3f} %  {100 * np.mean(alone or [0.0]):11.3f} %"
        )


def main() -> int:
    """Play the day, or print what empty cells cost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--nodes", type=int, default=500, help="at least 500: faults have their nodes"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--keep", type=Path, help="folder for tables, baselines and what was printed"
    )
    parser.add_argument(
        "--no-history", action="store_true", help="without push, status and drain list"
    )
    parser.add_argument("--missing", action="store_true", help="what empty cells cost, instead")
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        folder = options.keep or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        if options.missing:
            cost_of_missing(folder, options)
            return 0
        write_fleet(folder, options.nodes, options.seed)
        return 0 if day(folder, options) else 1


if __name__ == "__main__":
    sys.exit(main())
