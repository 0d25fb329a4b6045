from __future__ import annotations

import numpy as np

from pytest_anubis.core.metric import Metric
from pytest_anubis.core.sample import FloatArray, Population, population_of
from pytest_anubis.validator import learn_baseline, shortest_window
from pytest_anubis.validator.changes.steady_state import steady_from
from tests.validator.known import known


def runs(noise: float, warmup: int, count: int = 200, units: int = 12) -> Population:
    rng = np.random.default_rng(0)
    values: list[FloatArray] = []
    for _ in range(units):
        one = 100 * np.exp(rng.normal(0, 0.002) + rng.normal(0, noise, count))
        one[:warmup] *= 1.4
        values.append(np.asarray(one))
    return population_of(values, metric=Metric(name="m", unit="s", better="lower"), benchmark="b")


def test_the_cut_comes_where_the_warm_up_ends_and_only_there() -> None:
    rng = np.random.default_rng(1)
    steady = 100 * np.exp(rng.normal(0, 0.01, 200))
    cold = steady.copy()
    cold[:25] *= 1.3
    assert steady_from(steady, "lower") == 0
    assert 25 <= steady_from(cold, "lower") <= 35
    assert steady_from(cold, "higher") == 0  # a good beginning is no warm-up
    assert steady_from(np.ones(5), "lower") == 0


def test_a_quiet_metric_needs_only_a_short_window_after_its_warm_up() -> None:
    population = runs(0.001, warmup=20)
    window = known(shortest_window(population, np.ones(12, dtype=np.bool_)))
    warmup, length = window
    assert 20 <= warmup <= 30
    assert length <= 24


def test_a_noisy_metric_needs_a_longer_one() -> None:
    quiet = shortest_window(runs(0.002, 0), np.ones(12, dtype=np.bool_))
    noisy = shortest_window(runs(0.03, 0), np.ones(12, dtype=np.bool_), slack=0.004)
    assert quiet is not None
    assert noisy is None or sum(noisy) > sum(quiet)


def test_short_samples_have_no_window() -> None:
    assert shortest_window(runs(0.001, 0, count=20), np.ones(12, dtype=np.bool_)) is None


def test_the_window_is_saved_with_the_criterion() -> None:
    baseline = learn_baseline([runs(0.001, 20)], hardware_class="", created="-")
    assert baseline.criteria[0].window is not None
