"""Learned limits on dirty fleets: healthy nodes rejected, sick ones found, beside rules that teams use.

Simulated fleets of 41 metrics on 8 devices, a third of the metrics heavy-tailed. A share of the nodes that
are learned from is sick: each has one to five metrics that lose 3 to 60 %, on one device or on all, each node
its own (``alone``) or all sick nodes the same (``batch``). Judged are other nodes of the same fleet: healthy
ones, and healthy ones with one metric of one device made slower. What each rule rejects stands as it is set
by default, the mean over the fleets of a row with its standard error and the largest of them; ``claimed`` is
the rate that the baselines state of themselves, with (!) where one says that it does not hold, and of how
many of them it is true (`claims_kept`).

``--wide 1200`` tries a wide table, ``--data DIR`` real machines.

Usage: python benchmarks/validator/dirty.py [--nodes 60 120 300 1000] [--sick 0 .05 .1 .2 .3] [--fleets 3]
[--only ours]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

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
from pytest_anubis.core.metric import Metric
from pytest_anubis.core.sample import Population, population_of
from pytest_anubis.validator import judge_columns, learn_baseline


class Ours:
    """The Validator, with its defaults or with alpha alone."""

    def __init__(self, train: Sequence[Values], error_rate: float | None = 0.01) -> None:
        populations = [population(metric, values) for metric, values in enumerate(train)]
        self.baseline: Baseline = learn_baseline(
            populations, hardware_class="c", created="-", error_rate=error_rate
        )
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


class OnMedians:
    """Rules on the medians of devices: what is usual elsewhere."""

    def __init__(self, train: Sequence[Values], rule: str) -> None:
        self.limits = [getattr(self, f"_{rule}")(np.median(v, axis=2).ravel()) for v in train]

    def rejected(self, metric: int, values: Values) -> Flags:
        """Return which nodes fail by this metric."""
        return np.asarray((np.median(values, axis=2) > self.limits[metric]).any(axis=1))

    @staticmethod
    def _mad(x: Values) -> float:
        """Return median + k MAD, k for one node in a hundred, were all noise normal."""
        from scipy.special import ndtri

        middle = np.median(x)
        spread = 1.4826 * np.median(np.abs(x - middle))
        return float(middle - ndtri(0.01 / (METRICS * DEVICES)) * spread)

    @staticmethod
    def _iqr(x: Values) -> float:
        """Return the outer fence, three interquartile ranges away."""
        low, high = np.percentile(x, [25, 75])
        return float(high + 3 * (high - low))

    @staticmethod
    def _student(x: Values) -> float:
        """Return the limit of the larger one of two Student-t distributions with three degrees."""
        from scipy.stats import t

        place, scale, weight = np.percentile(x, [50, 95]), np.array([x.std() / 3, x.std()]), 0.9
        for _ in range(60):
            dense = np.array([weight, 1 - weight])[:, None] * t.pdf(
                x, 3, place[:, None], scale[:, None]
            )
            share = dense / np.maximum(dense.sum(axis=0), 1e-300)
            pull = share * 4 / (3 + ((x - place[:, None]) / scale[:, None]) ** 2)
            place = (pull * x).sum(axis=1) / np.maximum(pull.sum(axis=1), 1e-300)
            scale = np.sqrt(
                (pull * (x - place[:, None]) ** 2).sum(axis=1) / share.sum(axis=1).clip(1e-9)
            )
            scale = np.maximum(scale, 1e-6)
            weight = float(np.clip(share[0].mean(), 0.01, 0.99))
        main = int(weight < 0.5)
        return float(t.isf(0.01 / (METRICS * DEVICES), 3, place[main], scale[main]))


def rules(train: Sequence[Values], only: Sequence[str]) -> dict[str, Ours | OnMedians]:
    """Return the rules, learned, by their names."""
    makers: dict[str, Callable[[], Ours | OnMedians]] = {
        "ours": lambda: Ours(train),
        "alpha alone": lambda: Ours(train, None),
        "median + k MAD": lambda: OnMedians(train, "mad"),
        "IQR x 3": lambda: OnMedians(train, "iqr"),
        "Student-t mixture": lambda: OnMedians(train, "student"),
    }
    return {name: make() for name, make in makers.items() if not only or name in only}


@dataclass(frozen=True)
class Cell:
    """One fleet: how many nodes, which share of them sick, how, its seed, and how many nodes are judged."""

    nodes: int
    share: float
    batch: bool
    seed: int
    only: tuple[str, ...] = ()
    held: int = HELD


def tried(cell: Cell) -> tuple[dict[str, tuple[float, float, float]], str, float]:
    """Return per rule (healthy rejected, 10 to 60 % found, 5 % found), the claim, and seconds to learn."""
    fleet = Fleet(np.random.default_rng(cell.seed))
    train = [fleet.values(metric, cell.nodes) for metric in range(METRICS)]
    for node, metric, devices, loss in fleet.sick(cell.nodes, cell.share, cell.batch):
        train[metric][node, devices] /= 1 - loss
    begin = time.perf_counter()
    known = rules(train, cell.only)
    took = time.perf_counter() - begin
    held = [fleet.values(metric, cell.held) for metric in range(METRICS)]
    large = fleet.rng.uniform(0.1, MOST, (METRICS, cell.held))
    out = {}
    for name, rule in known.items():
        healthy = np.zeros(cell.held, dtype=np.bool_)
        found = []
        for metric, values in enumerate(held):
            healthy |= rule.rejected(metric, values)
            if metric % 2:
                continue
            slower = []
            for losses in (large[metric], np.full(cell.held, 0.05)):
                one = values.copy()
                one[:, 0] /= 1 - losses[:, None]
                slower.append(float(rule.rejected(metric, one).mean()))
            found.append(slower)
        ten, five = np.mean(found, axis=0).tolist()
        out[name] = (float(healthy.mean()), ten, five)
    first = known.get("ours")
    claim = claimed(first.baseline) if isinstance(first, Ours) else ""
    return out, claim, took


def claimed(baseline: Baseline) -> str:
    """Return the rate that a baseline states of itself."""
    check = baseline.self_check
    doubt = "" if check is None or check.holds else " (!)"
    return f"{baseline.error_rate:.1%}{doubt}" if baseline.factor is not None else "none"


def simulated(options: argparse.Namespace) -> None:
    """Print one row for each cell and rule."""
    cells = [
        Cell(nodes, share, batch, seed, tuple(options.only), options.held)
        for nodes in options.nodes
        for batch in (False, True)
        for share in options.sick
        if share or not batch
        for seed in range(options.fleets)
    ]
    print(
        f"{METRICS} metrics x {DEVICES} devices, {options.held} held-out nodes, {options.fleets} fleets a row"
    )
    print(f"{'nodes':>5} {'sick':>5} {'how':6} {'rule':18} {'healthy rejected':>17} {'+-':>5} {'most':>5} "
          f"{'10 to 60 % found':>17} {'5 % found':>10}  claimed (true of)")  # fmt: skip
    took, fleets = [], options.fleets
    with ProcessPoolExecutor(options.jobs) as pool:
        done = pool.map(tried, cells)
        for cell in cells[::fleets]:
            group = [next(done) for _ in range(fleets)]
            took += [one[2] for one in group]
            for name in group[0][0]:
                each = np.array([one[0][name] for one in group])
                rejected, ten, five = each.mean(axis=0)
                error = each[:, 0].std(ddof=1) / fleets**0.5 if fleets > 1 else np.nan
                how = "-" if not cell.share else "batch" if cell.batch else "alone"
                claims = claims_kept(group, options.held) if name == "ours" else ""
                print(f"{cell.nodes:5d} {cell.share:5.0%} {how:6} {name:18} {rejected:17.2%} {error:5.2%} "
                      f"{each[:, 0].max():5.1%} {ten:17.1%} {five:10.1%}  {claims}", flush=True)  # fmt: skip
    print(f"learned in {np.mean(took):.1f} s on average")


def claims_kept(
    group: Sequence[tuple[dict[str, tuple[float, float, float]], str, float]], held: int
) -> str:
    """Return what the baselines of some fleets (as `tried` returns them) claim, and of how many it is true.

    A claim is true where it lies in the exact 95 % interval of what the baseline rejects of ``held`` healthy
    nodes, or where the baseline says that it does not hold.
    """
    from scipy.stats import binomtest

    result: dict[str, int] = {}
    true = 0
    for rates, claim, _ in group:
        result[claim] = result.get(claim, 0) + 1
        seen = binomtest(round(rates["ours"][0] * held), held).proportion_ci(method="exact")
        silent = claim == "none" or "(!)" in claim
        true += silent or seen.low <= float(claim.rstrip("%")) / 100 <= seen.high
    return ", ".join(f"{claim} x{count}" for claim, count in result.items()) + f" ({true})"


def wide(nodes: int, metrics: int, sick: float, seed: int = 0) -> None:
    """Print what the default does with a wide table of single values, correlated in groups of twenty.

    A twentieth of the metrics has two populations, each node in one of them by chance; another twentieth
    comes in steps of 8 %, as percentiles of a coarse clock do.
    """
    rng = np.random.default_rng(seed)
    common, own = rng.uniform(0.002, 0.01, -(-metrics // 20)), rng.uniform(0.001, 0.006, metrics)
    slower = np.where(np.arange(metrics) % 20 == 7, rng.uniform(0.15, 0.5, metrics), 0)

    def table(count: int, share: float) -> tuple[list[Population], Flags]:
        bases = [rng.normal(0, scale, (count, DEVICES)) for scale in common]
        bad = rng.random(count) < share
        values = []
        for metric in range(metrics):
            rate = 100 * np.exp(bases[metric // 20] + rng.normal(0, own[metric], (count, DEVICES)))
            rate *= np.where(rng.random((count, 1)) < slower[metric], 0.85, 1)
            values.append(np.round(rate / 8) * 8 if metric % 20 == 13 else rate)
        for node in np.flatnonzero(bad).tolist():
            for metric in rng.permutation(metrics)[: rng.integers(1, 6)].tolist():
                values[metric][node, rng.integers(DEVICES)] *= 1 - rng.uniform(0.1, MOST)
        return [_wide_population(m, one) for m, one in enumerate(values)], bad

    train, _ = table(nodes, sick)
    begin = time.process_time()
    baseline = learn_baseline(train, hardware_class="c", created="-")
    took = time.process_time() - begin
    held, bad = table(HELD, 0.2)
    rejected = np.zeros(HELD, dtype=np.bool_)
    for one in held:
        for scope in get_args(Scope):
            criterion = baseline.find("b", one.metric.name, scope=scope)
            if criterion is not None:
                outcome = judge_columns(one, criterion).outcome.reshape(HELD, -1)
                rejected |= (outcome == FAIL).any(axis=1)
    check = baseline.self_check
    undecided = len({c.metric.name for c in baseline.criteria if c.second is not None})
    print(f"{nodes} nodes x {metrics} metrics x {DEVICES} devices, {sick:.0%} of them sick: healthy held-out "
          f"nodes accepted {1 - rejected[~bad].mean():.1%}, sick ones rejected {rejected[bad].mean():.1%}; "
          f"{undecided} metrics undecided; {took:.0f} s to learn and check itself")  # fmt: skip
    if check is not None:
        print(f"  self-check: {check.rejected} of {check.nodes} rejected, {check.sick} not healthy, "
              f"of the rest {check.rate:.2%} (at most {check.upper:.1%}); holds: {check.holds}")  # fmt: skip


def _wide_population(metric: int, values: Values) -> Population:
    n = len(values)
    return population_of(
        list(values.reshape(-1, 1)),
        metric=Metric(name=f"m{metric:04d}", unit="GB/s", better="higher"),
        benchmark="b",
        nodes=[f"n{i:04d}" for i in range(n) for _ in range(DEVICES)],
        devices=[f"d{d}" for _ in range(n) for d in range(DEVICES)],
    )


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
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument(
        "--wide", type=int, metavar="METRICS", help="150 nodes x so many metrics instead"
    )
    parser.add_argument(
        "--data", type=Path, help="folder with azure_vm_noise/: real machines instead"
    )
    options = parser.parse_args()
    if options.wide:
        for sick in (0.0, 0.2):
            wide(150, options.wide, sick)
    elif options.data:
        real(options.data)
    else:
        simulated(options)


if __name__ == "__main__":
    main()
