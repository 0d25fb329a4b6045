"""Speed of the Validator, each measurement beside its peer in one process.

(a) the same flags as the naive all-pairs algorithm, and how much sooner, at N units;
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
import numpy.typing as npt

from pytest_anubis.core.metric import Metric
from pytest_anubis.core.sample import Population, population_of
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


def naive(population: Population, rows: int) -> tuple[npt.NDArray[np.bool_], float]:
    """Return the flags of the first `rows` units by comparing all pairs, and the seconds for all pairs.

    The similarity is computed as the paper describes it, pair by pair from the sorted union of values.
    """
    samples = [np.sort(population.sample(i).astype(np.float64)) for i in range(rows)]

    def alike(a: npt.NDArray[np.float64], b: npt.NDArray[np.float64], worse: bool) -> float:
        xs = np.unique(np.concatenate([a, b]))
        f = np.searchsorted(a, xs, "right")[:-1] / len(a)
        g = np.searchsorted(b, xs, "right")[:-1] / len(b)
        width = np.diff(xs)
        union = xs[0] + (np.maximum(1 - f, 1 - g) * width).sum()
        gap = np.maximum(g - f, 0) if worse else np.abs(f - g)
        return float(1 - (gap * width).sum() / union)

    begin = time.perf_counter()
    table = np.ones((rows, rows))
    for i in range(rows):
        for j in range(i + 1, rows):
            table[i, j] = table[j, i] = alike(samples[i], samples[j], worse=False)
    live = np.arange(rows)
    while True:
        centre = samples[live[table[np.ix_(live, live)].sum(1).argmax()]]
        kept = live[[alike(samples[i], centre, worse=True) >= 0.95 for i in live]]
        if len(kept) == len(live):
            break
        live = kept
    flags = np.array([alike(s, centre, worse=True) < 0.95 for s in samples])
    return flags, time.perf_counter() - begin


def part(population: Population, rows: int) -> Population:
    """Return the first rows of a population."""
    return population_of(
        [population.sample(i) for i in range(rows)],
        metric=METRIC,
        benchmark="b",
        nodes=population.nodes[:rows],
    )


def against_all_pairs(units: int) -> None:
    """Print (a): measured at a quarter of the units, naive time scaled by the square."""
    rows = max(units // 4, 50)
    whole = fleet(units, 32)
    small = part(whole, rows)
    flags, slow = naive(small, rows)
    ours = min(seconds(lambda: learn_criterion(small)) for _ in range(5))
    same = bool((learn_criterion(small).flagged == flags).all())
    large = min(seconds(lambda: learn_criterion(whole)) for _ in range(5))
    scaled = slow * (units / rows) ** 2
    print(f"(a) {rows} units: all pairs {slow:.2f} s, ours {ours * 1e3:.1f} ms, same flags: {same}; "
          f"{units} units: all pairs {scaled:.0f} s (from {rows} by the square), ours {large * 1e3:.1f} ms, "
          f"{scaled / large:,.0f} times")  # fmt: skip


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
    against_all_pairs(options.units)
    growth()
    one_node()
    if options.wide:
        wide_table()


if __name__ == "__main__":
    main()
