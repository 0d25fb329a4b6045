"""Runs of one machine whose metrics follow the host's pace, or do not, for tests of what is made of it."""

from __future__ import annotations

import numpy as np

from pytest_anubis.core.baseline import Baseline
from pytest_anubis.core.metric import Direction, Metric
from pytest_anubis.core.sample import FloatArray, Population, population_of
from pytest_anubis.validator import learn_baseline

ROUNDS = 30


def rounds(
    rng: np.random.Generator, *, follows: bool = True, slow: float = 0.0, clock: float = 0.0
) -> tuple[FloatArray, dict[str, FloatArray]]:
    """Return the durations of one run (100 at the usual pace) and what the probes took beside them.

    Args:
        rng: Source of all noise.
        follows: The metric follows the first kind of probe; else only the probes move.
        slow: By how much the part itself is slower.
        clock: By how much (log) everything on the host is slower throughout.
    """
    pace = clock + rng.normal(0, 0.06) + np.repeat(rng.normal(0, 0.03, 5), ROUNDS // 5)
    other = rng.normal(0, 0.06) + np.repeat(rng.normal(0, 0.03, 5), ROUNDS // 5)
    unseen = other if follows else rng.normal(0, 0.06, ROUNDS)
    own = pace if follows else clock + unseen
    values = 100 * (1 + slow) * np.exp(own + rng.normal(0, 0.01, ROUNDS) + rng.normal(0, 0.003))
    probes = {"compute": pace, "memory": other}
    return values, {
        kind: 1e-3 * np.exp(logs + rng.normal(0, 0.03, ROUNDS)) for kind, logs in probes.items()
    }


def population(
    rng: np.random.Generator,
    name: str,
    runs: int,
    *,
    follows: bool = True,
    better: Direction = "lower",
) -> Population:
    """Return so many runs of one metric."""
    found = [rounds(rng, follows=follows) for _ in range(runs)]
    return population_of(
        [values if better == "lower" else 1e4 / values for values, _ in found],
        metric=Metric(name=name, unit="ms" if better == "lower" else "x", better=better),
        benchmark=f"suite.py::test_{name}",
        nodes=["n"] * runs,
        devices=["cpu"] * runs,
        runs=[f"r{i}" for i in range(runs)],
        hardware_class="c",
        component="compute",
        paces={k: np.concatenate([pace[k] for _, pace in found]) for k in ("compute", "memory")},
    )


def baseline(rng: np.random.Generator, runs: int = 8, *, follows: bool = True) -> Baseline:
    """Return what is learned from so many runs of six metrics."""
    directions: tuple[Direction, ...] = ("lower", "higher")
    populations = [
        population(rng, f"m{i}", runs, follows=follows, better=directions[i % 2]) for i in range(6)
    ]
    return learn_baseline(populations, hardware_class="c", created="2026-01-01T00:00:00Z")
