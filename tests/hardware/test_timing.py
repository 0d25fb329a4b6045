"""Test timing: warm-up until steady, every round kept, values in the requested unit."""

from __future__ import annotations

import gc
import itertools
import time
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_anubis.hardware import timing
from pytest_anubis.hardware.load.clear_moments import MonitoredRounds
from pytest_anubis.hardware.round_plans import (
    PLANS,
    PROFILE_FACTOR,
    SETTLE,
    RoundPlan,
    lengths_version,
)
from pytest_anubis.hardware.timing import (
    MAX_CALLS,
    MAX_EXTENSION,
    MIN_CLEAR,
    BusyClock,
    HostClock,
    in_unit,
    repeats,
    rounds,
    warm_up,
)

PLAN = RoundPlan(rounds=12, round_seconds=0.02, warmup_seconds=0.2, budget_seconds=1e9)


class FakeClock:
    """A device whose n-th call takes a given time; wall time does not matter."""

    def __init__(self, seconds: Callable[[int], float]) -> None:
        self.seconds = seconds
        self.done = 0
        self.asked: list[int] = []

    def __call__(self, fn: Callable[[], object], calls: int) -> float:
        self.asked.append(calls)
        taken = sum(self.seconds(self.done + i) for i in range(min(calls, 100)))
        taken *= max(1, calls / 100)
        self.done += calls
        return taken


def nothing() -> None:
    pass


@given(st.floats(1e-5, 1.0))
def test_a_round_is_as_long_as_planned(per_call: float) -> None:
    calls = warm_up(nothing, FakeClock(lambda _: per_call), PLAN)
    assert calls == max(1, round(PLAN.round_seconds / per_call))


def test_calls_of_an_instant_callable_are_bounded() -> None:
    assert warm_up(nothing, FakeClock(lambda _: 1e-12), PLAN) == MAX_CALLS


def test_warm_up_goes_on_while_the_device_gets_faster() -> None:
    cold = FakeClock(lambda n: 0.02 * (1 + 9 * 0.8**n))
    steady = FakeClock(lambda _: 0.02)
    warm_up(nothing, cold, PLAN)
    warm_up(nothing, steady, PLAN)
    assert cold.done > steady.done
    assert cold.seconds(cold.done) < 1.1 * 0.02


def test_one_slow_batch_does_not_prolong_the_warm_up() -> None:
    steady = FakeClock(lambda _: 0.02)
    spiked = FakeClock(lambda n: 0.2 if n == 4 else 0.02)
    warm_up(nothing, steady, PLAN)
    warm_up(nothing, spiked, PLAN)
    assert spiked.done == steady.done


SETTLING = replace(PLAN, warmup_seconds=1e9, settle_seconds=2.0)


def test_warm_up_goes_on_while_the_device_gets_slower() -> None:
    # 7 % over some seconds, as a card that reaches its power limit: each batch is like the one before.
    throttling = FakeClock(lambda n: 0.02 * (1.07 - 0.07 * 0.99**n))
    steady = FakeClock(lambda _: 0.02)
    warm_up(nothing, throttling, SETTLING)
    warm_up(nothing, steady, SETTLING)
    assert steady.done * 0.02 == pytest.approx(2.0, rel=0.1)
    assert throttling.done > steady.done
    assert throttling.seconds(throttling.done) > 0.97 * 1.07 * 0.02


@pytest.mark.parametrize("begin", [(1980.0, 500.0), (1500.0, 700.0)], ids=["clock", "power"])
def test_warm_up_goes_on_while_clock_or_power_move(begin: tuple[float, float]) -> None:
    end = (1500.0, 500.0)
    readings: list[tuple[float, ...]] = []

    def probe() -> tuple[float, ...]:
        left = 0.9 ** len(readings)
        readings.append(tuple(a * left + b * (1 - left) for a, b in zip(begin, end, strict=True)))
        return readings[-1]

    clock = FakeClock(lambda _: 0.02)
    warm_up(nothing, clock, SETTLING, probe)
    assert clock.done * 0.02 > 2.5
    assert readings[-1] == pytest.approx(end, rel=0.05)


def test_probe_that_knows_nothing_is_not_waited_for() -> None:
    silent, without = FakeClock(lambda _: 0.02), FakeClock(lambda _: 0.02)
    warm_up(nothing, silent, SETTLING, lambda: None)
    warm_up(nothing, without, SETTLING)
    assert silent.done == without.done


def test_rested_device_is_woken_first() -> None:
    clock = FakeClock(lambda n: 0.04 if n < 20 else 0.02)
    values = rounds(nothing, clock, replace(PLAN, wake_seconds=0.8), 1)
    assert values == [0.02] * PLAN.rounds


def test_accelerator_plan_settles_without_rests() -> None:
    for profile, plan in PLANS.items():
        card = plan.on_accelerator(profile)
        assert (card.bursts, card.rest_seconds) == (1, 0.0)
        assert card.warmup_seconds > card.settle_seconds > 0 < card.wake_seconds
    assert SETTLE["standard"].min_seconds >= 3


def test_length_of_a_profile_is_what_its_plans_take() -> None:
    def least(profile: str, kind: str) -> float:
        plan = PLANS[profile]
        if kind != "cpu":
            plan = plan.on_accelerator(profile)
            return plan.settle_seconds + plan.wake_seconds + plan.rounds * plan.round_seconds
        return plan.warmup_seconds / 2 + plan.rounds * plan.round_seconds

    for kind, factors in PROFILE_FACTOR.items():
        ratio = least("standard", kind) / least("smoke", kind)
        assert 0.75 < ratio / factors["standard"] < 1.33


LENGTHS = {
    ("cpu", "smoke"): (1, (16, 0.02, 1.0, 0.3, 0.0, 0.0)),
    ("cpu", "standard"): (1, (200, 0.02, 30.0, 5.0, 0.0, 0.0)),
    ("cpu", "soak"): (1, (6000, 0.02, 3600.0, 30.0, 0.0, 0.0)),
    ("cuda", "smoke"): (1, (30, 0.02, 2.0, 4.0, 1.0, 0.3)),
    ("cuda", "standard"): (2, (60, 0.1, 8.0, 8.0, 3.0, 0.5)),
    ("cuda", "soak"): (1, (600, 1.0, 3600.0, 60.0, 10.0, 1.0)),
}
"""Version, and rounds, their length, budget, maximum warm-up, settling and waking load."""


@pytest.mark.parametrize(("kind", "profile"), list(LENGTHS))
def test_other_lengths_are_another_version(kind: str, profile: str) -> None:
    # A changed length needs a new version, or it is silently compared with old baselines.
    plan = PLANS[profile] if kind == "cpu" else PLANS[profile].on_accelerator(profile)
    lengths = (plan.rounds, plan.round_seconds, plan.budget_seconds, plan.warmup_seconds)
    known = (*lengths, plan.settle_seconds, plan.wake_seconds)
    assert (lengths_version(profile, kind), known) == LENGTHS[kind, profile]


def test_short_load_ends_before_the_device_settles() -> None:
    plan = PLANS["standard"].on_accelerator("standard").short_load()
    clock = FakeClock(lambda _: 0.001)
    calls = warm_up(nothing, clock, plan)
    assert calls == 20
    assert clock.done <= 3 * calls
    assert plan.rounds * plan.round_seconds / plan.bursts < 0.1 < plan.rest_seconds


def test_busy_clock_adds_up_what_the_device_was_given() -> None:
    clock = BusyClock(HostClock(nothing))
    clock(lambda: time.sleep(0.01), 3)
    once = clock.seconds
    clock(lambda: time.sleep(0.01), 3)
    assert once >= 0.03
    assert clock.seconds >= once + 0.03


def test_every_round_is_kept_in_order_outliers_too() -> None:
    clock = FakeClock(lambda n: 5.0 if n == 3 else 0.01)
    values = rounds(nothing, clock, PLAN, 1)
    assert len(values) == PLAN.rounds
    assert values[3] == 5.0
    assert clock.asked == [1] * PLAN.rounds


def test_twice_the_work_takes_twice_the_time() -> None:
    once = rounds(nothing, FakeClock(lambda _: 0.01), PLAN, 2)
    twice = rounds(nothing, FakeClock(lambda _: 0.02), PLAN, 2)
    assert [b / a for a, b in zip(once, twice, strict=True)] == pytest.approx([2.0] * 12)


def test_budget_ends_rounds_after_the_minimum() -> None:
    plan = RoundPlan(
        rounds=1000, round_seconds=0.01, warmup_seconds=0, budget_seconds=0.0, min_rounds=5
    )
    assert len(rounds(nothing, HostClock(nothing), plan, 1)) == 5


def test_the_clock_waits_for_the_device() -> None:
    order: list[str] = []
    clock = HostClock(lambda: order.append("wait"))
    clock(lambda: order.append("call"), 3)
    assert order == ["wait", "call", "call", "call", "wait"]


@pytest.mark.parametrize("enabled", [True, False])
def test_garbage_collection_is_put_back_as_it_was(enabled: bool) -> None:
    was = gc.isenabled()
    (gc.enable if enabled else gc.disable)()
    try:
        rounds(lambda: None, FakeClock(lambda _: 0.01), PLAN, 1)
        assert gc.isenabled() is enabled
    finally:
        (gc.enable if was else gc.disable)()


def test_repeats_collects_what_rounds_return() -> None:
    numbers = iter(range(1000))
    values = repeats(lambda: [float(next(numbers)), float(next(numbers))], PLAN)
    assert values == [float(i) for i in range(len(values))]
    assert len(values) >= PLAN.min_rounds


def test_repeats_ends_when_nothing_comes() -> None:
    assert repeats(list, PLAN) == []


class Chosen:
    """Rounds of which every n-th is clear."""

    def __init__(self, every: int) -> None:
        self._every, self._count = every, 0

    def take(self, take: Callable[[], list[float]]) -> list[float]:
        found = take()
        self._count += len(found)
        return found

    def enough(self, wanted: int) -> bool:
        return -(-self._count // self._every) >= wanted

    def some_of(self, wanted: int) -> bool:
        return 0 < self._count // self._every < wanted


@pytest.mark.parametrize("every", [1, 3])
def test_rounds_continue_until_enough_are_clear(every: int) -> None:
    moments = cast(MonitoredRounds, Chosen(every))
    values = rounds(nothing, FakeClock(lambda n: float(n)), PLAN, 1, moments)
    assert values == [float(n) for n in range((PLAN.rounds - 1) * every + 1)]


def test_the_budget_ends_rounds_of_which_none_is_clear() -> None:
    plan = replace(PLAN, budget_seconds=0.0)
    assert (
        len(repeats(lambda: [1.0], plan, cast(MonitoredRounds, Chosen(10**9)))) == plan.min_rounds
    )


def test_few_clear_rounds_double_the_budget(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ticks = itertools.count()
    monkeypatch.setattr(timing, "time", SimpleNamespace(perf_counter=lambda: float(next(ticks))))
    plan = replace(PLAN, rounds=MIN_CLEAR, min_rounds=1, budget_seconds=8.0)  # ticks of a second
    taken = [
        len(repeats(lambda: [1.0], plan, cast(MonitoredRounds, Chosen(n)))) for n in (1, 4, 10**9)
    ]
    assert taken == [MIN_CLEAR, 7 + int(MAX_EXTENSION), 7]


def test_bursts_are_equal_and_begin_with_a_wake() -> None:
    order = ""

    def take() -> list[float]:
        nonlocal order
        order += "t"
        return [1.0]

    def wake() -> None:
        nonlocal order
        order += "w"

    plan = replace(PLAN, rounds=6, bursts=3, rest_seconds=0.001)
    assert len(repeats(take, plan, wake=wake)) == 6
    assert order == "ttwttwtt"


@pytest.mark.parametrize(
    ("unit", "work", "expected"),
    [
        ("s", None, 0.5),
        ("ms", None, 500.0),
        ("us", None, 5e5),
        ("ns", None, 5e8),
        ("GB/s", 1e9, 2.0),
        ("MiB/s", 2**20, 2.0),
        ("TFLOP/s", 1e12, 2.0),
        ("samples/s", 32, 64.0),
        ("kop/s", 1000, 2.0),
    ],
)
def test_values_come_in_the_unit(unit: str, work: float | None, expected: float) -> None:
    assert in_unit(0.5, unit, work) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("unit", "work", "words"),
    [
        ("GB/s", None, "give work="),
        ("ms", 5, "not a rate"),
        ("QFLOP/s", 5, "not a rate"),
        ("", None, "time"),
    ],
)
def test_wrong_units_say_what_to_write(unit: str, work: float | None, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        in_unit(1.0, unit, work)
