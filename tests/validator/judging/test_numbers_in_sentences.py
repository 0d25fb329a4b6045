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
    result = judge_sample([value] * 9, normal).text
    assert (
        f"rate is {value_text(value, 'op/s')}, expected {value_text(2 * value, 'op/s')}" in result
    )


def test_what_fails_by_its_distribution_is_not_called_no_worse() -> None:
    rate = Metric(name="rate", unit="GB/s", better="higher")
    normal = Criterion(
        benchmark="b", metric=rate, component="c", centre=(100.0,) * 9, alpha=0.999, learned=0.999
    )
    values = [100.0] * 8 + [97.0]
    judged = judge_sample(values, normal)
    assert judged.similarity is not None
    assert 0.995 < judged.similarity < 0.999
    assert "no worse" not in judged.text
    assert "no worse" in judge_sample([100.0] * 9, normal).text
