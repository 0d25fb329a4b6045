"""Ranks and chances of counts equal those that are counted one by one."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pytest_anubis.validator.similarity.rank_tests import (
    binomial_tail,
    hypergeometric_tail,
    mean_ranks,
)


def test_equal_values_share_their_rank() -> None:
    assert mean_ranks(np.array([3.0, 1.0, 3.0, 2.0])).tolist() == [3.5, 1.0, 3.5, 2.0]


@pytest.mark.parametrize("hit", range(6))
def test_binomial_chances_are_those_of_all_outcomes(hit: int) -> None:
    exact = sum(math.comb(5, k) * 0.25**k * 0.75 ** (5 - k) for k in range(hit, 6))
    assert binomial_tail(hit, 5, 0.25) == pytest.approx(exact)
    assert binomial_tail(hit, 5, 1.0) == 1


def test_chances_of_a_large_fleet_are_finite() -> None:
    assert binomial_tail(3100, 10_000, 0.25) < 1e-30
    assert binomial_tail(2400, 10_000, 0.25) == pytest.approx(0.99, abs=0.01)


@pytest.mark.parametrize("hit", range(5))
def test_hypergeometric_chances_are_those_of_all_draws(hit: int) -> None:
    ways = sum(math.comb(4, k) * math.comb(6, 5 - k) for k in range(hit, 5))
    assert hypergeometric_tail(hit, 10, 4, 5) == pytest.approx(ways / math.comb(10, 5))
