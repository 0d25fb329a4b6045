"""Timing a callable on any device: warm-up until steady, then rounds of a comparable length.

A round is ``calls`` back-to-back calls between two readings of one clock, and its value is the time of
one call. Rounds are made long enough (tens of milliseconds) that the clock's resolution, the cost of
synchronising and a single interrupt are small against them, and short enough that many fit into a
second: the spread between rounds is what the judge works with. No round is ever dropped.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any, Protocol

from pytest_anubis.hardware.round_plans import RoundPlan

if TYPE_CHECKING:
    from pytest_anubis.hardware.load.clear_moments import Rounds

Work = Callable[[], object]
Probe = Callable[[], tuple[float, ...] | None]
"""Reads what has to be steady besides the rate, such as clock and power; None where it cannot be read."""


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


class BusyClock:
    """Another clock that also adds up for how long the device was given work, by the wall.

    Attributes:
        seconds: Wall time of all calls so far.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.seconds = 0.0

    def __call__(self, fn: Work, calls: int) -> float:
        """Return what the other clock says of `calls` calls."""
        begin = time.perf_counter()
        try:
            return self._clock(fn, calls)
        finally:
            self.seconds += time.perf_counter() - begin


STEADY = 0.02
"""Two successive spans of the warm-up may differ by this share to count as steady: in rate, clock, power."""

BATCHES = 3
"""Fewest batches in a span: the quickest of three is hit by no single interrupt."""

PROBE_SECONDS = 0.1
"""Load between two readings of the probe: about as long as NVML takes to update power."""

MAX_CALLS = 1_000_000

FEW, PATIENCE = 10, 5.0
"""Where some rounds were clear, but fewer than so many, rounds go on for as long again, so many seconds at
most: that takes less time than another visit, which begins with the set-up of the test."""


def warm_up(fn: Work, clock: Clock, plan: RoundPlan, probe: Probe | None = None) -> int:
    """Run `fn` until its time is steady and return how many calls make one round.

    Steady means that the newest span of batches and the one before it are alike within `STEADY`, the
    quickest batch of each (a single slow one, an interrupt, prolongs nothing) and what the probe reads on
    average. Whoever still gets faster (caches, lazy initialisation, rising clocks) or slower (heat, the
    limit of the power) is not steady.
    """
    calls = 1
    batches: list[_Batch] = []
    begin = time.perf_counter()
    fn()  # the first call pays for lazy initialisation; it never says how many calls make a round
    loaded = read_at = 0.0
    reading: tuple[float, ...] | None = None
    while True:
        took = clock(fn, calls)
        loaded += took
        if probe is not None and loaded - read_at >= PROBE_SECONDS:
            read_at, reading = loaded, probe()
        if took < plan.round_seconds / 2 and calls < MAX_CALLS:
            grow = plan.round_seconds / max(took, plan.round_seconds / 10)
            calls = min(MAX_CALLS, max(calls + 1, int(calls * grow)))
            batches.clear()
        else:
            batches.append(_Batch(took, took / calls, reading))
        late = time.perf_counter() - begin >= plan.warmup_seconds
        if batches and (late or _steady(batches, plan.settle_seconds)):
            break
    per_call = max(batches[-1].per_call, 1e-9)
    return max(1, min(MAX_CALLS, round(plan.round_seconds / per_call)))


@dataclass(frozen=True, slots=True)
class _Batch:
    """Some calls of the warm-up: their seconds, those of one call, and what the probe last read."""

    seconds: float
    per_call: float
    reading: tuple[float, ...] | None = None


def _steady(batches: Sequence[_Batch], settle: float) -> bool:
    """Say whether the newest half of so many seconds of load is like the half before."""
    newest = _span(batches, settle / 2)
    before = _span(batches[: -len(newest)], settle / 2) if newest else ()
    if not before:
        return False
    pairs = [(min(b.per_call for b in before), min(b.per_call for b in newest))]
    readings = [[b.reading for b in span if b.reading is not None] for span in (before, newest)]
    if all(readings):
        averages = [[fmean(column) for column in zip(*found, strict=True)] for found in readings]
        pairs += zip(*averages, strict=True)
    return all(abs(old - new) <= STEADY * max(old, new) for old, new in pairs)


def _span(batches: Sequence[_Batch], seconds: float) -> Sequence[_Batch]:
    """Return the newest batches that are `BATCHES` at least and last so long; none if there are too few."""
    lasted = 0.0
    for count, batch in enumerate(reversed(batches), start=1):
        lasted += batch.seconds
        if count >= BATCHES and lasted >= seconds:
            return batches[-count:]
    return ()


def rounds(
    fn: Work, clock: Clock, plan: RoundPlan, calls: int, moments: Rounds | None = None
) -> list[float]:
    """Return the time of one call in seconds, one value a round, in time order.

    Args:
        fn: The work.
        clock: Measures it.
        plan: How long and how often.
        calls: Calls a round.
        moments: Reads the host's state around each round; None where the device has a clock of its own.
    """

    def take() -> list[float]:
        return [clock(fn, calls) / calls]

    awake = 0.0
    while awake < plan.wake_seconds:
        awake += max(clock(fn, calls), 1e-6)  # a clock that stands still must not keep us here
    with _no_collection():
        return repeats(take, plan, moments, wake=lambda: clock(fn, calls))


def repeats(
    take: Callable[[], list[float]],
    plan: RoundPlan,
    moments: Rounds | None = None,
    *,
    wake: Callable[[], object] = lambda: None,
) -> list[float]:
    """Take rounds until there are enough values, or with `moments` enough clear ones, or the time is over.

    Args:
        take: Returns the value or values of one round.
        plan: Values wanted, bursts and budget.
        moments: Reads the host's state around each round.
        wake: Work after a rest between two bursts that is no part of the measurement. It brings caches and
            clocks back to where they were.

    Returns:
        All values in time order, those that are not clear included.
    """
    __tracebackhide__ = True
    values: list[float] = []
    left = plan.budget_seconds
    for burst in range(1, plan.bursts + 1):
        wanted, least = (-(-n * burst // plan.bursts) for n in (plan.rounds, plan.least))
        if values and len(values) < wanted:
            time.sleep(plan.rest_seconds)
            wake()
        begin = time.perf_counter()
        budget = left / (plan.bursts + 1 - burst)
        while True:
            enough = len(values) >= wanted if moments is None else moments.enough(wanted)
            passed = time.perf_counter() - begin
            late = passed >= budget and not (
                passed < budget + min(budget, PATIENCE)
                and moments is not None
                and moments.some_of(FEW)
            )
            if enough or (late and len(values) >= least):
                break
            fresh = take() if moments is None else moments.take(take)
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
