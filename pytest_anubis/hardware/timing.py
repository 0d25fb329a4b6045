"""Timing a callable on any device: warm-up until steady, then rounds of a comparable length.

A round is ``calls`` back-to-back calls between two readings of one clock, and its value is the time of
one call. Rounds are made long enough (tens of milliseconds) that the clock's resolution, the cost of
synchronising and a single interrupt are small against them, and short enough that many fit into a
second: the spread between rounds is what the judge works with. No round is ever dropped.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol

Work = Callable[[], object]


class Clock(Protocol):
    """Measures how long a number of calls take."""

    def __call__(self, fn: Work, calls: int) -> float:
        """Return the seconds that `calls` calls of `fn` took, all of their device work included."""
        ...


class HostClock:
    """Wall clock of the host, with the device synchronised before the first and after the last call.

    Args:
        synchronize: Waits for everything queued on the device; does nothing on a CPU.
    """

    def __init__(self, synchronize: Callable[[], None]) -> None:
        self._synchronize = synchronize

    def __call__(self, fn: Work, calls: int) -> float:
        """Return wall seconds of `calls` calls."""
        self._synchronize()
        begin = time.perf_counter()
        for _ in range(calls):
            fn()
        self._synchronize()
        return time.perf_counter() - begin


class EventClock:
    """Clock of the accelerator: events on its stream, free of the host's synchronisation cost.

    Args:
        device: A ``torch.device`` of an accelerator.
    """

    def __init__(self, device: Any) -> None:
        import torch

        torch.accelerator.set_device_index(device)
        self._begin = torch.Event(device, enable_timing=True)
        self._end = torch.Event(device, enable_timing=True)

    def __call__(self, fn: Work, calls: int) -> float:
        """Return the device's seconds between the first call's start and the last call's end."""
        self._begin.record()
        for _ in range(calls):
            fn()
        self._end.record()
        self._end.synchronize()
        return float(self._begin.elapsed_time(self._end)) / 1e3


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundPlan:
    """How long and how often to measure.

    Attributes:
        rounds: Values wanted.
        round_seconds: Aimed length of one round.
        warmup_seconds: Longest warm-up.
        budget_seconds: No further round begins after this, once `least` are there; pauses not counted.
        least: Fewest rounds, whatever they take.
        bursts: Into how many bursts the rounds are split. What slows a shared host (neighbours, clocks)
            lasts a second or so, and rounds in one burst all see the same of it.
        pause_seconds: Pause between two bursts.
    """

    rounds: int
    round_seconds: float
    warmup_seconds: float
    budget_seconds: float
    least: int = 5
    bursts: int = 1
    pause_seconds: float = 0.0

    def look(self) -> RoundPlan:
        """Return the plan of one burst more, for looking again at a close call."""
        return replace(
            self,
            rounds=max(1, self.rounds // BURSTS),
            least=max(1, self.least // BURSTS),
            budget_seconds=self.budget_seconds / BURSTS,
            bursts=1,
        )


BURSTS = 5
"""Bursts of one measurement on a host, and how many of its rounds make one further look."""

PLANS: dict[str, RoundPlan] = {
    "smoke": RoundPlan(
        rounds=30,
        round_seconds=0.02,
        warmup_seconds=0.5,
        budget_seconds=2.0,
        bursts=BURSTS,
        pause_seconds=0.3,
    ),
    "standard": RoundPlan(
        rounds=60,
        round_seconds=0.2,
        warmup_seconds=5.0,
        budget_seconds=30.0,
        bursts=BURSTS,
        pause_seconds=1.0,
    ),
    "soak": RoundPlan(rounds=600, round_seconds=1.0, warmup_seconds=30.0, budget_seconds=3600.0),
}

STEADY = 0.02
"""Two successive halves of the warm-up may differ by this share to count as steady."""

MAX_CALLS = 1_000_000


def warm_up(fn: Work, clock: Clock, plan: RoundPlan) -> int:
    """Run `fn` until its time is steady and return how many calls make one round.

    Steady means that the fastest of the newest three batches is within `STEADY` of the fastest of the
    three before: caches, lazy initialisation and rising clocks show as the newest being faster, and a
    single slow batch (an interrupt) does not prolong the warm-up.
    """
    calls = 1
    batches: list[float] = []
    begin = time.perf_counter()
    fn()  # the first call pays for lazy initialisation; it never says how many calls make a round
    while True:
        took = clock(fn, calls)
        if took < plan.round_seconds / 2 and calls < MAX_CALLS:
            grow = plan.round_seconds / max(took, plan.round_seconds / 10)
            calls = min(MAX_CALLS, max(calls + 1, int(calls * grow)))
            batches.clear()
        else:
            batches.append(took / calls)
        spent = time.perf_counter() - begin
        if spent >= plan.warmup_seconds and batches:
            break
        if len(batches) >= 6 and min(batches[-3:]) >= (1 - STEADY) * min(batches[-6:-3]):
            break
        if spent >= 4 * plan.warmup_seconds:
            break
    per_call = batches[-1] if batches else took / calls
    return max(1, min(MAX_CALLS, round(plan.round_seconds / max(per_call, 1e-9))))


def rounds(fn: Work, clock: Clock, plan: RoundPlan, calls: int) -> list[float]:
    """Return the time of one call in seconds, one value a round, in time order."""

    def take() -> list[float]:
        return [clock(fn, calls) / calls]

    with _no_collection():
        return _in_bursts(take, plan, plan.rounds, lambda: clock(fn, calls))


def repeats(take: Callable[[], list[float]], plan: RoundPlan) -> list[float]:
    """Return the values of a callable that measures by itself, called until the plan is met.

    Args:
        take: Returns the value or values of one round.
        plan: Rounds and budget; a third of the rounds is enough, as such rounds are whole transfers
            or runs of a tool rather than a few milliseconds.
    """
    return _in_bursts(take, plan, max(plan.least, plan.rounds // 3))


def _in_bursts(
    take: Callable[[], list[float]],
    plan: RoundPlan,
    wanted: int,
    wake: Callable[[], object] = lambda: None,
) -> list[float]:
    """Take values burst by burst until there are enough or the time is spent.

    Args:
        take: Returns the value or values of one round.
        plan: Bursts, pauses and budget.
        wanted: Values wanted.
        wake: One round after each pause that is no part of the measurement: it brings caches and
            clocks back to where work without a pause had them.
    """
    values: list[float] = []
    left = plan.budget_seconds
    for burst in range(1, plan.bursts + 1):
        enough = -(-wanted * burst // plan.bursts)
        if values and len(values) < enough:
            time.sleep(plan.pause_seconds)
            wake()
        end = time.perf_counter() + left / (plan.bursts + 1 - burst)
        begin = time.perf_counter()
        while len(values) < enough and (
            time.perf_counter() < end or len(values) < -(-plan.least * burst // plan.bursts)
        ):
            fresh = take()
            if not fresh:
                return values
            values.extend(fresh)
        left -= time.perf_counter() - begin
    return values


@contextmanager
def _no_collection() -> Iterator[None]:
    """Keep Python's garbage collector out of the rounds."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


_TIME_UNITS = {"s": 1.0, "ms": 1e3, "us": 1e6, "µs": 1e6, "ns": 1e9}
_PREFIXES = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}
_BASES = ("FLOP/s", "OP/s", "op/s", "B/s", "bit/s", "samples/s", "tokens/s", "IOPS", "steps/s")


def in_unit(seconds_per_call: float, unit: str, work: float | None) -> float:
    """Turn the time of one call into a value in `unit`.

    Args:
        seconds_per_call: Time of one call in seconds.
        unit: A time (``s``, ``ms``, ``us``, ``ns``), or with `work` a rate such as ``TFLOP/s``,
            ``GB/s``, ``MiB/s``, ``samples/s``, ``op/s``.
        work: What one call does, in the rate's base unit (FLOP, bytes, samples); None for a time.

    Raises:
        ValueError: The unit is not of that kind.
    """
    if work is None:
        if unit not in _TIME_UNITS:
            raise ValueError(
                f"unit {unit!r} is not a time; use {', '.join(_TIME_UNITS)}, or give work= for a rate"
            )
        return seconds_per_call * _TIME_UNITS[unit]
    for base in _BASES:
        if unit.endswith(base):
            prefix = unit[: -len(base)]
            scale = _PREFIXES.get(prefix) or _BINARY.get(prefix)
            if scale is not None:
                return work / seconds_per_call / scale
    raise ValueError(
        f"unit {unit!r} is not a rate; use one of {', '.join(_BASES)} with a prefix such as G or T"
    )
