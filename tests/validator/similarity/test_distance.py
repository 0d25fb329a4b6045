from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_anubis.core.metric import Direction
from pytest_anubis.core.sample import unusable_reason
from pytest_anubis.validator import one_sided
from pytest_anubis.validator.similarity.distance import SampleError, losses, similarity

values = st.floats(0, 1e6, allow_nan=False).map(lambda x: 0.0 if x < 1e-6 else x)
samples = st.lists(values, min_size=1, max_size=12)


def by_integration(a: list[float], b: list[float], side: Direction | None) -> float:
    """The definition, with step functions of x: an oracle that never sees quantiles."""
    xs = np.unique([0.0, *a, *b])
    width = np.diff(xs)
    f = np.array([np.mean(np.array(a) <= x) for x in xs[:-1]])
    g = np.array([np.mean(np.array(b) <= x) for x in xs[:-1]])
    union = float((np.maximum(1 - f, 1 - g) * width).sum())
    gap = {None: np.abs(f - g), "higher": np.maximum(f - g, 0), "lower": np.maximum(g - f, 0)}[side]
    return 1.0 if union == 0 else 1 - float((gap * width).sum()) / union


def test_constants_five_percent_apart() -> None:
    assert similarity([100], [95]) == pytest.approx(0.95)
    assert one_sided([95], [100], "higher") == pytest.approx(0.95)
    assert one_sided([95], [100], "lower") == 1.0
    assert one_sided([105], [100], "lower") == pytest.approx(100 / 105)


def test_pooling_dilutes_one_slow_device_of_four() -> None:
    assert one_sided([100, 100, 100, 120], [100] * 4, "lower") == pytest.approx(1 - 5 / 105)
    assert one_sided([120], [100] * 4, "lower") == pytest.approx(1 - 20 / 120)


@given(samples, samples)
def test_agrees_with_the_definition_for_any_sizes(a: list[float], b: list[float]) -> None:
    assert similarity(a, b) == pytest.approx(by_integration(a, b, None), abs=1e-9)
    assert one_sided(a, b, "higher") == pytest.approx(by_integration(a, b, "higher"), abs=1e-9)
    assert one_sided(a, b, "lower") == pytest.approx(by_integration(a, b, "lower"), abs=1e-9)


@given(samples, samples)
def test_range_symmetry_and_sum_of_the_sides(a: list[float], b: list[float]) -> None:
    alike = similarity(a, b)
    assert 0 <= alike <= 1
    assert alike == pytest.approx(similarity(b, a), abs=1e-12)
    sides = 2 - one_sided(a, b, "higher") - one_sided(a, b, "lower")
    assert 1 - alike == pytest.approx(sides, abs=1e-9)


@given(samples, st.integers(1, 4), st.floats(1e-3, 1e3))
def test_identity_replication_and_scale(a: list[float], times: int, scale: float) -> None:
    assert similarity(a, a) == 1.0
    assert similarity(a, a * times) == pytest.approx(1.0, abs=1e-12)
    b = [x + 1 for x in a]
    scaled = similarity([x * scale for x in a], [x * scale for x in b])
    assert scaled == pytest.approx(similarity(a, b), abs=1e-9)


@given(samples, samples, samples)
def test_the_distance_is_a_metric(a: list[float], b: list[float], c: list[float]) -> None:
    direct = 1 - similarity(a, c)
    assert direct <= (1 - similarity(a, b)) + (1 - similarity(b, c)) + 1e-9


@given(st.lists(st.lists(values, min_size=3, max_size=3), min_size=1, max_size=6), samples)
def test_the_vectorised_form_equals_the_scalar_one(rows: list[list[float]], c: list[float]) -> None:
    below, above = losses(np.sort(np.array(rows), axis=1), np.sort(np.array(c)))
    for row, low, high in zip(rows, below, above, strict=True):
        assert low == pytest.approx(1 - one_sided(row, c, "higher"), abs=1e-9)
        assert high == pytest.approx(1 - one_sided(row, c, "lower"), abs=1e-9)


def test_zeros() -> None:
    assert similarity([0, 0], [0]) == 1.0
    assert similarity([0], [1]) == 0.0


def test_many_samples_of_nothing_are_nothing_alike_to_the_last_digit() -> None:
    """What is 1e-16 alike is told as 9e15 times as slow, and what is 0 alike as nothing at all."""
    rng = np.random.default_rng(0)
    for values, units, quantiles in itertools.product(range(1, 5), range(1, 5), range(1, 6)):
        centre = np.sort(rng.uniform(50, 150, quantiles))
        for exact in (np.float64, np.float32):
            below, above = losses(np.zeros((units, values), dtype=exact), centre)
            assert (below == 1).all()
            assert not above.any()


@pytest.mark.parametrize(
    ("bad", "word"),
    [
        ([], "no value was recorded"),
        ([1, math.nan], "value 2 is NaN"),
        ([math.inf], "infinite"),
        ([1, 2, -3], "value 3 is negative"),
    ],
)
def test_what_is_no_sample_is_refused_with_its_place(bad: list[float], word: str) -> None:
    with pytest.raises(SampleError, match=word):
        similarity(bad, [1.0])
    assert word in str(unusable_reason(bad))


def test_a_billion_identical_values_cost_one() -> None:
    many = np.broadcast_to(np.array([95.0]), (10**8,))
    assert similarity(many, [100.0]) == pytest.approx(0.95)


def test_huge_values_do_not_overflow() -> None:
    assert similarity([1e308, 1e308], [0.95e308, 0.95e308]) == pytest.approx(0.95)
