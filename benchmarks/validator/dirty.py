"""Learned limits on dirty fleets: healthy nodes rejected, sick ones found.

Simulated fleets of 41 metrics on 8 devices, a third of the metrics heavy-tailed. A share of the nodes that
are learned from is sick: each has one to five metrics that lose 3 to 60 %, on one device or on all, each node
its own (``alone``) or all sick nodes the same (``batch``). Judged are other nodes of the same fleet: healthy
ones, and healthy ones with one metric of one device made slower. A row has the mean over its fleets with its
standard error and the largest of them; ``claimed`` is the rate that the baselines state of themselves, with
(!) where one says that it does not hold, and of how many of them it is true (`claims_kept`).

``--data DIR`` tries real machines.

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
from typing import Any, NamedTuple, get_args

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout's packages

import numpy as np

from benchmarks.validator.fleets import (
    DEVICES,
    FAIL,
    HELD,
    LEAST,
    METRICS,
    MOST,
    Flags,
    Fleet,
    Values,
    population,
    real_machines,
    real_population,
    sound_rejected,
)
from pytest_anubis.core.baseline import Baseline, Criterion, Scope
from pytest_anubis.validator import judge_columns, learn_baseline


class Learned:
    """What the Validator learns from a fleet with its defaults."""

    def __init__(self, train: Sequence[Values]) -> None:
        populations = [population(metric, values) for metric, values in enumerate(train)]
        self.baseline: Baseline = learn_baseline(populations, hardware_class="c", created="-")
        self.known: dict[tuple[str, Scope], Criterion] = {
            (c.metric.name, c.scope): c for c in self.baseline.criteria
        }

    def rejected(self, metric: int, values: Values) -> Flags:
        """Return which nodes fail by this metric."""
        out = np.zeros(len(values), dtype=np.bool_)
        for scope in get_args(Scope):
            criterion = self.known.get((f"m{metric:02d}", scope))
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


class Tried(NamedTuple):
    """What one fleet's baseline does: shares of the judged nodes, its claim, and seconds to learn it."""

    healthy: float  # healthy nodes rejected
    ten: float  # losses of 10 to 60 % found
    five: float  # losses of 5 % found
    claim: str
    took: float


def tried(cell: Cell) -> Tried:
    """Learn from a fleet, and judge other nodes of it."""
    fleet = Fleet(np.random.default_rng(cell.seed))
    train = [fleet.values(metric, cell.nodes) for metric in range(METRICS)]
    for node, metric, devices, loss in fleet.sick(cell.nodes, cell.share, cell.batch):
        train[metric][node, devices] /= 1 - loss
    begin = time.perf_counter()
    known = Learned(train)
    took = time.perf_counter() - begin
    held = [fleet.values(metric, cell.held) for metric in range(METRICS)]
    large = fleet.rng.uniform(0.1, MOST, (METRICS, cell.held))
    healthy = np.zeros(cell.held, dtype=np.bool_)
    found = []
    for metric, values in enumerate(held):
        healthy |= known.rejected(metric, values)
        if metric % 2:
            continue
        slower = []
        for losses in (large[metric], np.full(cell.held, 0.05)):
            one = values.copy()
            one[:, 0] /= 1 - losses[:, None]
            slower.append(float(known.rejected(metric, one).mean()))
        found.append(slower)
    ten, five = np.mean(found, axis=0).tolist()
    return Tried(float(healthy.mean()), ten, five, claimed(known.baseline), took)


def claimed(baseline: Baseline) -> str:
    """Return the rate that a baseline states of itself."""
    check = baseline.self_check
    doubt = "" if check is None or check.holds else " (!)"
    return f"{baseline.error_rate:.1%}{doubt}" if baseline.factor is not None else "none"


def simulated(options: argparse.Namespace) -> None:
    """Print one row for each cell."""
    cells = [
        Cell(nodes, share, batch, seed, options.held)
        for nodes in options.nodes
        for batch in (False, True)
        for share in options.sick
        if share or not batch
        for seed in range(options.fleets)
    ]
    print(
        f"{METRICS} metrics x {DEVICES} devices, {options.held} held-out nodes, {options.fleets} fleets a row"
    )
    print(f"{'nodes':>5} {'sick':>5} {'how':6} {'healthy rejected':>17} {'+-':>5} {'most':>5} "
          f"{'10 to 60 % found':>17} {'5 % found':>10}  claimed (true of)")  # fmt: skip
    took, fleets = [], options.fleets
    with ProcessPoolExecutor(options.jobs) as pool:
        done = pool.map(tried, cells)
        for cell in cells[::fleets]:
            group = [next(done) for _ in range(fleets)]
            took += [one.took for one in group]
            each = np.array([one[:3] for one in group])
            rejected, ten, five = each.mean(axis=0)
            error = each[:, 0].std(ddof=1) / fleets**0.5 if fleets > 1 else np.nan
            how = "-" if not cell.share else "batch" if cell.batch else "alone"
            print(f"{cell.nodes:5d} {cell.share:5.0%} {how:6} {rejected:17.2%} {error:5.2%} "
                  f"{each[:, 0].max():5.1%} {ten:17.1%} {five:10.1%}  {claims_kept(group, options.held)}",
                  flush=True)  # fmt: skip
    print(f"learned in {np.mean(took):.1f} s on average")


def claims_kept(group: Sequence[Tried], held: int) -> str:
    """Return what the baselines of some fleets claim, and of how many it is true.

    A claim is true where it lies in the exact 95 % interval of what the baseline rejects of ``held`` healthy
    nodes, or where the baseline says that it does not hold.
    """
    from scipy.stats import binomtest

    result: dict[str, int] = {}
    true = 0
    for one in group:
        claim = one.claim
        result[claim] = result.get(claim, 0) + 1
        seen = binomtest(round(one.healthy * held), held).proportion_ci(method="exact")
        silent = claim == "none" or "(!)" in claim
        true += silent or seen.low <= float(claim.rstrip("%")) / 100 <= seen.high
    return ", ".join(f"{claim} x{count}" for claim, count in result.items()) + f" ({true})"


def real(folder: Path, nodes: int = 300) -> None:
    """Print how often losses are found on real machines of which a share is made sick.

    Cloud machines with one value of every metric; metrics in which a fifth of the machines or more is sick
    already, by their own fleet, are left out.
    """
    table, names, codes = real_machines(folder)
    print(f"{len(table)} cloud machines, {len(codes)} metrics; learned from {nodes} of them")
    for share in (0.0, 0.1, 0.2, 0.3):
        rng = np.random.default_rng(1)
        order = rng.permutation(len(table))
        train, held = table.iloc[order[:nodes]].copy(), table.iloc[order[nodes : nodes + 1000]]
        for place in range(round(share * nodes)):
            for code in rng.permutation(codes)[: rng.integers(1, 6)].tolist():
                _worsen(train, names, code, place, float(rng.uniform(LEAST, MOST)))
        learned, others = (
            [real_population(part, code, names) for code in codes] for part in (train, held)
        )
        baseline = learn_baseline(learned, hardware_class="c", created="-")
        rate = sound_rejected(baseline, others)
        sound = "" if rate is None else f"{rate:.2%}"
        found: dict[float, list[float]] = {0.05: [], 0.1: [], 0.3: [], 0.5: []}
        for code in codes:
            criterion = baseline.find("b", code)
            if criterion is None or criterion.second is not None:
                continue
            for loss, seen in found.items():
                worse = held.copy()
                _worsen(worse, names, code, slice(None), loss)
                judged = judge_columns(real_population(worse, code, names), criterion)
                seen.append(float((judged.outcome == FAIL).mean()))
        line = ", ".join(f"{loss:.0%} in {np.mean(seen):.0%}" for loss, seen in found.items())
        stated = [c.detectable for c in baseline.criteria if c.detectable is not None]
        print(f"  {share:4.0%} sick: {len(found[0.05])} criteria, losses found: {line}; the median criterion "
              f"states {np.median(stated):.0%}; sound held-out machines rejected: {sound}; "
              f"claimed: {claimed(baseline)}")  # fmt: skip


def _worsen(table: Any, names: Any, code: str, rows: int | slice, loss: float) -> None:
    lower = bool(names.lower_is_better[code])
    column = table.columns.get_loc(code)
    table.iloc[rows, column] *= 1 / (1 - loss) if lower else 1 - loss


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="*", default=[60, 120, 300, 1000])
    parser.add_argument("--sick", type=float, nargs="*", default=[0, 0.05, 0.1, 0.2, 0.3])
    parser.add_argument("--fleets", type=int, default=3)
    parser.add_argument("--held", type=int, default=HELD, help="healthy nodes that are judged")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument(
        "--data", type=Path, help="folder with azure_vm_noise/: real machines instead"
    )
    options = parser.parse_args()
    if options.data:
        real(options.data)
    else:
        simulated(options)


if __name__ == "__main__":
    main()
