"""Time a callable on any device: warm up until it is steady, then take rounds of comparable length.

A round is ``calls`` back-to-back calls between two readings of one clock; its value is the time of one call.
A round of tens of milliseconds is long compared with the clock's resolution, the cost of synchronising and a
single interrupt. It is also short enough for many rounds in a second, whose spread the Validator needs. No
round is ever dropped.

`given_values` and `recorder` use it.
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
    from pytest_anubis.hardware.load.clear_moments import MonitoredRounds

Work = Callable[[], object]
Probe = Callable[[], tuple[float, ...] | None]
"""Returns the readings that must be steady besides the rate, such as clock and power; None without
readings."""


class Clock(Protocol):
    """A clock that measures how long a number of calls takes."""

    def __call__(self, fn: Work, calls: int) -> float:
        """Return the seconds that `calls` calls of `fn` took, including all their work on the device."""
        ...


class HostClock:
    """The host's wall clock; the device is synchronised before the first call and after the last.

    Args:
        synchronize: Waits until all work queued on the device is done; does nothing on a CPU.
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
    """The accelerator's clock: events on its stream, which do not include the host's synchronisation cost.

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
    """A wrapper of a clock that also adds up the wall time of all calls.

    Attributes:
        seconds: Wall time of all calls so far.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.seconds = 0.0

    def __call__(self, fn: Work, calls: int) -> float:
        """Return the wrapped clock's seconds for `calls` calls."""
        begin = time.perf_counter()
        try:
            return self._clock(fn, calls)
        finally:
            self.seconds += time.perf_counter() - begin


STEADY = 0.02
"""Maximum relative difference in rate, clock and power between two successive steady spans of the warm-up."""

BATCHES = 3
"""Minimum number of batches in a span: one interrupt cannot slow the fastest of three."""

PROBE_SECONDS = 0.1
"""Seconds of load between two readings of the probe: about as long as NVML takes to update power."""

MAX_CALLS = 1_000_000

MIN_CLEAR = 10
"""If some rounds are clear, but fewer than this, the measurement continues beyond its budget."""

MAX_EXTENSION = 5.0
"""Maximum seconds beyond the budget; a shorter budget is at most doubled. This is cheaper than another run of
the test, which begins with its set-up."""


def warm_up(fn: Work, clock: Clock, plan: RoundPlan, probe: Probe | None = None) -> int:
    """Run `fn` until its time is steady and return how many calls make one round.

    `fn` is steady if the newest span of batches and the one before agree within `STEADY` in their fastest
    batches and in the averages of the probe's readings. An interrupt in a single batch therefore does not
    prolong the warm-up. A rate that still rises (caches, lazy initialisation, rising clocks) or falls (heat,
    the power limit) is not steady.
    """
    calls = 1
    batches: list[_Batch] = []
    begin = time.perf_counter()
    fn()  # the first call includes lazy initialisation, so it does not count for the number of calls
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
    """Some calls of the warm-up: seconds in all, seconds per call, and the probe's latest reading."""

    seconds: float
    per_call: float
    reading: tuple[float, ...] | None = None


def _steady(batches: Sequence[_Batch], settle: float) -> bool:
    """Return whether the newest half of the last `settle` seconds of load agrees with the half before."""
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
    """Return the newest `BATCHES` or more batches that last `seconds`; none if there are too few."""
    lasted = 0.0
    for count, batch in enumerate(reversed(batches), start=1):
        lasted += batch.seconds
        if count >= BATCHES and lasted >= seconds:
            return batches[-count:]
    return ()


def rounds(
    fn: Work, clock: Clock, plan: RoundPlan, calls: int, moments: MonitoredRounds | None = None
) -> list[float]:
    """Return the seconds of one call, one value per round, in time order.

    Args:
        fn: The work.
        clock: Measures the work.
        plan: Number and lengths of the rounds.
        calls: Calls per round.
        moments: Reads the host's state around each round; None for a device with its own clock.
    """

    def take() -> list[float]:
        return [clock(fn, calls) / calls]

    awake = 0.0
    while awake < plan.wake_seconds:
        awake += max(clock(fn, calls), 1e-6)  # a clock that stopped must not cause an endless loop
    with _no_collection():
        return repeats(take, plan, moments, wake=lambda: clock(fn, calls))


def repeats(
    take: Callable[[], list[float]],
    plan: RoundPlan,
    moments: MonitoredRounds | None = None,
    *,
    wake: Callable[[], object] = lambda: None,
) -> list[float]:
    """Take rounds until there are enough values (with `moments`, enough clear ones) or the time is over.

    Args:
        take: Returns the value or values of one round.
        plan: Values wanted, bursts and budget.
        moments: Reads the host's state around each round.
        wake: Work after each rest that is not measured and restores caches and clocks.

    Returns:
        All values in time order, clear or not.
    """
    __tracebackhide__ = True
    values: list[float] = []
    left = plan.budget_seconds
    for burst in range(1, plan.bursts + 1):
        wanted, least = (-(-n * burst // plan.bursts) for n in (plan.rounds, plan.min_rounds))
        if values and len(values) < wanted:
            time.sleep(plan.rest_seconds)
            wake()
        begin = time.perf_counter()
        budget = left / (plan.bursts + 1 - burst)
        while True:
            enough = len(values) >= wanted if moments is None else moments.enough(wanted)
            passed = time.perf_counter() - begin
            late = passed >= budget and not (
                passed < budget + min(budget, MAX_EXTENSION)
                and moments is not None
                and moments.some_of(MIN_CLEAR)
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
    """Disable Python's garbage collector during the rounds."""
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
    """Return the time of one call as a value in `unit`.

    Args:
        seconds_per_call: Time of one call in seconds.
        unit: A time (``s``, ``ms``, ``us``, ``ns``), or with `work` a rate such as ``TFLOP/s``,
            ``GB/s``, ``MiB/s``, ``samples/s``, ``op/s``.
        work: Work of one call in the rate's base unit (FLOP, bytes, samples); None for a time.

    Raises:
        ValueError: The unit is not a time, or with `work` not a rate.
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
