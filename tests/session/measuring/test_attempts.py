"""Measurements are repeated within bounds, and never beyond the deadline of their test."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import cast

import pytest

from pytest_anubis.core.baseline import Criterion
from pytest_anubis.core.metric import Metric
from pytest_anubis.hardware.timing import RoundPlan
from pytest_anubis.session.measuring.attempts import (
    ATTEMPTS,
    LOOK_PAUSE,
    Look,
    Patience,
    look_closer,
    take_quiet,
)
from pytest_anubis.session.measuring.conditions import Seen, Surroundings

PLAN = RoundPlan(rounds=10, round_seconds=0.001, warmup_seconds=0, budget_seconds=1, bursts=5)


class Noisy:
    """Surroundings in which somebody always disturbs, or never."""

    def __init__(self, *disturbance: str) -> None:
        self._disturbance = disturbance

    @contextlib.contextmanager
    def around(self) -> Iterator[Seen]:
        seen = Seen()
        yield seen
        seen.disturbance = self._disturbance


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that only sleeping moves."""
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))


def measure(plan: RoundPlan) -> list[float]:
    time.sleep(0.1 * plan.rounds)
    return [100.0] * plan.rounds


@pytest.mark.usefixtures("clock")
def test_what_no_disturbance_can_change_is_taken_once() -> None:
    spoiled: list[int] = []
    surroundings = cast(Surroundings, Noisy("load"))
    look, attempt = take_quiet(
        PLAN, measure, surroundings, lambda _, n: spoiled.append(n), Patience(), most=1
    )
    assert (attempt, spoiled, look.seen.disturbance) == (1, [], ("load",))


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize(
    ("deadline", "attempts"),
    [(None, ATTEMPTS), (60.0, ATTEMPTS), (3.5, 2), (2.0, 1)],
)
def test_a_disturbed_measurement_is_repeated_while_there_is_time(
    deadline: float | None, attempts: int
) -> None:
    kept: list[int] = []
    look, number = take_quiet(
        PLAN,
        measure,
        cast("Surroundings", Noisy("steal")),
        lambda look, attempt: kept.append(attempt),
        Patience(deadline),
    )
    assert number == attempts
    assert kept == list(range(1, attempts))
    assert look.values  # what there is stays, and says why it cannot be trusted
    assert look.seen.disturbance == ("steal",)
    if deadline is not None:
        assert time.monotonic() < deadline


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("deadline", [None, 2.0, 0.5])
def test_a_close_call_is_looked_at_again_while_there_is_time(deadline: float | None) -> None:
    criterion = Criterion(
        benchmark="b",
        metric=Metric(name="rate", unit="GB/s", better="higher"),
        centre=(105.0, 106.0, 107.0),
        learned=0.96,
        unconfirmed=0.8,
    )
    first = Look([99.0, 100.0, 101.0] * 3, Seen(), 1.0)
    looks = look_closer(
        criterion,
        PLAN,
        measure,
        first,
        cast("Surroundings", Noisy()),
        lambda look, attempt: None,
        Patience(deadline),
    )
    assert looks[0] is first
    if deadline is None:
        assert len(looks) > 5
    elif deadline == 2.0:
        assert 1 < len(looks) < 12
        assert time.monotonic() < deadline
    else:
        assert len(looks) in (1, 2)
        assert time.monotonic() < deadline


@pytest.mark.usefixtures("clock")
def test_a_further_look_comes_after_a_pause_in_which_what_passes_by_itself_may_pass() -> None:
    plan = replace(PLAN, pause_seconds=0.5)
    criterion = Criterion(
        benchmark="b",
        metric=Metric(name="rate", unit="GB/s", better="higher"),
        centre=(105.0, 106.0, 107.0),
        learned=0.96,
        unconfirmed=0.8,
    )
    began: list[float] = []

    def take(plan: RoundPlan) -> list[float]:
        began.append(time.monotonic())
        return [100.0] * plan.rounds

    first = Look([99.0, 100.0, 101.0] * 3, Seen())
    surroundings = cast("Surroundings", Noisy())
    look_closer(criterion, plan, take, first, surroundings, lambda look, attempt: None, Patience())
    assert len(began) > 2
    assert began == [LOOK_PAUSE * 0.5 * number for number in range(1, len(began) + 1)]
