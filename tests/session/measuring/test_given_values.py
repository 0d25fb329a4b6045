"""What a test may hand to the recorder as values, and what would be kept as something else."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from pytest_anubis.core.metric import Direction, Metric
from pytest_anubis.core.nominal_rate import NominalRate
from pytest_anubis.session.context import MetricUsageError
from pytest_anubis.session.measuring.given_values import expecting, numbers_of, rated


def metric(better: Direction) -> Metric:
    return Metric(name="digest", unit="1", better=better)


@pytest.mark.parametrize("value", [{1: 2.0}, {"a": 1.0}, {}])
def test_the_keys_of_a_mapping_are_no_values(value: object) -> None:
    with pytest.raises(MetricUsageError):
        numbers_of(value, metric("higher"))


@pytest.mark.parametrize(
    "value", [2**53 + 1, 2**60, [1, 2**64], np.array([2**63], dtype=np.uint64), [1 << 15000]]
)
def test_exact_values_beyond_floats_are_refused(value: object) -> None:
    with pytest.raises(MetricUsageError) as raised:
        numbers_of(value, metric("equal"))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "value", [pytest.param(10**400, id="huge"), [1.0, 1 << 15000], Fraction(10**400)]
)
def test_numbers_beyond_floats_are_refused(value: object) -> None:
    with pytest.raises(MetricUsageError):
        numbers_of(value, metric("lower"))


@pytest.mark.parametrize(
    "right", [2**53 + 1, pytest.param(10**400, id="huge"), np.uint64(2**64 - 1)]
)
def test_expected_value_beyond_floats_is_refused(right: Any) -> None:
    with pytest.raises(MetricUsageError):
        expecting(metric("equal"), right)


@pytest.mark.parametrize("value", [0, 2**53, 1e18, np.int32(7), True, np.float64(2.0**60)])
def test_what_is_kept_exactly_is_taken(value: Any) -> None:
    assert numbers_of(value, metric("equal")) == [value]
    assert expecting(metric("equal"), value).expect == value


def test_a_rate_may_be_a_long_whole_number() -> None:
    assert numbers_of(10**18 + 1, metric("higher")) == [1e18]


@pytest.mark.parametrize(
    ("unit", "better", "nominal", "of"),
    [
        ("s", "lower", NominalRate(value=1e9, of="PCIe"), ""),
        ("TFLOP/s", "higher", NominalRate(value=1e9, of="PCIe"), ""),
        ("samples/s", "higher", NominalRate(value=1e9, of="PCIe"), ""),
        ("GB/s", "equal", 3.0, "x"),
        ("GB/s", "higher", 3.0, ""),
        ("GB/s", "higher", float("nan"), "x"),
        ("GB/s", "higher", "100", "x"),
        ("GB/s", "higher", True, "x"),
        ("GB/s", "higher", 3.0, 5),
        ("GB/s", "higher", NominalRate(value=1e9, of="PCIe"), 5),
    ],
)
def test_a_wrong_rating_is_refused(unit: str, better: Direction, nominal: Any, of: str) -> None:
    with pytest.raises(MetricUsageError):
        rated(Metric(name="rate", unit=unit, better=better), nominal, of)


def test_an_unknown_rating_is_none_whatever_its_name() -> None:
    rate = Metric(name="rate", unit="GB/s", better="higher")
    assert rated(rate, None, "PCIe 5.0 x16") == rate
    number: Any = np.float32(64)
    assert rated(rate, number, "PCIe 5.0 x16").nominal == NominalRate(value=64.0, of="PCIe 5.0 x16")
