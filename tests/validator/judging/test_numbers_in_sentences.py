"""A value has the same digits in the Validator's sentences as in every table and page."""

from __future__ import annotations

import pytest

from pytest_anubis.core.baseline import Criterion
from pytest_anubis.core.metric import Metric, value_text
from pytest_anubis.validator import judge_sample


@pytest.mark.parametrize("value", [123456.7, 1e6, 8602.9, 0.00012345])
def test_a_sentence_writes_a_value_as_tables_do(value: float) -> None:
    rate = Metric(name="rate", unit="op/s", better="higher")
    normal = Criterion(benchmark="b", metric=rate, component="c", centre=(2 * value,) * 9)
    told = judge_sample([value] * 9, normal).text
    assert f"rate is {value_text(value, 'op/s')}, expected {value_text(2 * value, 'op/s')}" in told
