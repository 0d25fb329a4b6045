"""Thresholds of one machine: what its runs' spread allows, for one look and for a confirmed loss."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_anubis.core.baseline import Criterion
from pytest_anubis.core.metric import Metric
from pytest_anubis.core.sample import population_of
from pytest_anubis.core.verdict import Outcome
from pytest_anubis.validator import judge_sample
from pytest_anubis.validator.judging.column_judging import judge_columns
from pytest_anubis.validator.judging.sequential_test import CONFIRMING_LOOKS
from pytest_anubis.validator.learning.machine_thresholds import (
    DRIFT,
    RunSpread,
    machine_thresholds,
)

QUIET = [RunSpread(0.01 + 0.0005 * i, 5, 0.0, 0.008) for i in range(12)]
NOISY = [RunSpread(0.3 + 0.02 * i, 5, 0.0, 0.008) for i in range(5)]

spreads = st.builds(
    RunSpread,
    deviation=st.floats(0, 0.5),
    runs=st.integers(3, 30),
    shape=st.floats(0, 0.2),
    within=st.floats(0, 0.1),
)


def test_noisy_metrics_do_not_widen_the_quiet_ones() -> None:
    alone = machine_thresholds(QUIET)
    by_peers = machine_thresholds(QUIET + NOISY)[: len(QUIET)]
    for mine, theirs in zip(alone, by_peers, strict=True):
        # A little: the error rate is shared with more metrics.
        assert 1 - theirs.confirmed < 1.2 * (1 - mine.confirmed)
    assert all(
        threshold.confirmed < 0.5 for threshold in machine_thresholds(QUIET + NOISY)[len(QUIET) :]
    )


def test_quiet_metrics_show_a_slowdown_of_ten_percent() -> None:
    assert all(threshold.confirmed > 1 / 1.1 for threshold in machine_thresholds(QUIET))


@pytest.mark.parametrize("count", [1, 3, 5, 6, 30])
@pytest.mark.parametrize("deviation", [0.0, 0.002, 0.005])
def test_three_runs_of_a_quiet_card_show_a_loss_of_five_percent(
    count: int, deviation: float
) -> None:
    found = machine_thresholds([RunSpread(deviation, 3, 0.0, card=True)] * count)
    assert all(threshold.unconfirmed > 0.95 for threshold in found)


@pytest.mark.parametrize("count", [1, 3, 5])
def test_few_metrics_that_are_noisy_have_no_quiet_ones_limits(count: int) -> None:
    found = machine_thresholds([RunSpread(0.03, 3, 0.0, card=True)] * count)
    assert all(threshold.confirmed < 0.9 for threshold in found)


def test_noise_within_the_runs_tells_the_noise_between_them() -> None:
    """Where one follows the other, each metric's prior lies on the line; drift and the centre come on top."""
    following = [
        RunSpread(2 * within, 9, 0.0, within) for within in np.geomspace(5e-4, 2e-2, 14).tolist()
    ]
    for spread, threshold in zip(following, machine_thresholds(following), strict=True):
        centre = np.pi / 2 / spread.runs
        assert threshold.scale == pytest.approx(
            spread.deviation * DRIFT * np.sqrt(1 + centre), rel=0.01
        )
    # Of two runs the same deviations say little of their own, where all are as noisy within.
    alike = machine_thresholds([s._replace(runs=2, within=0.01) for s in following])
    assert alike[-1].scale / alike[0].scale < 0.5 * following[-1].deviation / following[0].deviation


def test_more_runs_raise_the_thresholds() -> None:
    few = machine_thresholds(QUIET)
    many = machine_thresholds([spread._replace(runs=20) for spread in QUIET])
    assert all(b.confirmed > a.confirmed for a, b in zip(few, many, strict=True))


@given(st.lists(spreads, min_size=1, max_size=12))
def test_an_unconfirmed_loss_never_has_the_higher_threshold(found: list[RunSpread]) -> None:
    for threshold in machine_thresholds(found):
        assert 0 < threshold.unconfirmed <= threshold.confirmed < 1
        assert threshold.scale > 0


CRITERION = Criterion(
    benchmark="b",
    metric=Metric(name="rate", unit="GB/s", better="higher"),
    centre=(100.0,),
    learned=0.92,
    unconfirmed=0.8,
)


@pytest.mark.parametrize(
    ("value", "once", "confirmed"),
    [
        (96.0, Outcome.PASS, Outcome.PASS),
        (85.0, Outcome.PASS, Outcome.FAIL),
        (75.0, Outcome.FAIL, Outcome.FAIL),
    ],
)
def test_a_loss_that_nobody_confirmed_has_the_lower_threshold(
    value: float, once: Outcome, confirmed: Outcome
) -> None:
    values = np.full(10, value)
    assert judge_sample(values, CRITERION).outcome is once
    assert judge_sample(values, CRITERION, looks=CONFIRMING_LOOKS).outcome is confirmed
    population = population_of(
        [values], metric=CRITERION.metric, benchmark="b", nodes=["n"], runs=["r"]
    )
    (verdict,) = judge_columns(population, CRITERION).verdicts()
    assert verdict.outcome is once
