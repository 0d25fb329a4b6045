from __future__ import annotations

import numpy as np
import pytest

from pytest_anubis.core.baseline import Criterion
from pytest_anubis.core.metric import Metric
from pytest_anubis.core.sample import FloatArray
from pytest_anubis.core.verdict import Outcome
from pytest_anubis.validator import closer_look, judge_sample
from pytest_anubis.validator.judging.sequential_test import MOST_LOOKS

CRITERION = Criterion(
    benchmark="b",
    metric=Metric(name="t", unit="ms", better="lower"),
    centre=tuple(100 + x for x in np.linspace(-2, 2, 30)),
)


def look(rng: np.random.Generator, loss: float, noise: float = 0.02, count: int = 30) -> FloatArray:
    return np.asarray(100 / (1 - loss) * np.exp(rng.normal(0, noise, count)))


def measure(rng: np.random.Generator, loss: float, noise: float = 0.02) -> tuple[Outcome, int]:
    looks = [look(rng, loss, noise)]
    while closer_look(looks, CRITERION) == "more":
        looks.append(look(rng, loss, noise, 6))
    return judge_sample(np.concatenate(looks), CRITERION).outcome, len(looks)


def test_a_clear_pass_stops_at_once_and_a_loss_is_confirmed_first() -> None:
    rng = np.random.default_rng(0)
    assert measure(rng, 0.0) == (Outcome.PASS, 1)
    outcome, looks = measure(rng, 0.3)
    assert outcome is Outcome.FAIL
    assert 1 < looks <= MOST_LOOKS


@pytest.mark.parametrize(("loss", "outcome"), [(0.03, Outcome.PASS), (0.07, Outcome.FAIL)])
def test_the_stated_error_holds_on_both_sides(loss: float, outcome: Outcome) -> None:
    rng = np.random.default_rng(1)
    results = [measure(rng, loss, noise=0.04) for _ in range(300)]
    wrong = np.mean([found is not outcome for found, _ in results])
    assert wrong <= 0.02
    if outcome is Outcome.PASS:
        assert np.mean([1 + (looks - 1) / 5 for _, looks in results]) < 3  # in whole measurements


def test_it_is_bounded_even_on_the_line() -> None:
    rng = np.random.default_rng(2)
    results = [measure(rng, 0.0525, noise=0.05) for _ in range(30)]
    assert max(looks for _, looks in results) == MOST_LOOKS


def test_one_burst_alone_never_rejects() -> None:
    rng = np.random.default_rng(3)
    burst = look(rng, 0.15)
    assert closer_look([burst], CRITERION) == "more"
    later = [burst, look(rng, 0.0)]
    assert closer_look(later, CRITERION) == "more"


def test_what_cannot_be_judged_is_not_measured_again() -> None:
    assert closer_look([[float("nan")]], CRITERION) == "enough"
    assert closer_look([], CRITERION) == "enough"
    exact = Criterion(
        benchmark="b", metric=Metric(name="e", unit="count", better="equal"), centre=(0.0,)
    )
    assert closer_look([[1.0]], exact) == "enough"
