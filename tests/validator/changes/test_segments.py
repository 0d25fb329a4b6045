from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pytest_anubis.core.metric import Direction
from pytest_anubis.core.onset import Onset
from pytest_anubis.core.sample import FloatArray
from pytest_anubis.core.verdict import MetricVerdict, Outcome, Reason
from pytest_anubis.validator import segments, with_segments
from tests.validator.known import known


def series(rng: np.random.Generator, noise: float, count: int = 300) -> FloatArray:
    """Rates with 1 % outliers of 10 to 50 % less."""
    values = 100 * np.exp(rng.normal(0, noise, count))
    hit = rng.random(count) < 0.01
    values[hit] *= rng.uniform(0.5, 0.9, int(hit.sum()))
    return np.asarray(values)


@pytest.mark.parametrize("factor", [1e-9, 1e-3, 1e6])
def test_the_unit_of_the_values_does_not_matter(factor: float) -> None:
    rng = np.random.default_rng(5)
    values = series(rng, 0.01, 90)
    values[50:] *= 0.96
    here, there = (known(segments(values * one, "higher").change) for one in (1, factor))
    assert (there.onset, there.until, there.kind) == (here.onset, here.until, here.kind)
    assert there.probability == pytest.approx(here.probability, abs=1e-6)
    assert there.size == pytest.approx(here.size, rel=1e-6)


@pytest.mark.parametrize(("drop", "noise"), [(0.05, 0.03), (0.03, 0.01)])
def test_drops_are_found_where_they_begin_and_clean_runs_are_left_alone(
    drop: float, noise: float
) -> None:
    rng = np.random.default_rng(0)
    found, alarms, shuffled, errors = 0, 0, 0, []
    for _ in range(24):
        onset = int(rng.integers(60, 220))
        values = series(rng, noise)
        values[onset:] *= 1 - drop
        change = segments(values, "higher").change
        if change is not None:
            found += 1
            errors.append(abs(change.onset - onset))
        alarms += segments(series(rng, noise), "higher").change is not None
        shuffled += segments(rng.permutation(values), "higher").change is not None
    assert found >= 23
    assert alarms <= 1
    assert shuffled <= 3  # order is what carries the finding
    assert np.median(errors) <= 2


@pytest.mark.parametrize(("better", "factor"), [("higher", 0.9), ("lower", 1.1)])
def test_only_a_change_for_the_worse_counts(better: Direction, factor: float) -> None:
    rng = np.random.default_rng(1)
    values = 100 * np.exp(rng.normal(0, 0.01, 200))
    worse = np.where(np.arange(200) >= 100, values * factor, values)
    improved = np.where(np.arange(200) >= 100, values / factor, values)
    change = known(segments(worse, better).change)
    assert change.size == pytest.approx(0.1, abs=0.02)
    assert change.onset == pytest.approx(100, abs=2)
    assert segments(improved, better).change is None


def test_an_episode_that_ends_is_found_with_its_end() -> None:
    rng = np.random.default_rng(2)
    values = 100 * np.exp(rng.normal(0, 0.01, 240))
    values[100:150] *= 0.85
    found = segments(values, "higher")
    change = known(found.change)
    assert change.onset == pytest.approx(100, abs=2)
    assert 140 <= change.until <= 160
    assert "until value" in found.sentence("higher", "GB/s")


def test_a_slow_ramp_is_found_though_it_has_no_step() -> None:
    rng = np.random.default_rng(3)
    values = np.linspace(100, 93, 300) * np.exp(rng.normal(0, 0.01, 300))
    found = segments(values, "higher")
    assert known(found.change).kind in ("ramp", "step")
    gentle = np.linspace(100, 97, 300) * np.exp(rng.normal(0, 0.01, 300))
    assert "slowly became" in segments(gentle, "higher").sentence("higher", "GB/s")


def test_a_warm_up_is_cut_and_is_no_finding() -> None:
    rng = np.random.default_rng(4)
    values = 100 * np.exp(rng.normal(0, 0.01, 200))
    values[:20] *= 1.5
    found = segments(values, "lower")
    assert 20 <= found.warmup <= 40
    assert found.change is None


def test_what_is_no_series_has_no_segments() -> None:
    for values in ([1.0] * 5, [float("nan")] * 50, [0.0] * 50, []):
        assert segments(values).change is None
    assert segments([1.0] * 25 + [9.0] * 25, "equal").change is None
    assert segments([1.0] * 200).change is None


def test_a_change_makes_a_pass_marginal_and_names_the_onset() -> None:
    values = np.array([100.0, 101.0] * 50 + [80.0, 81.0] * 50)
    found = segments(values, "higher")
    about: Any = {"text": "", "benchmark": "b", "metric": "rate"}
    passed = MetricVerdict(outcome=Outcome.PASS, reason=Reason.WITHIN, **about)
    marginal = with_segments(passed, found)
    assert (marginal.outcome, marginal.reason) == (Outcome.MARGINAL, Reason.CHANGE_POINT)
    assert "from value 101 of 200" in marginal.text
    failed = MetricVerdict(outcome=Outcome.FAIL, reason=Reason.BEYOND, **about)
    assert with_segments(failed, found).outcome is Outcome.FAIL
    assert with_segments(failed, found).evidence
    onset = Onset(number=101, count=200, size=0.2, compared=3)
    known = with_segments(failed, found, onset)
    assert (known.onset, known.evidence) == (onset, ())
    assert with_segments(passed, segments([100.0] * 200)) == passed
