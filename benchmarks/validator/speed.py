"""Speed of the Validator.

(a) N units of 32 values: milliseconds;
(b) 100,000 units of 256 float32 quantiles: seconds and memory beyond the data;
(c) how cost grows with N: the fitted exponent;
(d) judging one node of 100 metrics on 8 devices;
(e) with --wide: a table of 150 nodes x 2,400 metrics x 8 devices, imported, learned and judged.

Usage: python benchmarks/validator/speed.py [--units 2000] [--wide]
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout's packages

import numpy as np

from pytest_anubis.core.metric import Metric
from pytest_anubis.core.sample import Population
from pytest_anubis.validator import judge_columns, judge_sample, learn_criterion

METRIC = Metric(name="step", unit="ms", better="lower")


def fleet(units: int, count: int, dtype: type = np.float64, slow: float = 0.02) -> Population:
    """Return a population of `units` x `count` values, a share of them 10 to 50 % slower."""
    rng = np.random.default_rng(0)
    values = rng.standard_normal((units, count), dtype=np.float32) * np.float32(0.01)
    values += rng.normal(0, 0.005, (units, 1)).astype(np.float32)
    np.exp(values, out=values)
    bad = rng.random(units) < slow
    values[bad] *= rng.uniform(1.1, 1.5, (int(bad.sum()), 1)).astype(np.float32)
    names = tuple(f"n{i:06d}" for i in range(units))
    return Population(
        hardware_class="c",
        benchmark="b",
        metric=METRIC,
        nodes=names,
        devices=("d",) * units,
        runs=("",) * units,
        values=values.astype(dtype, copy=False).ravel(),
        offsets=np.arange(units + 1, dtype=np.int64) * count,
    )


def seconds(call: Callable[[], object]) -> float:
    """Return how long one call takes."""
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def several(units: int) -> None:
    """Print (a)."""
    population = fleet(units, 32)
    took = min(seconds(lambda: learn_criterion(population)) for _ in range(5))
    print(f"(a) {units} units: {took * 1e3:.1f} ms")


def large(units: int) -> None:
    """Print (b)."""
    population = fleet(units, 256, np.float32)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    took = seconds(lambda: learn_criterion(population))
    more = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    data = population.values.nbytes / 2**20
    print(
        f"(b) {units} x 256 float32 ({data:.0f} MiB): {took:.2f} s, at most {more:.0f} MiB beyond the data"
    )


def growth() -> None:
    """Print (c)."""
    sizes = np.array([8000, 16000, 32000, 64000, 128000, 256000])
    fleets = [fleet(int(n), 64, np.float32) for n in sizes]
    wall, cpu = np.full(len(sizes), np.inf), np.full(len(sizes), np.inf)
    for _ in range(11):  # interleaved, the best of eleven
        for i, population in enumerate(fleets):
            begin = time.process_time()
            wall[i] = min(wall[i], seconds(lambda p=population: learn_criterion(p)))  # type: ignore[misc]
            cpu[i] = min(cpu[i], time.process_time() - begin)
    slopes = [np.polyfit(np.log(sizes), np.log(took), 1)[0] for took in (wall, cpu)]
    print("(c) " + ", ".join(f"{n}: {t * 1e3:.0f} ms" for n, t in zip(sizes, wall, strict=True))
          + f"; exponent {slopes[0]:.2f} of wall time, {slopes[1]:.2f} of CPU time")  # fmt: skip


def one_node() -> None:
    """Print (d)."""
    criterion = learn_criterion(fleet(300, 30)).criterion
    node = fleet(8, 30, slow=0.0)
    samples = [node.sample(i) for i in range(8)]

    def columns() -> None:
        for _ in range(100):
            judge_columns(node, criterion)

    def full() -> None:
        for _ in range(100):
            list(judge_columns(node, criterion).verdicts())

    def one_by_one() -> None:
        for _ in range(100):
            for sample in samples:
                judge_sample(sample, criterion)

    took = [np.inf] * 3
    for _ in range(9):  # interleaved, the best of nine
        took = [
            min(best, seconds(call) * 1e3)
            for best, call in zip(took, (columns, full, one_by_one), strict=True)
        ]
    print(
        f"(d) 100 metrics x 8 devices: {took[0]:.1f} ms in columns, {took[1]:.1f} ms with a full verdict "
        f"on each, {took[2]:.1f} ms sample by sample"
    )


def wide_table(nodes: int = 150, metrics: int = 2400, devices: int = 8) -> None:
    """Print (e): a table of all values of a fleet, imported, learned and judged by the command line."""
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with (folder / "wide.csv").open("w") as out:
            out.write("node,device,benchmark,metric,unit,better,value\n")
            for node in range(nodes):
                values = 100 * np.exp(rng.normal(0, 0.004, (metrics, devices)))
                out.writelines(
                    f"n{node:03d},cuda:{d},b,m{m:04d},GB/s,higher,{values[m, d]:.6f}\n"
                    for m in range(metrics)
                    for d in range(devices)
                )
        command = [sys.executable, "-m", "pytest_anubis.cli.main"]
        took = [
            seconds(
                lambda words=words: subprocess.run(  # type: ignore[misc]  # bound in this round
                    [*command, *words], cwd=folder, check=True, capture_output=True
                )
            )
            for words in (
                ["import", "table", "wide.csv"],
                ["learn", ".anubis/imports"],
                ["judge", ".anubis/imports", "--json", "out.json"],
            )
        ]
    print(
        f"(e) {nodes} nodes x {metrics} metrics x {devices} devices: imported in {took[0]:.0f} s, learned "
        f"in {took[1]:.0f} s, judged and written in {took[2]:.0f} s, together {sum(took):.0f} s"
    )


def main() -> None:
    """Print all of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--units", type=int, default=2000)
    parser.add_argument("--large", type=int, default=100_000)
    parser.add_argument("--wide", action="store_true", help="also (e), which takes a minute")
    options = parser.parse_args()
    large(options.large)
    several(options.units)
    growth()
    one_node()
    if options.wide:
        wide_table()


if __name__ == "__main__":
    main()
