"""A pytest plugin that makes one component slower: `first_run` loads it.

Of `measure`, work is followed by a busy wait, so that a rate loses the share; of `collect`, what is returned
is made worse by it. In spells this holds for a third of the time.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterable
from typing import Any

from pytest_anubis.session.measuring.recorder import Recorder

COMPONENT = "ANUBIS_BENCHMARK_SLOW_COMPONENT"
SHARE = "ANUBIS_BENCHMARK_SLOW_SHARE"
SPELLS = "ANUBIS_BENCHMARK_SLOW_SPELLS"
"""Variables: the component of the mark, the share of its rate that is lost, and 1 where it is in spells."""

PERIOD, SPELL = 0.3, 0.1
"""Seconds from the begin of one spell to that of the next, and of a spell."""

SHORT, BLOCK = 50e-6, 200e-6
"""Seconds of a call below which not every one is followed by a wait, but so many as take about `BLOCK`:
two readings of the clock are a twentieth of a dispatch."""

MOST = 3.0
"""So many times as long as it should take, a block counts at most: between two rounds lies other work."""

Work = Callable[[], Any]


class Slowness:
    """How long work takes that is slower by a share, always or in spells.

    Args:
        share: Of its rate that is lost while it is slow.
        spells: It is slow for a `SPELL` of each `PERIOD` only.
    """

    def __init__(self, share: float, *, spells: bool = False) -> None:
        self._speed = 1 - share
        self._spells = spells

    def seconds(self, begin: float, took: float) -> float:
        """Return how long work takes that would have taken `took` seconds.

        Args:
            begin: When it begins, on any clock that the spells are to follow.
            took: Its seconds without a loss.
        """
        if not self._spells:
            return took / self._speed
        slow = SPELL * self._speed  # what is done within one spell, in seconds of whole speed
        whole, into = divmod(begin, PERIOD)
        done = into * self._speed if into < SPELL else slow + into - SPELL
        more, rest = divmod(done + took, slow + PERIOD - SPELL)
        last = rest / self._speed if rest < slow else SPELL + rest - slow
        return (whole + more) * PERIOD + last - begin

    def worse(self, value: float, better: str | None, begin: float, took: float) -> float:
        """Return what would have been measured in that time; exact results are right however slow."""
        kept = took / self.seconds(begin, took) if took > 0 else 1.0
        return {"higher": value * kept, "lower": value / kept}.get(better or "", value)


def slowed(fn: Work, slowness: Slowness) -> Work:
    """Return work that does the same and is slower."""
    own = min(_timed(fn) for _ in range(3))
    return _in_blocks(fn, slowness, own) if own < SHORT else _call_by_call(fn, slowness)


def _timed(fn: Work) -> float:
    begin = time.perf_counter()
    fn()
    return time.perf_counter() - begin


def _wait(until: float) -> None:
    while time.perf_counter() < until:
        pass


def _call_by_call(fn: Work, slowness: Slowness) -> Work:
    def call() -> Any:
        begin = time.perf_counter()
        result = fn()
        _wait(begin + slowness.seconds(begin, time.perf_counter() - begin))
        return result

    return call


def _in_blocks(fn: Work, slowness: Slowness, own: float) -> Work:
    count = math.ceil(BLOCK / max(own, 1e-9))
    expected, cost = count * own, count * _cost()
    left, begin = count, time.perf_counter()

    def call() -> Any:
        nonlocal left, begin
        result = fn()
        left -= 1
        if not left:
            now = time.perf_counter()
            took = max(0.0, min(now - begin, MOST * expected) - cost)
            _wait(now + slowness.seconds(begin, took) - took - cost)
            left, begin = count, time.perf_counter()
        return result

    return call


def _cost(calls: int = 10_000) -> float:
    """Return the seconds that standing between adds to a call."""

    def nothing() -> None:
        pass

    left = calls + 1

    def call() -> Any:
        nonlocal left
        result = nothing()  # type: ignore[func-returns-value]  # as the call that it stands for
        left -= 1
        if not left:
            left = calls
        return result

    def each(fn: Work) -> float:
        begin = time.perf_counter()
        for _ in range(calls):
            fn()
        return (time.perf_counter() - begin) / calls

    return max(0.0, min(each(call) for _ in range(5)) - min(each(nothing) for _ in range(5)))


def pytest_configure() -> None:
    """Stand between the tests of the component and what measures them."""
    Recorder.measure = _slow_measure  # type: ignore[method-assign]
    Recorder.collect = _slow_collect  # type: ignore[method-assign]


_measure, _collect = Recorder.measure, Recorder.collect


def _told(recorder: Recorder) -> Slowness | None:
    """Return how slow what this test measures is; None where it is another component's."""
    if recorder._mark.component != os.environ.get(COMPONENT):
        return None
    return Slowness(float(os.environ[SHARE]), spells=os.environ.get(SPELLS) == "1")


def _slow_measure(self: Recorder, name: str, fn: Work, **more: Any) -> tuple[float, ...]:
    slowness = _told(self)
    return _measure(self, name, slowed(fn, slowness) if slowness else fn, **more)


def _slow_collect(
    self: Recorder, name: str, fn: Callable[[], float | Iterable[float]], **more: Any
) -> tuple[float, ...]:
    slowness = _told(self)
    if slowness is None:
        return _collect(self, name, fn, **more)

    def worse() -> float | list[float]:
        begin = time.perf_counter()
        found = fn()
        took, better = time.perf_counter() - begin, more.get("better")
        if isinstance(found, int | float):
            return slowness.worse(found, better, begin, took)
        return [slowness.worse(float(value), better, begin, took) for value in found]

    return _collect(self, name, worse, **more)
