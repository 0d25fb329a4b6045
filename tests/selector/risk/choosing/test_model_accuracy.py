"""Figures of merit: against brute force and against known answers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_anubis.selector.risk.choosing.model_accuracy import (
    brier,
    calibration,
    harrell,
    integrated_brier,
    kaplan_meier,
)
from tests.selector.risk.curve_accuracy import antolini, skill

rows = st.lists(
    st.tuples(st.integers(1, 6), st.booleans(), st.integers(0, 3)), min_size=2, max_size=12
)


@settings(deadline=None)
@given(rows)
def test_harrell_counts_pairs(data: list[tuple[int, bool, int]]) -> None:
    good, pairs = 0.0, 0
    for time, happened, risk in data:
        for other, other_happened, other_risk in data:
            if happened and (other > time or (other == time and not other_happened)):
                pairs += 1
                good += (risk > other_risk) + 0.5 * (risk == other_risk)
    times, events, risks = zip(*data, strict=True)
    expected = good / pairs if pairs else 0.5
    assert harrell(risks, times, np.array(events, float)) == pytest.approx(expected)


def test_risks_that_rounding_tells_apart_are_equal() -> None:
    same = [0.1 + 0.2, 0.3, 0.6 - 0.3]
    assert len(set(same)) > 1
    assert harrell(same, [1, 2, 3], [1, 1, 1]) == 0.5
    assert harrell([0.3, 0.3 * (1 - 1e-6), 0.2], [1, 2, 3], [1, 1, 1]) == 1.0


@settings(deadline=None)
@given(rows)
def test_antolini_is_harrell_for_proportional_curves(data: list[tuple[int, bool, int]]) -> None:
    times, events, risks = (np.array(column, float) for column in zip(*data, strict=True))
    marks = np.unique(times)
    curves = np.exp(-np.outer(risks + 1, marks) / 10)
    assert antolini(marks, curves, times, events) == pytest.approx(harrell(risks, times, events))


def test_kaplan_meier_by_hand() -> None:
    curve = kaplan_meier([1, 2, 2, 3, 4], [1, 1, 0, 0, 1], [0.5, 1, 2, 3, 4])
    assert curve == pytest.approx([1, 0.8, 0.6, 0.6, 0])
    before = kaplan_meier([1, 2], [1, 1], [1, 2], before=True)
    assert before == pytest.approx([1, 0.5])


def test_brier_without_censoring_is_the_mean_square() -> None:
    chance, duration = np.array([0.9, 0.2, 0.6]), [5, 1, 2]
    expected = ((1 - 0.9) ** 2 + 0.2**2 + 0.6**2) / 3
    assert brier(chance, duration, [1, 1, 1], 3) == pytest.approx(expected)
    assert integrated_brier(
        [2.5, 3, 3.5],
        np.tile(chance[:, None], 3),
        duration,
        [1, 1, 1],
    ) == (pytest.approx(expected))


def test_censoring_is_weighed_away() -> None:
    rng = np.random.default_rng(0)
    life, end = rng.exponential(10, 40_000), rng.uniform(0, 25, 40_000)
    duration, event = np.minimum(life, end), (life <= end).astype(float)
    chance = np.full(40_000, 0.5)
    bare = brier(chance, life, np.ones(40_000), 8.0)
    assert brier(chance, duration, event, 8.0) == pytest.approx(bare, abs=0.005)
    truth = np.full(40_000, np.exp(-0.8))
    assert calibration(truth, duration, event, 8.0) == pytest.approx(1, abs=0.02)
    assert calibration(1 - 2 * (1 - truth), duration, event, 8.0) == pytest.approx(2, abs=0.04)
    assert skill(truth, duration, event, 8.0) == pytest.approx(0, abs=0.001)


def test_skill_is_negative_for_wrong_knowledge() -> None:
    duration, event = np.array([1.0, 1, 9, 9]), np.ones(4)
    assert skill([0.1, 0.1, 0.9, 0.9], duration, event, 5) > 0.9
    assert skill([0.9, 0.9, 0.1, 0.1], duration, event, 5) < 0
