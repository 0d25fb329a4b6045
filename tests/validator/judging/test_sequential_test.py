from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pytest_anubis.core.baseline import Criterion
from pytest_anubis.core.metric import Metric
from pytest_anubis.core.sample import FloatArray
from pytest_anubis.core.verdict import Outcome
from pytest_anubis.validator import closer_look, judge_sample
from pytest_anubis.validator.judging.sequential_test import MAX_LOOKS

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
    assert 1 < looks <= MAX_LOOKS


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
    assert max(looks for _, looks in results) == MAX_LOOKS


def test_one_burst_alone_never_rejects() -> None:
    rng = np.random.default_rng(3)
    burst, later = look(rng, 0.15), look(rng, 0.0)
    assert closer_look([burst], CRITERION) == closer_look([burst, later], CRITERION) == "more"


def steady(middle: float, noise: float, looks: int) -> list[FloatArray]:
    """Looks whose values lie in turns above and below: a standard error that is known, no correlation."""
    signs = np.tile([1.0, -1.0], 15)
    return [middle + noise * signs] + [middle + noise * signs[:6]] * (looks - 1)


@pytest.mark.parametrize(
    ("middle", "noise", "looks", "answer"),
    [
        (103.0, 0.5, 1, "enough"),  # 3 % worse, known to .3 %: far from the threshold of 5 %
        (104.5, 3.0, 1, "more"),  # 4 % worse, known to 2 %: 5 % is within
        (104.5, 0.2, 1, "enough"),
        (107.0, 0.1, 10, "more"),  # clearly beyond, but what passes within seconds never rejects
        (107.0, 0.1, 11, "enough"),
        (107.0, 20.0, 11, "more"),  # known to 7 % only
        (115.0, 0.1, 4, "more"),
        (115.0, 0.1, 5, "enough"),  # more than twice the loss that fails: sooner
        (113.0, 10.0, 5, "more"),  # it may be less than twice
        (120.0, 40.0, 16, "enough"),  # the last look
    ],
)
def test_more_is_asked_for_while_the_interval_contains_the_threshold(
    middle: float, noise: float, looks: int, answer: str
) -> None:
    assert closer_look(steady(middle, noise, looks), CRITERION) == answer


def test_a_loss_within_the_unconfirmed_threshold_is_not_clear() -> None:
    wide = replace(CRITERION, learned=0.97, unconfirmed=0.8)
    assert closer_look(steady(118.0, 0.1, 5), wide) == "more"
    assert closer_look(steady(130.0, 0.1, 5), wide) == "enough"


def test_a_learned_threshold_beyond_the_practical_one_is_the_one_that_fails() -> None:
    tight, loose = replace(CRITERION, learned=0.99), replace(CRITERION, learned=0.9)
    assert closer_look(steady(103.0, 0.2, 1), tight) == "enough"
    assert closer_look(steady(107.0, 0.2, 1), loose) == "enough"
    assert closer_look(steady(107.0, 0.2, 1), CRITERION) == "more"


def test_neighbours_that_are_alike_count_as_fewer_values() -> None:
    signs = np.repeat([1.0, -1.0], 15)  # the same values as in turns, but in two halves
    assert closer_look([104.0 + 1.0 * np.tile([1.0, -1.0], 15)], CRITERION) == "enough"
    assert closer_look([104.0 + 1.0 * signs], CRITERION) == "more"


def test_what_cannot_be_judged_is_not_measured_again() -> None:
    assert closer_look([[float("nan")]], CRITERION) == "enough"
    assert closer_look([], CRITERION) == "enough"
    errors = Metric(name="e", unit="count", better="equal")
    exact = Criterion(benchmark="b", metric=errors, centre=(0.0,))
    assert closer_look([[1.0]], exact) == "enough"
