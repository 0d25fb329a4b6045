"""A component that is made slower loses its share, always or for a third of the time."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from benchmarks.sessions import slow_component
from benchmarks.sessions.slow_component import PERIOD, SPELL, Slowness


class Clock:
    """A clock that goes on by itself only when it is read."""

    def __init__(self) -> None:
        self.now, self.tick = 0.0, 1e-8

    def perf_counter(self) -> float:
        self.now += self.tick
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(slow_component, "time", SimpleNamespace(perf_counter=made.perf_counter))
    monkeypatch.setattr(slow_component, "_cost", lambda: 0.0)
    return made


@pytest.mark.parametrize("own", [3e-6, 1e-3, 0.02])
@pytest.mark.parametrize("share", [0.1, 0.4])
def test_rate_loses_the_share_however_short_a_call_is(
    clock: Clock, own: float, share: float
) -> None:
    clock.tick = own / 1000

    def fn() -> str:
        clock.now += own
        return "done"

    call = slow_component.slowed(fn, Slowness(share))
    calls = 670  # ten blocks of short ones
    begin = clock.now
    assert {call() for _ in range(calls)} == {"done"}
    assert calls * own / (clock.now - begin) == pytest.approx(1 - share, rel=0.01)


def test_what_lies_between_two_rounds_is_not_slower(clock: Clock) -> None:
    def fn() -> None:
        clock.now += 3e-6

    call = slow_component.slowed(fn, Slowness(0.4))
    call()
    clock.now += 0.01
    begin = clock.now
    for _ in range(1000):
        call()
    assert clock.now - begin == pytest.approx(1000 * 3e-6 / 0.6, rel=0.2)


def test_spells_take_their_part_of_every_period() -> None:
    slowness = Slowness(0.4, spells=True)
    whole = PERIOD - 0.4 * SPELL  # done in a period, seconds at whole speed
    for begin in (0.0, 0.07, 0.1, 0.25, 7.0):
        assert slowness.seconds(begin, 3 * whole) == pytest.approx(3 * PERIOD)
    assert slowness.seconds(0.0, 0.03) == pytest.approx(0.05)  # within a spell
    assert slowness.seconds(0.15, 0.1) == pytest.approx(0.1)  # between two
    assert slowness.seconds(0.25, 0.08) == pytest.approx(0.05 + 0.03 / 0.6)  # into the next


def test_values_are_worse_in_their_direction_and_exact_ones_stay() -> None:
    slowness = Slowness(0.2)
    assert slowness.worse(10.0, "higher", 0.0, 1.0) == pytest.approx(8.0)
    assert slowness.worse(10.0, "lower", 0.0, 1.0) == pytest.approx(12.5)
    assert slowness.worse(10.0, "equal", 0.0, 1.0) == 10.0
