"""An exact metric whose right value is known fails without a criterion, by row and by column alike."""

from __future__ import annotations

import pytest

from pytest_anubis.core.baseline import Baseline
from pytest_anubis.core.metric import Metric
from pytest_anubis.core.sample import population_of
from pytest_anubis.core.verdict import Outcome, Reason
from pytest_anubis.validator import judge_columns, judge_sample

ERRORS = Metric(name="wrong", unit="errors", better="equal")
STATED = Metric(name="answer", unit="1", better="equal", expect=42.0)
FREE = Metric(name="fingerprint", unit="1", better="equal")
EMPTY = Baseline(hardware_class="any", criteria=(), created="")


@pytest.mark.parametrize("baseline", [EMPTY, None])
@pytest.mark.parametrize(
    ("metric", "values", "fails"),
    [
        (ERRORS, [0.0, 0.0], False),
        (ERRORS, [0.0, 3.0], True),
        (STATED, [42.0], False),
        (STATED, [41.0], True),
        (FREE, [7.0], False),
    ],
)
def test_wrong_value_fails_without_a_criterion(
    metric: Metric, values: list[float], fails: bool, baseline: Baseline | None
) -> None:
    verdict = judge_sample(values, None, baseline, metric=metric)
    assert (verdict.outcome is Outcome.FAIL) is fails
    columns = judge_columns(
        population_of([values] * 2, metric=metric, benchmark="t"), None, baseline=baseline
    )
    assert [one.outcome for one in columns.verdicts(baseline)] == [verdict.outcome] * 2
    assert [one.reason for one in columns.verdicts(baseline)] == [verdict.reason] * 2
    assert (verdict.reason is Reason.BEYOND) is fails
