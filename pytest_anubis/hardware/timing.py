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
from dataclasses import dataclass, replace
from statistics import fmean
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from pytest_anubis.hardware.host_pace import Pacer

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

    Args:
        clock: The clock whose readings count.

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
        settle_seconds: Least time of load before the rate counts as steady, and over how long steadiness is
            looked at; 0: three batches, which is enough for caches and lazy initialisation.
        wake_seconds: Load before the first round that is no part of the measurement: sensors are read
            between warm-up and rounds, and a card that rests meanwhile begins cool.
    """

    rounds: int
    round_seconds: float
    warmup_seconds: float
    budget_seconds: float
    least: int = 5
    bursts: int = 1
    pause_seconds: float = 0.0
    settle_seconds: float = 0.0
    wake_seconds: float = 0.0

    def look(self) -> RoundPlan:
        """Return the plan of one burst more, for looking again at a close call."""
        return replace(
            self,
            rounds=max(1, self.rounds // BURSTS),
            least=max(1, self.least // BURSTS),
            budget_seconds=self.budget_seconds / BURSTS,
            bursts=1,
        )

    def brief(self) -> RoundPlan:
        """Return the plan of one of many short runs: what the pauses show, the other runs show better."""
        return replace(
            self,
            budget_seconds=self.budget_seconds * BRIEF,
            warmup_seconds=self.warmup_seconds * BRIEF,
            bursts=min(self.bursts, BRIEF_BURSTS),
            pause_seconds=self.pause_seconds * BRIEF,
        )

    def on_accelerator(self, settle: Settle) -> RoundPlan:
        """Return the plan for a device that slows down under load and would clock down in a pause."""
        return replace(
            self,
            bursts=1,
            pause_seconds=0.0,
            warmup_seconds=settle.most,
            settle_seconds=settle.least,
            wake_seconds=settle.wake,
        )

    def short_load(self) -> RoundPlan:
        """Return the plan for the rate of a rested device: a few short rounds, with rests between them."""
        return replace(
            self,
            rounds=SHORT_ROUNDS,
            least=SHORT_ROUNDS,
            round_seconds=SHORT_ROUND,
            warmup_seconds=0.0,
            settle_seconds=0.0,
            wake_seconds=0.0,
            bursts=SHORT_BURSTS,
            pause_seconds=REST,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Settle:
    """How long an accelerator is loaded until its rate counts.

    Attributes:
        least: Seconds of load before it can count as steady.
        most: Seconds after which it is measured, steady or not.
        wake: Seconds of load between the reading of sensors and the first round.
    """

    least: float
    most: float
    wake: float


SETTLE: dict[str, Settle] = {
    "smoke": Settle(least=1.0, most=4.0, wake=0.3),
    "standard": Settle(least=3.0, most=15.0, wake=1.0),
    "soak": Settle(least=10.0, most=60.0, wake=1.0),
}
"""Under full load a card's clock falls from its boost to what its power limit allows within a second or so,
and further with the temperature for some more."""

REST = 0.3
"""Seconds of rest before each burst of short load: several times what a card's power controller averages
over, and too short for its clock to be lowered."""

SHORT_ROUND = 0.02
"""Seconds of a round of short load."""

SHORT_ROUNDS = 8
"""Rounds of short load: few enough that no search for changes is made in them, as they may well fall."""

SHORT_BURSTS = 2
"""Bursts of short load: 80 ms each, over before power is limited."""

BRIEF, BRIEF_BURSTS = 0.3, 2
"""Part of the profile's warm-up, budget and pauses that a brief run takes, and its bursts. What makes a
shared host noisy lasts for minutes too: on one such machine the means of runs of a third of the length spread
no further, and how far runs spread is known from how many there are."""

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
"""Two successive spans of the warm-up may differ by this share to count as steady: in rate, clock, power."""

BATCHES = 3
"""Fewest batches in a span: the quickest of three is hit by no single interrupt."""

PROBE_SECONDS = 0.1
"""Load between two readings of the probe: about as long as NVML takes to update power."""

MAX_CALLS = 1_000_000


def warm_up(fn: Work, clock: Clock, plan: RoundPlan, probe: Probe | None = None) -> int:
    """Run `fn` until its time is steady and return how many calls make one round.

    Steady means that the newest span of batches and the one before it are alike within `STEADY`, the
    quickest batch of each (a single slow one, an interrupt, prolongs nothing) and what the probe reads on
    average. Whoever still gets faster (caches, lazy initialisation, rising clocks) or slower (heat, the
    limit of the power) is not steady.

    Args:
        fn: The work.
        clock: Measures it.
        plan: How long at least and at most, and how long a round is.
        probe: Reads clock and power of the device.
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
    fn: Work, clock: Clock, plan: RoundPlan, calls: int, pacer: Pacer | None = None
) -> list[float]:
    """Return the time of one call in seconds, one value a round, in time order.

    Args:
        fn: The work.
        clock: Measures it.
        plan: How long and how often.
        calls: Calls a round.
        pacer: Reads the host's pace between the rounds; None if nothing does.
    """

    def take() -> list[float]:
        return [clock(fn, calls) / calls]

    awake = 0.0
    while awake < plan.wake_seconds:
        awake += max(clock(fn, calls), 1e-6)  # a clock that stands still must not keep us here
    with _no_collection():
        between = pacer.between(take) if pacer is not None else take
        return _in_bursts(between, plan, plan.rounds, lambda: clock(fn, calls))


def repeats(
    take: Callable[[], list[float]], plan: RoundPlan, pacer: Pacer | None = None
) -> list[float]:
    """Return the values of a callable that measures by itself, called until the plan is met.

    Args:
        take: Returns the value or values of one round.
        plan: Rounds and budget; a third of the rounds is enough, as such rounds are whole transfers
            or runs of a tool rather than a few milliseconds.
        pacer: Reads the host's pace between them; None if nothing does.
    """
    between = pacer.between(take) if pacer is not None else take
    return _in_bursts(between, plan, max(plan.least, plan.rounds // 3))


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
