"""What learned limits give away where noise is as plain as it can be: normal, nobody sick, single values.

Nodes x 12 metrics x 8 devices; a node differs by 1 % from the others, a device by 2 % more. Beside ours is
what is right for such noise and for no other: fail whatever lies more than k robust standard deviations
(1.4826 times the median absolute deviation) below the median, k for one healthy node in a hundred.

A loss is in one metric of one device of held-out nodes. The means of the fleets are printed.

Usage: python benchmarks/validator/tables/normal_noise.py [--nodes 60 120 300 1000] [--fleets 3] [--held 2000]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))  # this checkout's packages

import numpy as np
import numpy.typing as npt
from scipy.stats import norm

from pytest_anubis.core.baseline import Baseline
from pytest_anubis.core.metric import Metric
from pytest_anubis.core.sample import Population, population_of
from pytest_anubis.validator import judge_columns, learn_baseline

Values = npt.NDArray[np.float64]
METRICS, DEVICES, RATE, FAIL = 12, 8, 0.01, 2
NODE_SPREAD, DEVICE_SPREAD = 0.01, 0.02
LOSSES = (0.0, 0.08, 0.1, 0.12, 0.15)


def fleet(rng: np.random.Generator, nodes: int) -> Values:
    """Return the values of healthy nodes, shape (metrics, nodes, devices)."""
    apart = 1 + NODE_SPREAD * rng.normal(size=(METRICS, nodes, 1))
    return np.asarray(
        100 * apart * (1 + DEVICE_SPREAD * rng.normal(size=(METRICS, nodes, DEVICES)))
    )


def populations(values: Values) -> list[Population]:
    """Return a population for each metric."""
    nodes, devices = values.shape[1:]
    return [
        population_of(
            list(metric.reshape(-1, 1)),
            metric=Metric(name=f"rate{number}", unit="GB/s", better="higher"),
            benchmark="b",
            component="c",
            nodes=[f"n{node:04d}" for node in range(nodes) for _ in range(devices)],
            devices=[f"d{device}" for _ in range(nodes) for device in range(devices)],
        )
        for number, metric in enumerate(values)
    ]


def by_ours(baseline: Baseline, values: Values) -> float:
    """Return the share of nodes that a baseline rejects."""
    bad = np.zeros(values.shape[1], dtype=bool)
    for population in populations(values):
        for scope in ("unit", "node"):
            criterion = baseline.find("b", population.metric.name, scope=scope)
            if criterion is not None:
                outcome = judge_columns(population, criterion).outcome
                bad |= (outcome.reshape(len(bad), -1) == FAIL).any(axis=1)
    return float(bad.mean())


def by_rule(learned: Values, values: Values) -> float:
    """Return the share of nodes that the rule for normal noise rejects."""
    middle = np.median(learned, axis=(1, 2), keepdims=True)
    spread = 1.4826 * np.median(np.abs(learned - middle), axis=(1, 2), keepdims=True)
    far = norm.isf(RATE / (METRICS * DEVICES)) * spread
    return float((values < middle - far).any(axis=(0, 2)).mean())


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", type=int, nargs="+", default=[60, 120, 300, 1000])
    parser.add_argument("--fleets", type=int, default=3)
    parser.add_argument("--held", type=int, default=2000, help="held-out nodes of a fleet")
    options = parser.parse_args()
    heads = ["healthy rejected", *(f"-{100 * loss:.0f} % found" for loss in LOSSES[1:])]
    print("ours / the rule for normal noise", *heads, sep=" | ")
    for nodes in options.nodes:
        found = np.zeros((options.fleets, len(LOSSES), 2))
        for seed in range(options.fleets):
            rng = np.random.default_rng(seed)
            learned, held = fleet(rng, nodes), fleet(rng, options.held)
            baseline = learn_baseline(populations(learned), hardware_class="c", created="-")
            who = np.arange(options.held)
            where = rng.integers(METRICS, size=len(who)), who, rng.integers(DEVICES, size=len(who))
            for number, loss in enumerate(LOSSES):
                values = held.copy()
                values[where] *= 1 - loss
                found[seed, number] = by_ours(baseline, values), by_rule(learned, values)
        cells = [f"{100 * ours:.3g} / {100 * rule:.3g} %" for ours, rule in found.mean(axis=0)]
        print(f"{nodes} nodes", *cells, sep=" | ", flush=True)


if __name__ == "__main__":
    main()
