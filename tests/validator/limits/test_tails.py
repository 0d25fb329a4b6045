from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from pytest_anubis.validator.limits.tails import (
    DRIFT,
    fit_tail,
    nodes_needed,
    robust_limit,
    weighted_limit,
)
from tests.validator.known import known


def test_how_many_nodes_a_rate_needs() -> None:
    assert nodes_needed(0.01) == 99


@pytest.mark.parametrize("n", [99, 400])
def test_an_order_statistic_keeps_its_promise_on_average(n: int) -> None:
    rng = np.random.default_rng(n)
    drawn = (rng.uniform(size=n) for _ in range(400))
    exceed = [1 - known(weighted_limit(one, np.ones(n), 0.01)) for one in drawn]
    assert np.mean(exceed) == pytest.approx(0.01, abs=0.0025)


def test_nodes_that_are_hardly_healthy_hardly_count() -> None:
    values = np.append(np.arange(200.0), [1000.0] * 50)
    weight = np.append(np.ones(200), np.full(50, 1e-6))
    assert weighted_limit(values, weight, 0.01) == 198
    assert weighted_limit(values, np.ones(250), 0.01) == 1000


def test_one_node_that_passes_for_healthy_sets_no_limit() -> None:
    scores = np.random.default_rng(0).exponential(size=150)
    clean = robust_limit(scores, np.ones(150), 0.01)
    dirty = robust_limit(np.append(scores, 40.0), np.ones(151), 0.01)
    assert weighted_limit(np.append(scores, 40.0), np.ones(151), 0.01) == 40
    assert known(dirty) < known(clean) + 1
    assert robust_limit(np.ones(98), np.ones(98), 0.01) is None


def test_too_few_healthy_values_have_no_limit() -> None:
    assert weighted_limit(np.ones(98), np.ones(98), 0.01) is None
    assert weighted_limit(np.ones(150), np.full(150, 0.5), 0.01) is None


@pytest.mark.parametrize("shape", [0.0, 0.3])
def test_a_tail_is_recovered(shape: float) -> None:
    uniform = np.random.default_rng(0).uniform(size=20000)
    values = 0.01 * (-np.log(uniform) if shape == 0 else (uniform**-shape - 1) / shape)
    tail = fit_tail(values)
    assert tail.shape == pytest.approx(shape + DRIFT, abs=0.06)
    true = 0.01 * (np.log(1e4) if shape == 0 else (1e4**shape - 1) / shape)
    assert tail.distance(np.log(1e4)) == pytest.approx(true, rel=0.2)


def test_a_normal_tail_is_followed_as_one() -> None:
    rng = np.random.default_rng(0)
    wanted = 0.02 * float(norm.isf(1e-4))
    for units, off in ((480, 0.3), (8000, 0.06)):  # as exponential tails: 0.39 and 0.25
        tails = [
            fit_tail(0.02 * np.maximum(rng.normal(size=units), 0), prior=1 / 30, normal=1.0)
            for _ in range(40)
        ]
        reach = np.mean([tail.distance(np.log(1e4)) for tail in tails])
        assert wanted < reach < (1 + off) * wanted


def test_no_tail_is_followed_as_lighter_than_a_normal_one() -> None:
    losses = np.random.default_rng(0).uniform(0, 0.1, 20000)
    ends = fit_tail(losses, normal=1.0)
    assert ends.shape == -0.18
    assert ends.distance(np.log(1e6)) > 0.12


def test_a_light_tail_is_believed_as_far_as_noise_is_likely_to_be_normal() -> None:
    losses = 0.02 * np.abs(np.random.default_rng(0).normal(size=8000))
    far = [fit_tail(losses, normal=normal).distance(np.log(1e4)) for normal in (1.0, 0.9, 0.5, 0.0)]
    assert far == sorted(far)
    exponential = fit_tail(losses).at_least_exponential().distance(np.log(1e4))
    assert far[0] < 0.9 * far[2]
    assert 0.95 * exponential < far[3] <= exponential


@pytest.mark.parametrize("normal", [0.0, 0.9])
@given(values=st.lists(st.floats(0, 1), min_size=2, max_size=60), rarity=st.floats(0.5, 30))
def test_rarity_and_distance_are_each_others_inverse(
    values: list[float], rarity: float, normal: float
) -> None:
    tail = fit_tail(np.array(values), normal=normal)
    distance = tail.distance(tail.level + rarity)
    assert float(tail.rarity(np.array([distance]))[0]) == pytest.approx(
        tail.level + rarity, rel=1e-6
    )


@pytest.mark.parametrize("normal", [0.0, 0.9])
@given(values=st.lists(st.floats(0, 1), min_size=4, max_size=40))
def test_rarity_never_falls_with_distance(values: list[float], normal: float) -> None:
    tail = fit_tail(np.array(values), normal=normal)
    rarity = tail.rarity(np.linspace(0, 1, 200))
    assert (np.diff(rarity) >= -1e-12).all()


def test_an_extreme_value_does_not_hide_behind_itself() -> None:
    values = np.append(np.random.default_rng(0).exponential(0.002, 100), 0.05)
    tail = fit_tail(values)
    without = tail.rarity_without(values, np.arange(101), np.ones(101))[-1]
    assert without > tail.rarity(values)[-1] + 1


def test_one_of_very_many_nodes_is_left_out_of_the_scale() -> None:
    """Beyond a thousand excesses the tail is not fitted anew; what it says without a node is nearly that."""
    rng = np.random.default_rng(0)
    owner = np.repeat(np.arange(3000), 4)
    values = rng.exponential(0.01, len(owner))
    values[0] = 0.12
    tail = fit_tail(values)
    got = tail.rarity_without(values, owner, np.ones(len(owner)))
    for node in (0, 1, 2999):
        anew = fit_tail(values[owner != node]).rarity(values[owner == node])
        assert got[owner == node] == pytest.approx(anew, rel=0.05)
    assert got[0] > tail.rarity(values)[0]


def test_identical_distances_have_a_tail() -> None:
    tail = fit_tail(np.zeros(50))
    assert tail.distance(10.0) < 0.02


def test_new_nodes_exceed_the_largest_left_out_score_as_often_as_an_order_statistic_says() -> None:
    rng = np.random.default_rng(4)
    nodes, devices, metrics, fresh, fleets = 120, 8, 14, 400, 30
    owner = np.repeat(np.arange(nodes), devices)
    beyond = 0
    for _ in range(fleets):
        largest, scores = 0.0, np.zeros(fresh)
        for _ in range(metrics):
            # Heavy tails: an extreme bends the shape that it is measured by, and would look harmless.
            known = 0.005 * np.abs(rng.standard_t(3, nodes * devices))
            tail = fit_tail(known)
            largest = max(
                largest, float(tail.rarity_without(known, owner, np.ones(len(owner))).max())
            )
            new = 0.005 * np.abs(rng.standard_t(3, (fresh, devices)))
            scores = np.maximum(scores, tail.rarity(new).max(axis=1))
        beyond += int((scores > largest).sum())
    expected = fleets * fresh / (nodes + 1)
    assert 0.5 * expected < beyond < 1.5 * expected


def test_a_tail_of_which_nothing_is_healthy_has_a_finite_limit() -> None:
    weight = np.array([1.0, 1.0, 1e-9, 1e-9])
    tail = fit_tail(np.array([0.01, 0.02, 0.3, 0.31]), weight)
    assert np.isfinite(tail.distance(40.0))
