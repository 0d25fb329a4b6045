"""Peers without a baseline: how many healthy nodes are rejected or warned about, and what is found.

Simulated nodes of 41 metrics on 8 devices as in `thresholds.py`; a third of the metrics is
heavy-tailed, or none. Then one fault is injected into one device of otherwise healthy nodes.

Usage: python benchmarks/validator/peers.py [--fleets 6] [--nodes 100]
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout's packages

import numpy as np
import numpy.typing as npt

from benchmarks.validator.thresholds import DEVICES, FAULTS, METRICS, Fleet, Values, population
from pytest_anubis.validator import judge_by_peers

MARGINAL, FAIL = 1, 2
SHOWN = ("one device of 8, 8 %", "every 10th step x2", "heavy tail", "throttled half-way 12 %")


def outcomes(values: list[Values]) -> npt.NDArray[np.int8]:
    """Return the verdicts, shape (metrics, nodes, devices)."""
    judged = judge_by_peers([population(metric, v) for metric, v in enumerate(values)])
    nodes = values[0].shape[0]
    return np.array([one.outcome.reshape(nodes, DEVICES) for one in judged])


def main() -> None:
    """Print the rates and the power."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fleets", type=int, default=6)
    parser.add_argument("--nodes", type=int, default=100)
    options = parser.parse_args()
    for heavy in (False, True):
        rejected = warned = count = 0
        found = dict.fromkeys(SHOWN, 0)
        tried, took = 0, 0.0
        for seed in range(options.fleets):
            fleet = Fleet(np.random.default_rng(seed))
            fleet.heavy &= heavy
            values = [fleet.values(metric, options.nodes) for metric in range(METRICS)]
            begin = time.perf_counter()
            healthy = outcomes(values)
            took += time.perf_counter() - begin
            rejected += int((healthy == FAIL).any(axis=(0, 2)).sum())
            warned += int((healthy == MARGINAL).any(axis=(0, 2)).sum())
            count += options.nodes
            for metric in range(seed, METRICS, 12):
                tried += options.nodes
                for name in SHOWN:
                    bad = [FAULTS[name](v) if m == metric else v for m, v in enumerate(values)]
                    found[name] += int((outcomes(bad)[metric, :, 0] == FAIL).sum())
        tails = "a third of the metrics heavy-tailed" if heavy else "normal noise"
        print(
            f"{tails}: {count} healthy nodes, {rejected / count:.1%} rejected, {warned / count:.1%} "
            f"warned about, {took / count * 1e3:.0f} ms a node; found: "
            + ", ".join(f"{name} {hits / tried:.0%}" for name, hits in found.items())
        )


if __name__ == "__main__":
    main()
