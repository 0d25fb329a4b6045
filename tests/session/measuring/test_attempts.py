"""Measurements count the values of clear moments, and close calls are looked at again while there is time."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import cast

import pytest

from pytest_anubis.core.baseline import Criterion
from pytest_anubis.core.measurement import HOST_SLOWER, LOOKS_SPENT
from pytest_anubis.core.metric import Metric
from pytest_anubis.core.verdict import Outcome
from pytest_anubis.hardware.load.clear_moments import MonitoredRounds
from pytest_anubis.hardware.round_plans import RoundPlan
from pytest_anubis.session.measuring import attempts
from pytest_anubis.session.measuring.attempts import (
    LOOK_PAUSE,
    MAX_EMPTY_LOOKS,
    MIN_CLEAR,
    NO_CLEAR_MOMENT,
    Look,
    TimeLimit,
    Visit,
    VisitResults,
    look,
    look_closer,
    take_all,
)
from pytest_anubis.session.measuring.conditions import (
    SURE_LOOKS,
    Conditions,
    ConditionsWatch,
    LookBudget,
)
from pytest_anubis.validator import judge_sample
from pytest_anubis.validator.judging.sequential_test import CONFIRMING_LOOKS, MAX_LOOKS

PLAN = RoundPlan(rounds=10, round_seconds=0.001, warmup_seconds=0, budget_seconds=1)
CRITERION = Criterion(
    benchmark="b",
    metric=Metric(name="rate", unit="GB/s", better="higher"),
    centre=(105.0, 106.0, 107.0),
    learned=0.96,
    unconfirmed=0.8,
)
CLOSE = [99.0, 100.0, 101.0] * 3


class Chosen:
    """Rounds of which it is given which are clear, and how slow the cores were."""

    shared = True

    def __init__(self, clear: list[bool], slowdown: float) -> None:
        self._clear, self.slowdown = clear, slowdown

    def clear(self) -> list[bool]:
        return self._clear

    def ended(self) -> None:
        """Keep nothing."""


class Around:
    """ConditionsWatch that see what they are given.

    Args:
        disturbance: What the watch sees each time.
        clear: Which values are clear.
        slowdown: How slow the cores were.
    """

    def __init__(
        self, *disturbance: str, clear: list[bool] | None = None, slowdown: float = 1.0
    ) -> None:
        self._disturbance, self._clear, self._slowdown = disturbance, clear or [], slowdown
        self.looks = LookBudget()

    @contextlib.contextmanager
    def around(self, *, host: bool = True) -> Iterator[Conditions]:
        seen = Conditions()
        yield seen
        seen.disturbance = self._disturbance if host else ()

    def rounds(self, name: str = "") -> MonitoredRounds:
        return cast(MonitoredRounds, Chosen(self._clear, self._slowdown))


def surroundings(
    *disturbance: str, clear: list[bool] | None = None, slowdown: float = 1.0
) -> ConditionsWatch:
    return cast(ConditionsWatch, Around(*disturbance, clear=clear, slowdown=slowdown))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that only sleeping moves."""
    now = [0.0]
    monkeypatch.setattr(attempts, "LOOK_PAUSE", LOOK_PAUSE)
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))


def measure(plan: RoundPlan, moments: MonitoredRounds | None = None) -> list[float]:
    time.sleep(0.1 * plan.rounds)
    return [100.0] * plan.rounds


def counted(plan: RoundPlan, moments: MonitoredRounds | None) -> list[float]:
    return [float(number) for number in range(plan.rounds)]


def closer(
    take: object,
    where: ConditionsWatch,
    *,
    first: list[float] = CLOSE,
    criterion: Criterion = CRITERION,
    deadline: float | None = None,
    choose: bool = False,
) -> list[Look]:
    """Look again at a first look of a second."""
    return look_closer(
        criterion,
        PLAN,
        take,  # type: ignore[arg-type]
        [Look(first, Conditions(), 1.0)],
        where,
        TimeLimit(deadline),
        host=True,
        choose=choose,
    )


@pytest.mark.parametrize("seen", [(), ("12 % steal",)])
def test_only_clear_values_count(seen: tuple[str, ...]) -> None:
    clear = [number % 2 == 0 for number in range(PLAN.rounds)]
    found = look(PLAN, counted, surroundings(*seen, clear=clear), host=True, choose=True)
    assert found.values == [0.0, 2.0, 4.0, 6.0, 8.0]
    assert len(found.values) == MIN_CLEAR
    assert found.clear == found.values
    assert found.unclear == [1.0, 3.0, 5.0, 7.0, 9.0]
    assert not found.seen.disturbance  # only the unclear ones were disturbed


@pytest.mark.parametrize("seen", [(), ("12 % steal",)])
def test_too_few_clear_values_are_a_disturbance(seen: tuple[str, ...]) -> None:
    clear = [number < MIN_CLEAR - 1 for number in range(PLAN.rounds)]
    found = look(PLAN, counted, surroundings(*seen, clear=clear), host=True, choose=True)
    assert found.values == counted(PLAN, None)
    assert found.unclear == []
    assert found.clear == [0.0, 1.0, 2.0, 3.0]  # more of them may come with another visit
    assert found.seen.disturbance == (seen or (NO_CLEAR_MOMENT,))


@pytest.mark.parametrize(("rounds", "earlier"), [(2, 0), (PLAN.rounds, MIN_CLEAR - 2)])
def test_two_clear_values_suffice_in_a_short_plan_or_after_others(
    rounds: int, earlier: int
) -> None:
    where = surroundings("12 % steal", clear=[number < 2 for number in range(rounds)])
    plan = replace(PLAN, rounds=rounds)
    found = look(plan, counted, where, host=True, choose=True, earlier=earlier)
    assert found.values == found.clear == [0.0, 1.0]
    assert not found.seen.disturbance


def test_slow_cores_are_evidence_without_a_culprit() -> None:
    where = surroundings(clear=[False] * PLAN.rounds, slowdown=1.5)
    seen = look(PLAN, counted, where, host=True, choose=True).seen
    assert seen.disturbance == (HOST_SLOWER,)
    assert "1.50" in seen.evidence[-1]


@pytest.mark.parametrize("host", [True, False])
def test_without_choice_the_watch_gives_disturbances(host: bool) -> None:
    found = look(PLAN, counted, surroundings("load"), host=host, choose=False)
    assert found.values == counted(PLAN, None)
    assert found.clear is None
    # A device's own clock does not see what others do to the host.
    assert found.seen.disturbance == (("load",) if host else ())


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("deadline", [None, 3.5, 0.5])
def test_close_call_gets_looks_while_time_allows(deadline: float | None) -> None:
    looks = closer(measure, surroundings(), deadline=deadline)
    assert looks[0].values == CLOSE
    if deadline is None:
        assert len(looks) > 5
    elif deadline == 3.5:
        assert 1 < len(looks) < 5
        assert time.monotonic() < deadline
    else:
        assert len(looks) == 1


@pytest.mark.usefixtures("clock")
def test_look_at_a_loss_follows_a_pause() -> None:
    began: list[float] = []

    def take(plan: RoundPlan, moments: MonitoredRounds | None) -> list[float]:
        began.append(time.monotonic())
        return [100.0] * plan.rounds

    closer(take, surroundings())
    assert len(began) > 2
    assert began == pytest.approx([LOOK_PAUSE * number for number in range(1, len(began) + 1)])


@pytest.mark.usefixtures("clock")
def test_look_at_a_pass_needs_no_pause() -> None:
    closer(lambda *_: [102.0, 103.0], surroundings(), first=[102.0, 103.0, 104.0] * 3)
    assert time.monotonic() == 0.0


@pytest.mark.usefixtures("clock")
def test_empty_looks_end_the_looking() -> None:
    (first,) = closer(measure, surroundings(clear=[False, False]), choose=True)
    assert first.values == CLOSE
    assert first.seen.disturbance == (NO_CLEAR_MOMENT,)
    assert time.monotonic() == pytest.approx(MAX_EMPTY_LOOKS * (LOOK_PAUSE + 0.2))


class Clouding(Around):
    """Only the first look is clear."""

    def rounds(self, name: str = "") -> MonitoredRounds:
        chosen, self._clear = self._clear, [False, False]
        return cast(MonitoredRounds, Chosen(chosen, 1.0))


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("last", [False, True])
def test_a_close_call_without_clear_moments_waits_for_another_visit(last: bool) -> None:
    taken = take_all(
        CRITERION.metric,
        CRITERION,
        PLAN,
        lambda plan, _: ([99.0, 103.0, 104.0, 99.0, 102.0] * 2)[: plan.rounds],
        cast(ConditionsWatch, Clouding(clear=[True] * PLAN.rounds)),
        TimeLimit(None),
        host=True,
        choose=True,
        before=VisitResults(),
        visit=Visit(last=last),
    )
    assert taken.put_off != last
    assert taken.looks[-1].seen.disturbance == (NO_CLEAR_MOMENT,)
    assert len(taken.visited.values) == PLAN.rounds


@pytest.mark.usefixtures("clock")
def test_metrics_share_the_look_budget() -> None:
    where = surroundings()
    for _ in range(int(SURE_LOOKS)):  # what is kept for sure losses is spent
        where.looks.take(sure=True)
    confirmed, cut = closer(measure, where), closer(measure, where)
    assert len(confirmed) == CONFIRMING_LOOKS
    assert not confirmed[-1].seen.disturbance
    assert 1 < len(cut) < len(confirmed)
    assert cut[-1].seen.disturbance == (LOOKS_SPENT,)
    values = [value for one in cut for value in one.values]
    for spent, outcome in (((), Outcome.PASS), ((LOOKS_SPENT,), Outcome.INCONCLUSIVE)):
        verdict = judge_sample(values, CRITERION, looks=len(cut), disturbance=spent)
        assert verdict.outcome is outcome
    assert verdict.text.endswith(f"but {LOOKS_SPENT}: measure again")


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize(("metrics", "confirmed"), [(1, 1), (4, 4), (9, 4)])
def test_noise_leaves_a_sure_loss_its_looks(metrics: int, confirmed: int) -> None:
    where = surroundings()
    while where.looks.take():  # an earlier benchmark's noise had them all
        pass
    criterion = replace(CRITERION, learned=0.8, unconfirmed=0.6)
    beyond = [69.0, 70.0, 71.0]  # the limit, and not twice as far
    ends = []
    for _ in range(metrics):
        taken = closer(lambda *_: beyond, where, first=beyond * 3, criterion=criterion)
        values = [value for one in taken for value in one.values]
        spent = taken[-1].seen.disturbance
        verdict = judge_sample(values, criterion, looks=len(taken), disturbance=spent)
        ends.append((len(taken), verdict.outcome))
    assert ends.count((CONFIRMING_LOOKS, Outcome.FAIL)) == confirmed
    rest = [outcome for looks, outcome in ends if looks < CONFIRMING_LOOKS]
    assert rest == [Outcome.INCONCLUSIVE] * (metrics - confirmed)


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize(("spent", "looks"), [(0, MAX_LOOKS), (3, MAX_LOOKS - 3)])
def test_single_metric_gets_all_looks(spent: int, looks: int) -> None:
    where = surroundings()
    where.looks.measured()  # the share of this metric comes on top
    for _ in range(spent + 1):
        where.looks.take()
    taken = closer(lambda *_: [80.0, 120.0], where, first=[80.0, 120.0] * 5)
    assert len(taken) == looks
    assert not taken[-1].seen.disturbance
