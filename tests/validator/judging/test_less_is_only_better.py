"""Of drops, watts and degrees less is only better; a time that is far too short was not taken."""

from __future__ import annotations

import pytest

from pytest_anubis.core.baseline import Criterion
from pytest_anubis.core.metric import Metric
from pytest_anubis.core.verdict import Outcome, Reason
from pytest_anubis.validator import judge_sample


@pytest.mark.parametrize(
    ("unit", "usual", "seen"), [("packets", 10.0, 0.0), ("degC", 60.0, 38.0), ("W", 70.0, 45.0)]
)
def test_less_of_what_is_no_time_passes(unit: str, usual: float, seen: float) -> None:
    metric = Metric(name="dropped", unit=unit, better="lower")
    criterion = Criterion(benchmark="b", metric=metric, centre=(usual,), medians=(usual,))
    assert judge_sample([seen] * 5, criterion).outcome is Outcome.PASS


def test_a_time_of_next_to_nothing_does_not() -> None:
    metric = Metric(name="step", unit="ms", better="lower")
    criterion = Criterion(benchmark="b", metric=metric, centre=(100.0,), medians=(100.0,))
    found = judge_sample([0.1] * 5, criterion)
    assert (found.outcome, found.reason) == (Outcome.INCONCLUSIVE, Reason.TOO_GOOD)
