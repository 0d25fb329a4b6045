"""What stands clear of the fleet: losses found, beside rules that reject as many healthy nodes.

Simulated fleets with bulks of 1 to 3 % (normal, Student's t with five degrees, skewed to the bad side, in
steps), half of the variance common to a node's devices. A share of the nodes is sick: each loses between 2.5
and 20 spreads in one metric or in all four of a component, on one device or on all. The fleet that is learned
from is judged: that is what an operator does with a new rack.

Ours has its defaults. Every other rule (a part of the median, the median with k median absolute deviations,
the quartiles with k ranges) has the k at which it rejects the same share of healthy nodes; nobody knows that
k beforehand. ``wrong`` is the part of the rejections that is of healthy nodes, ``looked at`` what is found
with those that are MARGINAL.

Usage: python benchmarks/validator/clear_fleet.py [--nodes 60 150 300] [--devices 1 8] [--sick 0 .02 .1 .2]
[--fleets 4]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout's packages

import numpy as np
import numpy.typing as npt

from pytest_anubis.core.metric import Metric
from pytest_anubis.core.sample import Population, population_of
from pytest_anubis.validator import judge_populations, learn_baseline
from pytest_anubis.validator.judging.column_judging import judge_components
from pytest_anubis.validator.judging.verdict_table import FAIL, MARGINAL

Values = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
METRICS, IN_COMPONENT = 22, 4
LEAST, MOST = 0.01, 0.03
"""Spreads of the bulks, relative."""
FIRST, LAST = 2.5, 20.0
"""Losses of the sick, in spreads."""
KINDS = ("normal", "t5", "skewed", "steps")
RULES: dict[str, Callable[[Values], tuple[float, float]]] = {
    "part of the median": lambda x: (float(np.median(x)), float(np.median(x))),
    "median + k MAD": lambda x: (
        float(np.median(x)),
        float(np.median(np.abs(x - np.median(x)))),
    ),
    "IQR x k": lambda x: (
        float(np.percentile(x, 25)),
        float(np.percentile(x, 75) - np.percentile(x, 25)),
    ),
}
"""Return of a metric's values where a rule begins, and the unit of its k."""


class Found(NamedTuple):
    """Which nodes a rule rejects, and which it would have somebody look at."""

    rejected: Flags
    looked_at: Flags


def noise(rng: np.random.Generator, kind: str, shape: tuple[int, int]) -> Values:
    """Return noise of mean 0 and variance 1, the long tail on the bad side."""
    if kind == "t5":
        return np.asarray(rng.standard_t(5, shape) / np.sqrt(5 / 3))
    if kind == "skewed":
        return np.asarray((2 - rng.gamma(2, 1, shape)) / np.sqrt(2))
    drawn = rng.normal(0, 1, shape)
    return np.round(drawn * 1.5) / 1.5 if kind == "steps" else drawn


def fleet(
    rng: np.random.Generator, nodes: int, devices: int, kind: str, share: float
) -> tuple[list[Values], Values]:
    """Return the rates (nodes, devices) of each metric, and the loss of each node, 0 of a healthy one."""
    spreads = np.exp(rng.uniform(np.log(LEAST), np.log(MOST), METRICS))
    rates = []
    for place, spread in enumerate(spreads.tolist()):
        own = KINDS[place % len(KINDS)] if kind == "all" else kind
        common, single = noise(rng, own, (nodes, 1)), noise(rng, own, (nodes, devices))
        rates.append(100 * np.exp(spread * (np.sqrt(0.5) * common + np.sqrt(0.5) * single)))
    lost = np.zeros(nodes)
    for node in rng.permutation(nodes)[: round(share * nodes)].tolist():
        first = int(rng.integers(METRICS))
        start = first // IN_COMPONENT * IN_COMPONENT
        several = rng.random() < 0.5
        metrics = range(start, min(start + IN_COMPONENT, METRICS)) if several else (first,)
        one = int(rng.integers(devices))
        where = slice(None) if rng.random() < 0.5 else slice(one, one + 1)
        lost[node] = min(spreads[first] * np.exp(rng.uniform(np.log(FIRST), np.log(LAST))), 0.6)
        for metric in metrics:
            rates[metric][node, where] *= 1 - lost[node]
    return rates, lost


def population(place: int, values: Values) -> Population:
    """Return one metric, one row a device."""
    nodes, devices = values.shape
    return population_of(
        list(values.reshape(-1, 1)),
        metric=Metric(name=f"m{place:02d}", unit="GB/s", better="higher"),
        benchmark="b",
        component=f"c{place // IN_COMPONENT}",
        nodes=[f"n{node:04d}" for node in range(nodes) for _ in range(devices)],
        devices=[f"d{device}" for _ in range(nodes) for device in range(devices)],
    )


def ours(rates: Sequence[Values]) -> Found:
    """Return what the Validator finds with its defaults."""
    populations = [population(place, one) for place, one in enumerate(rates)]
    baseline = learn_baseline(populations, hardware_class="c", created="-")
    columns = list(judge_populations(populations, baseline))
    columns += judge_components(columns, baseline)
    nodes = len(rates[0])
    rejected, looked_at = np.zeros(nodes, dtype=np.bool_), np.zeros(nodes, dtype=np.bool_)
    for one in columns:
        node = np.array([int(name[1:]) for name in one.population.nodes])
        rejected[node[one.outcome == FAIL]] = True
        looked_at[node[one.outcome == MARGINAL]] = True
    return Found(rejected, looked_at | rejected)


def scores(rates: Sequence[Values], rule: str) -> Values:
    """Return the k at which a rule just rejects each node."""
    out = np.full(len(rates[0]), -np.inf)
    for one in rates:
        start, unit = RULES[rule](one.ravel())
        out = np.maximum(out, ((start - one) / max(unit, 1e-12)).max(axis=1))
    return out


def cells(options: argparse.Namespace) -> Iterator[tuple[int, int, str, float]]:
    """Yield nodes, devices, kind of noise and share of the sick."""
    for nodes in options.nodes:
        for devices in options.devices:
            for kind in options.kind:
                for share in options.sick:
                    yield nodes, devices, kind, share


def main() -> None:
    """Print one row for each cell and rule."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, nargs="+", default=[60, 150, 300])
    parser.add_argument("--devices", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--kind", nargs="+", choices=("all", *KINDS), default=["all", *KINDS[1:3]])
    parser.add_argument("--sick", type=float, nargs="+", default=[0, 0.02, 0.1, 0.2])
    parser.add_argument("--fleets", type=int, default=4)
    options = parser.parse_args()
    print(f"{METRICS} metrics, {options.fleets} fleets a row")
    print(f"{'nodes':>5} {'cards':>5} {'noise':7} {'sick':>4} {'healthy rejected':>16} {'wrong':>6} "
          f"{'found':>6} {'looked at':>9}  " + "  ".join(f"{name:>18}" for name in RULES))  # fmt: skip
    for nodes, devices, kind, share in cells(options):
        healthy, sick, looked_at = [], [], []
        others: dict[str, list[Values]] = {name: [] for name in RULES}
        truth = []
        for seed in range(options.fleets):
            rng = np.random.default_rng([seed, nodes, devices])
            rates, lost = fleet(rng, nodes, devices, kind, share)
            found = ours(rates)
            healthy.append(found.rejected[lost == 0])
            sick.append(found.rejected[lost > 0])
            looked_at.append(found.looked_at[lost > 0])
            truth.append(lost > 0)
            for name in RULES:
                others[name].append(scores(rates, name))
        is_sick, wrong = np.concatenate(truth), np.concatenate(healthy)
        right = np.concatenate(sick)
        row = f"{nodes:5d} {devices:5d} {kind:7} {share:4.0%} {wrong.mean():16.2%} "
        row += f"{wrong.sum() / max(wrong.sum() + right.sum(), 1):6.1%} "
        row += f"{right.mean() if len(right) else np.nan:6.1%} "
        row += f"{np.concatenate(looked_at).mean() if len(right) else np.nan:9.1%}  "
        for name in RULES:
            score = np.concatenate(others[name])
            most = np.sort(score[~is_sick])[::-1][min(int(wrong.sum()), len(wrong) - 1)]
            equal = (score[is_sick] > most).mean() if is_sick.any() else np.nan
            row += f"{equal:18.1%}  "
        print(row.rstrip(), flush=True)


if __name__ == "__main__":
    main()
