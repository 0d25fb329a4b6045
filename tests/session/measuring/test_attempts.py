"""Measurements are repeated within bounds, and never beyond the deadline of their test."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

import pytest

from pytest_anubis.core.baseline import Criterion
from pytest_anubis.core.measurement import LOOKS_SPENT
from pytest_anubis.core.metric import Metric
from pytest_anubis.core.verdict import Outcome
from pytest_anubis.hardware.round_plans import RoundPlan
from pytest_anubis.session.measuring.attempts import (
    LOOK_PAUSE,
    Look,
    Patience,
    look_closer,
    take_quiet,
    wait_for_quiet,
)
from pytest_anubis.session.measuring.conditions import (
    ATTEMPTS,
    IN_VAIN,
    LONG_WAITS,
    SURE,
    Looks,
    Seen,
    Surroundings,
    Waits,
)
from pytest_anubis.validator import judge_sample
from pytest_anubis.validator.judging.sequential_test import CONFIRMING_LOOKS, MOST_LOOKS

PLAN = RoundPlan(rounds=10, round_seconds=0.001, warmup_seconds=0, budget_seconds=1, bursts=5)
CRITERION = Criterion(
    benchmark="b",
    metric=Metric(name="rate", unit="GB/s", better="higher"),
    centre=(105.0, 106.0, 107.0),
    learned=0.96,
    unconfirmed=0.8,
)


class Noisy:
    """Surroundings in which somebody always disturbs, or never."""

    calm = True

    def __init__(self, *disturbance: str, waits: float = 0.0) -> None:
        self._disturbance = disturbance
        self.waits, self.looks = Waits(waits), Looks()
        self.told: list[tuple[Any, ...]] = []

    def tell_waiting(self, *told: Any) -> None:
        self.told.append(told)

    @contextlib.contextmanager
    def around(self, *, host: bool = True) -> Iterator[Seen]:
        seen = Seen()
        yield seen
        seen.disturbance = self._disturbance if host else ()


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
    first = Look([99.0, 100.0, 101.0] * 3, Seen(), 1.0)
    looks = look_closer(
        CRITERION,
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
    began: list[float] = []

    def take(plan: RoundPlan) -> list[float]:
        began.append(time.monotonic())
        return [100.0] * plan.rounds

    first = Look([99.0, 100.0, 101.0] * 3, Seen())
    quiet = Noisy()
    surroundings = cast("Surroundings", quiet)
    look_closer(CRITERION, plan, take, first, surroundings, lambda look, attempt: None, Patience())
    assert len(began) > 2
    assert began == [LOOK_PAUSE * 0.5 * number for number in range(1, len(began) + 1)]
    assert quiet.told == [((), 0.0, LOOK_PAUSE * 0.5)] * len(
        began
    )  # waited, so no part of the duty


@pytest.mark.usefixtures("clock")
def test_a_run_waits_for_a_quiet_machine_for_a_bounded_time_in_all() -> None:
    waits = Waits(10.0)
    for _ in range(LONG_WAITS):
        assert waits.most() == 10.0
        waits.spent(10.0)
    assert waits.most() == 0.0  # the clock stood still meanwhile
    time.sleep(50.0)
    assert waits.most() == pytest.approx(5.0)


@pytest.mark.usefixtures("clock")
def test_metrics_share_closer_looks_and_the_one_without_is_to_be_measured_again() -> None:
    surroundings = cast("Surroundings", Noisy())
    for _ in range(int(SURE)):  # what is kept for sure losses is spent
        surroundings.looks.take(sure=True)

    def looks() -> list[Look]:
        first = Look([99.0, 100.0, 101.0] * 3, Seen(), 1.0)
        return look_closer(
            CRITERION, PLAN, measure, first, surroundings, lambda look, attempt: None, Patience()
        )

    confirmed, cut = looks(), looks()
    assert len(confirmed) == CONFIRMING_LOOKS
    assert not confirmed[-1].seen.disturbance
    assert 1 < len(cut) < len(confirmed)
    assert cut[-1].seen.disturbance == (LOOKS_SPENT,)
    values = [value for look in cut for value in look.values]
    for spent, outcome in (((), Outcome.PASS), ((LOOKS_SPENT,), Outcome.INCONCLUSIVE)):
        verdict = judge_sample(values, CRITERION, looks=len(cut), disturbance=spent)
        assert verdict.outcome is outcome
    assert verdict.text.endswith(f"but {LOOKS_SPENT}: measure again")


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize(("metrics", "confirmed"), [(1, 1), (4, 4), (9, 4)])
def test_noise_leaves_a_sure_loss_its_looks(metrics: int, confirmed: int) -> None:
    surroundings = cast("Surroundings", Noisy())
    while surroundings.looks.take():  # an earlier benchmark's noise had them all
        pass
    ends = []
    for _ in range(metrics):
        first = Look([69.0, 70.0, 71.0] * 3, Seen(), 1.0)  # beyond the limit, and not twice as far
        taken = look_closer(
            replace(CRITERION, learned=0.8, unconfirmed=0.6),
            PLAN,
            lambda plan: [69.0, 70.0, 71.0],
            first,
            surroundings,
            lambda look, attempt: None,
            Patience(),
        )
        values = [value for look in taken for value in look.values]
        spent = taken[-1].seen.disturbance
        verdict = judge_sample(
            values,
            replace(CRITERION, learned=0.8, unconfirmed=0.6),
            looks=len(taken),
            disturbance=spent,
        )
        ends.append((len(taken), verdict.outcome))
    assert ends.count((CONFIRMING_LOOKS, Outcome.FAIL)) == confirmed
    rest = [outcome for looks, outcome in ends if looks < CONFIRMING_LOOKS]
    assert rest == [Outcome.INCONCLUSIVE] * (metrics - confirmed)


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize(("spent", "looks"), [(0, MOST_LOOKS), (3, MOST_LOOKS - 3)])
def test_one_metric_alone_is_looked_at_to_the_end_and_judged(spent: int, looks: int) -> None:
    surroundings = cast("Surroundings", Noisy())
    surroundings.looks.measured()  # the share of this metric comes on top
    for _ in range(spent + 1):
        surroundings.looks.take()
    first = Look([80.0, 120.0] * 5, Seen(), 1.0)
    taken = look_closer(
        CRITERION,
        PLAN,
        lambda plan: [80.0, 120.0],
        first,
        surroundings,
        lambda look, attempt: None,
        Patience(),
    )
    assert len(taken) == looks
    assert not taken[-1].seen.disturbance


@pytest.mark.usefixtures("clock")
def test_what_a_devices_clock_does_not_see_repeats_nothing() -> None:
    spoiled: list[int] = []
    noisy = cast(Surroundings, Noisy("12 % steal"))
    look, attempts = take_quiet(
        PLAN, measure, noisy, lambda _, n: spoiled.append(n), Patience(), host=False
    )
    assert (look.seen.disturbance, attempts, spoiled) == ((), 1, [])


class Passing(Noisy):
    """Surroundings in which somebody disturbs until a moment."""

    def __init__(self, until: float) -> None:
        super().__init__(waits=10.0)
        self._ends = until

    @contextlib.contextmanager
    def around(self, *, host: bool = True) -> Iterator[Seen]:
        seen = Seen()
        begin = time.monotonic()
        yield seen
        seen.disturbance = ("burn",) if begin < self._ends else ()


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize(
    ("until", "taken", "told"),
    [
        (0.9, 2, [((), 0.0, 0.0)]),  # over before anything need be said
        (4.0, 2, [(("burn",), 10.0), ((), 10.0, 4.0)]),
        (
            99.0,
            ATTEMPTS - IN_VAIN,
            [(("burn",), 10.0), (("burn",), 10.0, 10.0)],
        ),  # once, not every time
    ],
)
def test_a_disturbed_measurement_waits_for_quiet_within_bounds_and_says_so(
    until: float, taken: int, told: list[tuple[Any, ...]]
) -> None:
    passing = Passing(until)
    look, attempts = take_quiet(
        PLAN, measure, cast("Surroundings", passing), lambda _, __: None, Patience()
    )
    assert attempts == taken
    said = [(*one[:2], *(round(seconds) for seconds in one[2:])) for one in passing.told]
    assert said == told
    assert passing.calm is not bool(look.seen.disturbance)


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize(("pause", "told"), [(0.5, [(("burn",), 0.0, 0.5)]), (0.0, [])])
def test_a_pause_before_a_repetition_is_waited_and_of_it_nothing_is_said(
    pause: float, told: list[tuple[Any, ...]]
) -> None:
    noisy = Noisy("burn", waits=10.0)
    noisy.calm = False  # it was waited for in vain before
    surroundings = cast("Surroundings", noisy)
    wait_for_quiet(Look([], Seen(("burn",)), 1.0), pause, surroundings, Patience(), host=True)
    assert time.monotonic() == pause
    assert noisy.told == told  # 0 s at most: `LiveRun` says those that are longer


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize(("stops", "waited"), [(True, 10.0), (False, 3.5)])
def test_a_deadline_that_stops_meanwhile_leaves_time_to_wait(stops: bool, waited: float) -> None:
    patience = Patience(5.0, stops=stops)
    passing = cast("Surroundings", Passing(99.0))
    wait_for_quiet(Look([], Seen(("burn",)), 1.0), 0.5, passing, patience, host=True)
    assert time.monotonic() == pytest.approx(waited, abs=0.5)
    assert patience.allows(3.0) is stops


def test_an_alarm_stands_still_while_a_test_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[float] = []
    monkeypatch.setattr(
        time, "sleep", lambda _: left.append(signal.getitimer(signal.ITIMER_REAL)[0])
    )
    before = signal.signal(signal.SIGALRM, signal.SIG_IGN)
    signal.setitimer(signal.ITIMER_REAL, 1000.0)
    try:
        passing = cast("Surroundings", Passing(0.0))
        wait_for_quiet(Look([], Seen(("burn",))), 0.5, passing, Patience(), host=True)
        after = signal.getitimer(signal.ITIMER_REAL)[0]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
    assert (left, after > 900) == ([0.0], True)
