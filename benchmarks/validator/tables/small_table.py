"""Small tables: sick nodes that the limits learned beside them hide, with one and eight values a metric.

200 nodes (or ``--nodes``) x 12 metrics that spread by 2 %, normal or with tails (Student t of five and three
degrees, a skewed log-normal distribution). A tenth of the nodes is sick in one or two metrics by 10 to 40 %,
which of 200 nodes makes one to five sick units a metric. Each table is judged by the baseline that is learned
from it, and so are 400 healthy nodes (or ``--held``) beside it; found is a loss in one metric of these.

The last column is the rate that a baseline of fewer than 99 healthy nodes says its tails leave open, and in
how many tables the healthy nodes that are rejected are no more.

``--unbounded`` takes the order statistic of the nodes' scores as it is, for comparison: the bound on it
(`robust_limit`) holds that scores fall off like an exponential distribution.

Usage: python benchmarks/validator/tables/small_table.py [--fleets 6] [--noise normal t5 t3 skewed]
[--nodes 200] [--held 400] [--unbounded]
"""

from __future__ import annotations

import argparse
import re
import sys
from itertools import product
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))  # this checkout's packages

import numpy as np
import numpy.typing as npt

from pytest_anubis.core.baseline import Baseline
from pytest_anubis.core.metric import Metric
from pytest_anubis.core.sample import Population, population_of
from pytest_anubis.validator import judge_columns, learn_baseline
from pytest_anubis.validator.learning import fleet_thresholds
from pytest_anubis.validator.limits.tails import weighted_limit

Values = npt.NDArray[np.float64]
METRICS, SPREAD, FAIL = 12, 0.02, 2
LEFT_OPEN = re.compile(
    r"up to ([\d.]+) ?%"
)  # the rate that a baseline of few nodes says it may have
NOISES = ("normal", "t5", "t3", "skewed")


def noise(rng: np.random.Generator, kind: str, nodes: int) -> Values:
    """Return noise of unit variance, shape (nodes, 1), positive where a node is worse."""
    if kind == "skewed":
        return np.asarray((np.exp(0.5 * rng.normal(size=(nodes, 1))) - 1) / 0.6)
    if kind == "normal":
        return rng.normal(size=(nodes, 1))
    degrees = int(kind[1:])
    return np.asarray(rng.standard_t(degrees, (nodes, 1)) * np.sqrt((degrees - 2) / degrees))


def table(rng: np.random.Generator, kind: str, nodes: int, count: int) -> list[Values]:
    """Return the values of each metric, shape (nodes, count): latencies and bandwidths in turns."""
    out = []
    for metric in range(METRICS):
        worse = SPREAD * noise(rng, kind, nodes)
        if count > 1:
            worse = worse + SPREAD / 2 * rng.normal(size=(nodes, count))
        value = 1 + np.clip(worse, -0.5, 0.8)
        out.append(100 * value if metric % 2 else 100 / value)
    return out


def slower(metric: int, values: Values, loss: float) -> Values:
    """Return values that are worse by a loss."""
    return values / (1 - loss) if metric % 2 else values * (1 - loss)


def population(metric: int, values: Values) -> Population:
    """Return one row a node."""
    return population_of(
        list(values),
        metric=Metric(
            name=f"m{metric:02d}",
            unit="us" if metric % 2 else "GB/s",
            better="lower" if metric % 2 else "higher",
        ),
        benchmark="b",
        nodes=[f"n{node:04d}" for node in range(len(values))],
    )


def failed(baseline: Baseline, metric: int, values: Values) -> npt.NDArray[np.bool_]:
    """Return which nodes fail by one metric."""
    criterion = baseline.find("b", f"m{metric:02d}")
    if criterion is None:
        return np.zeros(len(values), dtype=np.bool_)
    return np.asarray(judge_columns(population(metric, values), criterion).outcome == FAIL)


def tried(
    kind: str, count: int, share: float, seed: int, nodes: int, held_out: int
) -> tuple[float, ...]:
    """Return sick nodes, those missed, healthy rejected, losses of 10, 15, 25 % found, largest stated.

    And the rate that the nodes leave open, NaN where the baseline needs not say one.
    """
    rng = np.random.default_rng(seed)
    train = table(rng, kind, nodes, count)
    sick = rng.permutation(nodes)[: round(share * nodes)]
    for node in sick.tolist():
        for metric in rng.permutation(METRICS)[: rng.integers(1, 3)].tolist():
            train[metric][node] = slower(metric, train[metric][node], rng.uniform(0.1, 0.4))
    learned = [population(metric, values) for metric, values in enumerate(train)]
    baseline = learn_baseline(learned, hardware_class="c", created="-")
    held = table(rng, kind, held_out, count)
    own, others = (
        np.any([failed(baseline, m, v) for m, v in enumerate(one)], axis=0) for one in (train, held)
    )
    found = [
        np.mean([failed(baseline, m, slower(m, v, loss)).mean() for m, v in enumerate(held)])
        for loss in (0.1, 0.15, 0.25)
    ]
    stated = max(c.detectable for c in baseline.criteria if c.detectable is not None)
    most = [LEFT_OPEN.search(one.text) for one in baseline.findings if one.kind == "few-nodes"]
    upper = float(most[0][1]) / 100 if most and most[0] else np.nan
    return (len(sick), float((~own[sick]).sum()), others.mean(), *map(float, found), stated, upper)


def main() -> None:
    """Print one row for each kind of noise, number of values and share of sick nodes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fleets", type=int, default=6)
    parser.add_argument("--noise", nargs="*", choices=NOISES, default=NOISES)
    parser.add_argument("--nodes", type=int, nargs="*", default=[200])
    parser.add_argument("--held", type=int, default=400)
    parser.add_argument("--unbounded", action="store_true", help="scores without their bound")
    options = parser.parse_args()
    if options.unbounded:
        setattr(fleet_thresholds, "robust_limit", weighted_limit)  # noqa: B010 - for comparison only
    print(f"{METRICS} metrics, {options.held} held-out nodes, {options.fleets} tables a row")
    print(
        "noise   values nodes  sick  sick missed  healthy rejected  10 % found  15 %  25 %  largest stated"
        "  rate left open (true)"
    )
    kinds = product(options.noise, (1, 8), options.nodes, (0.0, 0.1))
    for kind, count, nodes, share in kinds:
        done = np.array(
            [tried(kind, count, share, n, nodes, options.held) for n in range(options.fleets)]
        )
        sick, missed = done[:, :2].sum(axis=0)
        rejected, ten, fifteen, much, stated, upper = done[:, 2:].mean(axis=0)
        within = np.sum(done[:, 2] <= done[:, 7])
        print(f"{kind:8}{count:6}{nodes:6}{share:6.0%}{missed:7.0f} of {sick:3.0f}{rejected:16.2%}{ten:12.1%}"
              f"{fifteen:7.0%}{much:6.0%}{stated:11.0%}{upper:14.1%} ({within} of {options.fleets})",
              flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
