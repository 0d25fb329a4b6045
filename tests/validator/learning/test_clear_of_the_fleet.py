"""What stands clear of a fleet is found beside many sick units, or looked at where noise may explain it."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_anubis.core.baseline import Criterion
from pytest_anubis.core.metric import Metric
from pytest_anubis.core.sample import FloatArray, Population, population_of
from pytest_anubis.core.verdict import Outcome, Reason
from pytest_anubis.validator import judge_columns, judge_sample, learn_baseline
from pytest_anubis.validator.judging.verdict_table import FAIL, MARGINAL
from pytest_anubis.validator.limits.healthy_null import healthy_null
from tests.validator.known import known

NODES, METRICS = 150, 8


def population(place: int, rates: FloatArray) -> Population:
    return population_of(
        list(rates[:, None]),
        metric=Metric(name=f"rate{place}", unit="GB/s", better="higher"),
        benchmark="b",
        nodes=[f"n{node:03d}" for node in range(len(rates))],
        devices=["d0"] * len(rates),
    )


def fleet(seed: int, spread: float, sick: dict[int, float]) -> list[Population]:
    """Return metrics with noise of t with five degrees; the first one has sick nodes with these losses."""
    rng = np.random.default_rng(seed)
    noise = rng.standard_t(5, (METRICS, NODES)) / np.sqrt(5 / 3)
    rates = 100 * np.exp(spread * noise)
    for node, loss in sick.items():
        rates[0, node] = 100 * (1 - loss)
    return [population(place, one) for place, one in enumerate(rates)]


def unit_criterion(populations: list[Population]) -> Criterion:
    baseline = learn_baseline(populations, hardware_class="c", created="2026-01-01T00:00:00Z")
    return known(baseline.find("b", "rate0", scope="unit"))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("share", [0.02, 0.1, 0.2])
def test_sick_units_beyond_ten_spreads_fail_however_many_they_are(seed: int, share: float) -> None:
    losses = np.geomspace(0.1, 0.5, round(share * NODES))
    sick = dict(zip(range(0, NODES, 2), losses.tolist(), strict=False))
    populations = fleet(seed, 0.01, sick)
    outcome = judge_columns(populations[0], unit_criterion(populations)).outcome
    assert (outcome[list(sick)] == FAIL).all()
    healthy = np.setdiff1d(np.arange(NODES), list(sick))
    assert (outcome[healthy] == FAIL).sum() <= 1


def test_a_loss_that_noise_could_explain_is_to_be_looked_at() -> None:
    looked_at = 0
    for seed in range(6):
        populations = fleet(seed, 0.015, {3: 0.12, 40: 0.1, 41: 0.09, 77: 0.3})
        criterion = unit_criterion(populations)
        outcome = judge_columns(populations[0], criterion).outcome
        looked_at += int((outcome == MARGINAL).sum())
        assert (outcome == MARGINAL).sum() <= 6
        for row in np.flatnonzero(outcome == MARGINAL).tolist():  # one sample says the same
            alone = judge_sample(populations[0].sample(row), criterion)
            assert alone.outcome is Outcome.MARGINAL
            assert alone.worth_a_look
        if criterion.look is not None:
            between = (criterion.look + min(criterion.learned or 1.0, criterion.alpha)) / 2
            said = judge_sample(np.full(5, criterion.typical * between), criterion)
            assert (said.outcome, said.reason) == (Outcome.MARGINAL, Reason.UNDETECTABLE)
    assert looked_at


def test_where_a_unit_is_as_likely_sick_as_healthy() -> None:
    rng = np.random.default_rng(0)
    signed = 0.01 * rng.standard_normal(400)
    signed[:20] = np.geomspace(0.05, 0.5, 20)
    null = healthy_null(signed, np.abs(signed) < 0.05)
    half, clear = null.clear_of(0.5), null.clear_of(0.05)
    assert 0.02 < half < clear < 0.1
    fewer = null._replace(shrunk_sick_share=null.shrunk_sick_share / 10)
    assert fewer.clear_of(0.5) > half
    noisier = null._replace(scale=2 * null.scale, by_degrees=None)
    assert noisier.clear_of(0.5) > null._replace(by_degrees=None).clear_of(0.5)
