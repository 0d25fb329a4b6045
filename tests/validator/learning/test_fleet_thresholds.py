"""What limits of a fleet reject and find: not more than is stated, and not far less."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_anubis.core.baseline import Baseline
from pytest_anubis.core.metric import Metric
from pytest_anubis.core.sample import FloatArray, Population, population_of
from pytest_anubis.validator import judge_columns, learn_baseline
from tests.validator.known import known

METRICS, DEVICES, FAIL = 6, 8, 2


def populations(values: FloatArray) -> list[Population]:
    nodes = values.shape[1]
    return [
        population_of(
            list(one.reshape(-1, 1)),
            metric=Metric(name=f"rate{number}", unit="GB/s", better="higher"),
            benchmark="b",
            component="c",
            nodes=[f"n{node:04d}" for node in range(nodes) for _ in range(DEVICES)],
            devices=[f"d{device}" for _ in range(nodes) for device in range(DEVICES)],
        )
        for number, one in enumerate(values)
    ]


def learn(values: FloatArray) -> Baseline:
    return learn_baseline(populations(values), hardware_class="c", created="-")


def rejected(baseline: Baseline, values: FloatArray) -> float:
    bad = np.zeros(values.shape[1], dtype=bool)
    for one in populations(values):
        for criterion in baseline.criteria:
            if criterion.metric.name == one.metric.name and criterion.scope == "unit":
                outcome = judge_columns(one, criterion).outcome
                bad |= (outcome.reshape(len(bad), -1) == FAIL).any(axis=1)
    return float(bad.mean())


def drawn(rng: np.random.Generator, noise: str, nodes: int) -> FloatArray:
    size = (METRICS, nodes, DEVICES)
    if noise == "faster":  # a few are much better, and the rest lies just below them
        return np.asarray(100 * (1 + 0.07 * (rng.exponential(size=size) - 1)))
    if noise == "modes":  # each device in one of two states, too near for two populations
        return np.asarray(94 + 6 * (rng.random(size) < 0.5) + 1.3 * rng.normal(size=size))
    off = rng.normal(size=size) if noise == "normal" else rng.uniform(-1.7, 1.7, size=size)
    return np.asarray(100 * (1 + 0.04 * off))


def test_normal_noise_is_followed_as_such() -> None:
    rng = np.random.default_rng(2)
    baseline = learn(drawn(rng, "normal", 300))
    healthy = drawn(rng, "normal", 3000)
    # 1 % is stated; with tails that are exponential at least a tenth of it is reached, and 40 % is found.
    assert 0.002 < rejected(baseline, healthy) < 0.015
    slow = healthy.copy()
    slow[0, :, 0] *= 0.84
    assert rejected(baseline, slow) > 0.55


def test_noise_that_ends_just_beyond_the_practical_threshold_rejects_nobody() -> None:
    """Most of its slower side passes for sick, so that neither tails nor scores say what is healthy."""
    rng = np.random.default_rng(1)
    baseline = learn(drawn(rng, "even", 400))
    assert rejected(baseline, drawn(rng, "even", 1000)) < 0.015


@pytest.mark.parametrize(("noise", "seed"), [("even", 3), ("faster", 6), ("modes", 0)])
def test_what_the_self_check_counts_is_what_the_baseline_does_to_its_own_nodes(
    noise: str, seed: int
) -> None:
    """Of noise wider than the practical threshold the centre lies among the faster units."""
    rng = np.random.default_rng(seed)
    values = drawn(rng, noise, 100)
    baseline = learn(values)
    assert rejected(baseline, values) <= known(baseline.self_check).own_rejected + 0.03
    assert rejected(baseline, drawn(rng, noise, 500)) < 0.02


@pytest.mark.parametrize("seed", [2, 4])
def test_of_five_healthy_nodes_none_is_sick_by_five_pooled_values(seed: int) -> None:
    rng = np.random.default_rng([seed, 5, 8])
    sizes = [(8, 5, 1), (8, 5, 8)]
    off = [rng.normal(size=size) for size in sizes]
    values = np.asarray(100 * (1 - 0.01 * off[0] - 0.02 * off[1]))
    baseline = learn(values)
    assert known(baseline.self_check).holds
    next_ones = 1 - 0.01 * rng.normal(size=(8, 500, 1)) - 0.02 * rng.normal(size=(8, 500, 8))
    assert rejected(baseline, np.asarray(100 * next_ones)) < 0.05
