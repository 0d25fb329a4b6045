from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_anubis.validator.limits.healthy_null import HALF, healthy_null, healthy_nulls
from pytest_anubis.validator.limits.power import detectable, luck, promised_threshold


def everyone(n: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    return np.ones(n, dtype=np.bool_)


@pytest.mark.parametrize("share", [0.1, 0.2, 0.3])
def test_a_smear_of_sick_units_widens_nothing(share: float) -> None:
    rng = np.random.default_rng(0)
    clean = rng.normal(0, 0.01, 400)
    dirty = clean.copy()
    sick = int(share * 400)
    dirty[:sick] += rng.uniform(0.05, 0.6, sick)
    alone, by_peers = (healthy_null(values, np.abs(values) < 0.05) for values in (clean, dirty))
    assert by_peers.scale == pytest.approx(alone.scale, rel=0.2)
    lost = dirty[:sick] > 0.08
    healthy = by_peers.healthy(dirty)
    assert (healthy[:sick][lost] < HALF).all()
    assert (healthy[sick:] >= HALF).mean() > 0.97


def test_heavy_tails_are_healthy_where_nobody_is_sick() -> None:
    values = 0.005 * np.random.default_rng(1).standard_t(3, 2000)
    null = healthy_null(values, np.abs(values) < 0.05)
    assert null.degrees <= 4
    assert (null.healthy(values) >= HALF).mean() > 0.997


def test_a_few_sick_units_are_no_heavy_tail_where_the_other_metrics_have_none() -> None:
    found = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        fleet = []
        for number in range(12):
            signed = rng.normal(0, 0.02, 200)
            signed[: number % 5] = rng.uniform(0.1, 0.3, number % 5)
            fleet.append((signed, np.abs(signed) < 0.05, 2e-4))
        for (signed, _, _), null in zip(fleet, healthy_nulls(fleet), strict=True):
            found += (null.healthy(signed)[signed > 0.1] < HALF).tolist()
    assert np.mean(found) > 0.95  # .85 where each metric is fitted by itself


def test_a_heavy_tail_among_light_ones_stays_healthy() -> None:
    rng = np.random.default_rng(4)
    fleet = [rng.normal(0, 0.01, 400) for _ in range(11)]
    fleet.append(0.006 * rng.standard_t(3, 400))
    nulls = healthy_nulls([(signed, np.abs(signed) < 0.05, 2e-4) for signed in fleet])
    assert nulls[-1].degrees <= 4
    assert (nulls[-1].healthy(fleet[-1]) >= HALF).mean() > 0.99


def test_a_light_good_side_says_nothing_of_the_bad_one() -> None:
    kept = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        fleet = []
        for _ in range(12):  # both bodies are alike; one unit in twenty was delayed
            delay = np.where(rng.random(300) < 0.05, rng.exponential(0.04, 300), 0.0)
            fleet.append(rng.normal(0, 0.02, 300) + delay)
        nulls = healthy_nulls([(signed, np.abs(signed) < 0.05, 2e-4) for signed in fleet])
        for signed, null in zip(fleet, nulls, strict=True):
            kept += (null.healthy(signed)[signed > 0.04] >= HALF).tolist()
    assert np.mean(kept) > 0.96


def test_a_fault_on_the_good_side_is_none() -> None:
    values = np.append(np.random.default_rng(2).normal(0, 0.01, 200), [-0.5] * 20)
    null = healthy_null(values, np.abs(values) < 0.05)
    assert (null.healthy(values)[200:] == 1).all()


@given(st.lists(st.floats(-1, 1) | st.just(float("nan")), min_size=3, max_size=40))
def test_chances_are_chances(values: list[float]) -> None:
    signed = np.array(values)
    if np.isnan(signed).all():
        return
    null = healthy_null(signed, everyone(len(signed)))
    healthy = null.healthy(signed)
    assert ((healthy >= 0) & (healthy <= 1)).all()
    assert (healthy[np.isnan(signed)] == 0).all()
    assert null.scale > 0


def test_what_is_stated_as_detectable_is_found_in_95_of_100_cases() -> None:
    rng = np.random.default_rng(3)
    signed = rng.normal(0, 0.02, 4000)
    lucky = luck(signed, np.ones(4000))
    assert lucky == pytest.approx(1.645 * 0.02, rel=0.1)
    loss = detectable("higher", 0.9, lucky)
    values = (1 - rng.normal(0, 0.02, 4000)) * (1 - loss)
    assert np.mean(values < 0.9) == pytest.approx(0.95, abs=0.015)


@given(st.sampled_from(["higher", "lower"]), st.floats(0.05, 0.5), st.floats(0, 0.03))
def test_a_promise_is_the_inverse_of_what_is_detectable(
    better: str, promise: float, lucky: float
) -> None:
    threshold = promised_threshold(better, promise, lucky)  # type: ignore[arg-type]
    assert detectable(better, threshold, lucky) == pytest.approx(promise)  # type: ignore[arg-type]


def test_many_metrics_are_fitted_together_in_any_company_of_their_size() -> None:
    rng = np.random.default_rng(5)
    metrics = []
    # They are padded beside each other; of one nothing is on the bad side.
    for count in (3, 40, 150, 1200, 0, 700):
        signed = rng.standard_t(5, max(count, 4)) * 0.004
        signed[: count // 10] += 0.2
        signed = signed if count else np.zeros(4)
        metrics.append((signed, np.abs(signed) < 0.05, 2e-4))
    together = healthy_nulls(metrics)
    assert together[4].healthy(metrics[4][0]).tolist() == [1.0] * 4
    backwards = healthy_nulls(metrics[::-1])[::-1]
    same = 0
    for one, found, other in zip(metrics, together, backwards, strict=True):
        assert found.degrees == other.degrees
        assert found.healthy(one[0]) == pytest.approx(other.healthy(one[0]), rel=1e-9)
        alone = healthy_null(*one)  # what others add is a prior for the degrees of freedom
        assert found.middle == alone.middle
        if found.degrees == alone.degrees:
            same += 1
            assert found.scale == pytest.approx(alone.scale, rel=1e-9)
            assert found.healthy(one[0]) == pytest.approx(alone.healthy(one[0]), rel=1e-9)
    assert same > 1
