"""Nodes that learning lists as unlike the others and judging accepts: are they sick?

Fleets of `dirty.py`, of which a tenth or a fifth is sick or nobody. Each is judged by the baseline that is
learned from it. Of the nodes that the baseline's self-check lists (``unlike``) those that are rejected and
those that are accepted are counted, each as sick (it was given losses) or healthy, and the sick ones that
are neither listed nor rejected.

Usage: python benchmarks/validator/unlike.py [--nodes 60 120 300] [--sick 0 .1 .2] [--fleets 6]
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout's packages

import numpy as np

from benchmarks.validator.dirty import Fleet, Ours
from benchmarks.validator.thresholds import METRICS


def counted(nodes: int, share: float, seed: int) -> Counter[str]:
    """Return how many nodes of one fleet are rejected, accepted or unseen, and sick or healthy."""
    fleet = Fleet(np.random.default_rng(seed))
    train = [fleet.values(metric, nodes) for metric in range(METRICS)]
    sick = set()
    for node, metric, devices, loss in fleet.sick(nodes, share, batch=False):
        train[metric][node, devices] /= 1 - loss
        sick.add(f"n{node:04d}")
    rule = Ours(train)
    failed = np.any([rule.rejected(m, values) for m, values in enumerate(train)], axis=0)
    rejected = {f"n{node:04d}" for node in np.flatnonzero(failed).tolist()}
    check = rule.baseline.self_check
    listed = {one.node for one in check.unlike} if check is not None else set()
    found: Counter[str] = Counter()
    for name in listed | sick:
        state = "rejected" if name in rejected else "accepted" if name in listed else "unseen"
        found[f"{state} {'sick' if name in sick else 'healthy'}"] += 1
    return found


def main() -> None:
    """Print one row for each size of fleet and share of sick nodes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="*", default=[60, 120, 300])
    parser.add_argument("--sick", type=float, nargs="*", default=[0, 0.1, 0.2])
    parser.add_argument("--fleets", type=int, default=6)
    options = parser.parse_args()
    print(
        f"{options.fleets} fleets a row; nodes that the baseline lists, and sick ones that it does not"
    )
    print("nodes  sick | rejected: sick, healthy | listed, accepted: sick, healthy | sick, neither")
    for nodes in options.nodes:
        for share in options.sick:
            found = sum((counted(nodes, share, n) for n in range(options.fleets)), Counter[str]())
            print(f"{nodes:5d} {share:5.0%} | {found['rejected sick']:14d} {found['rejected healthy']:8d} | "
                  f"{found['accepted sick']:22d} {found['accepted healthy']:8d} | {found['unseen sick']:5d}",
                  flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
