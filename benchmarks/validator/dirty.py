"""Limits learned from dirty fleets: how many healthy nodes they reject, and how many sick ones they find.

Simulated fleets of 41 metrics on 8 devices, a third of the metrics heavy-tailed. A share of the nodes that
are learned from is sick: each has one to five metrics that lose 3 to 60 %, on one device or on all, each node
its own (``alone``) or all sick nodes the same (``batch``). Judged are other nodes of the same fleet: healthy
ones, and healthy ones with one metric of one device made slower. A row has the mean over its fleets with its
standard error, and the largest of them; ``claimed`` is the rate that the baselines state of themselves, with
(!) where one says that it does not hold, and of how many of them it is true (`claims_kept`).

Usage: python benchmarks/validator/dirty.py [--nodes 60 120 300 1000] [--sick 0 .05 .1 .2 .3] [--fleets 3]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout's packages

import numpy as np

from benchmarks.validator.fleets import (
    DEVICES,
    FAIL,
    HELD,
    METRICS,
    MOST,
    Flags,
    Fleet,
    Values,
    population,
)
from pytest_anubis.core.baseline import Baseline, Scope
from pytest_anubis.validator import judge_columns, learn_baseline


def rejected(baseline: Baseline, metric: int, values: Values) -> Flags:
    """Return which nodes fail by a metric."""
    out = np.zeros(len(values), dtype=np.bool_)
    for scope in get_args(Scope):
        criterion = baseline.find("b", f"m{metric:02d}", scope=scope)
        if criterion is not None:
            judged = judge_columns(population(metric, values), criterion)
            out |= (judged.outcome.reshape(len(values), -1) == FAIL).any(axis=1)
    return out


@dataclass(frozen=True)
class Cell:
    """One fleet: how many nodes, which share of them sick, how, its seed, and how many nodes are judged."""

    nodes: int
    share: float
    batch: bool
    seed: int
    held: int = HELD


@dataclass(frozen=True)
class Tried:
    """What the limits of one fleet did.

    Attributes:
        rates: Shares of healthy nodes rejected, of losses of 10 to 60 % found, and of losses of 5 %.
        claim: The rate that the baseline states of itself.
        seconds: How long it took to learn.
    """

    rates: tuple[float, float, float]
    claim: str
    seconds: float


def tried(cell: Cell) -> Tried:
    """Learn one fleet, and judge other nodes of it."""
    fleet = Fleet(np.random.default_rng(cell.seed))
    train = [fleet.values(metric, cell.nodes) for metric in range(METRICS)]
    for node, metric, devices, loss in fleet.sick(cell.nodes, cell.share, cell.batch):
        train[metric][node, devices] /= 1 - loss
    begin = time.perf_counter()
    populations = [population(metric, values) for metric, values in enumerate(train)]
    baseline = learn_baseline(populations, hardware_class="c", created="-")
    took = time.perf_counter() - begin
    held = [fleet.values(metric, cell.held) for metric in range(METRICS)]
    large = fleet.rng.uniform(0.1, MOST, (METRICS, cell.held))
    healthy = np.zeros(cell.held, dtype=np.bool_)
    found = []
    for metric, values in enumerate(held):
        healthy |= rejected(baseline, metric, values)
        if metric % 2:
            continue
        slower = []
        for losses in (large[metric], np.full(cell.held, 0.05)):
            one = values.copy()
            one[:, 0] /= 1 - losses[:, None]
            slower.append(float(rejected(baseline, metric, one).mean()))
        found.append(slower)
    ten, five = np.mean(found, axis=0).tolist()
    return Tried((float(healthy.mean()), ten, five), claimed(baseline), took)


def claimed(baseline: Baseline) -> str:
    """Return the rate that a baseline states of itself."""
    check = baseline.self_check
    doubt = "" if check is None or check.holds else " (!)"
    return f"{baseline.error_rate:.1%}{doubt}" if baseline.factor is not None else "none"


def claims_kept(group: Sequence[Tried], held: int) -> str:
    """Return what the baselines of some fleets claim, and of how many it is true.

    A claim is true where it lies in the exact 95 % interval of what the baseline rejects of ``held`` healthy
    nodes, or where the baseline says that it does not hold.
    """
    from scipy.stats import binomtest

    result: dict[str, int] = {}
    true = 0
    for one in group:
        result[one.claim] = result.get(one.claim, 0) + 1
        seen = binomtest(round(one.rates[0] * held), held).proportion_ci(method="exact")
        silent = one.claim == "none" or "(!)" in one.claim
        true += silent or seen.low <= float(one.claim.rstrip("%")) / 100 <= seen.high
    return ", ".join(f"{claim} x{count}" for claim, count in result.items()) + f" ({true})"


def main() -> None:
    """Print one row for each kind of fleet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="*", default=[60, 120, 300, 1000])
    parser.add_argument("--sick", type=float, nargs="*", default=[0, 0.05, 0.1, 0.2, 0.3])
    parser.add_argument("--fleets", type=int, default=3)
    parser.add_argument("--held", type=int, default=HELD, help="healthy nodes that are judged")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    fleets = options.fleets
    cells = [
        Cell(nodes, share, batch, seed, options.held)
        for nodes in options.nodes
        for batch in (False, True)
        for share in options.sick
        if share or not batch
        for seed in range(fleets)
    ]
    print(
        f"{METRICS} metrics x {DEVICES} devices, {options.held} held-out nodes, {fleets} fleets a row"
    )
    print(f"{'nodes':>5} {'sick':>5} {'how':6} {'healthy rejected':>17} {'+-':>5} {'most':>5} "
          f"{'10 to 60 % found':>17} {'5 % found':>10}  claimed (true of)")  # fmt: skip
    took = []
    with ProcessPoolExecutor(options.jobs) as pool:
        done = pool.map(tried, cells)
        for cell in cells[::fleets]:
            group = [next(done) for _ in range(fleets)]
            took += [one.seconds for one in group]
            each = np.array([one.rates for one in group])
            healthy, ten, five = each.mean(axis=0)
            error = each[:, 0].std(ddof=1) / fleets**0.5 if fleets > 1 else np.nan
            how = "-" if not cell.share else "batch" if cell.batch else "alone"
            print(f"{cell.nodes:5d} {cell.share:5.0%} {how:6} {healthy:17.2%} {error:5.2%} "
                  f"{each[:, 0].max():5.1%} {ten:17.1%} {five:10.1%}  {claims_kept(group, options.held)}",
                  flush=True)  # fmt: skip
    print(f"learned in {np.mean(took):.1f} s on average")


if __name__ == "__main__":
    main()
