"""Turns: several callables are measured in turns within one test, so that they see the same seconds.

Two things that are measured one after the other meet two different moments of a shared machine; their ratio
then tells the neighbours apart, not them. In turns every round of one stands beside a round of the other.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import SupportsFloat, TypeVar

Name = TypeVar("Name", bound=Hashable)

ROUND = 0.02
"""Seconds of one callable in a round, as `anubis_metric.measure` aims at: a clock's reading and one interrupt
are small against it."""

MOST_CALLS = 1_000_000


def in_turns(
    work: Mapping[Name, Callable[[], object]],
    *,
    rounds: int = 20,
    round_seconds: float = ROUND,
    synchronize: Callable[[], object] = lambda: None,
) -> dict[Name, list[float]]:
    """Return the seconds of one call of each callable, `rounds` values each, taken in turns.

    What the callables return is dropped: for what they measure by themselves there is `values_in_turns`.
    Every second round goes the other way round, so that none is always the first. The first call of each,
    which pays for what is made lazily, counts nowhere; nor do those that find how many calls fill a round.

    Args:
        work: What to time, by name.
        rounds: Values of each.
        round_seconds: How long each runs in a round.
        synchronize: Waits for the device (`anubis_device.synchronize`); nothing on a CPU.

    Raises:
        ValueError: There is nothing to time, or no round.
    """
    if not work or rounds < 1:
        raise ValueError("in_turns wants something to time, and one round or more")

    def timed(fn: Callable[[], object], calls: int) -> float:
        synchronize()
        begin = time.perf_counter()
        for _ in range(calls):
            fn()
        synchronize()
        return time.perf_counter() - begin

    calls: dict[Name, int] = {}
    for name, fn in work.items():
        timed(fn, 1)
        count = 1
        # Less than half a round: as many more as its time says, ten times as many at most.
        while (took := timed(fn, count)) < round_seconds / 2 and count < MOST_CALLS:
            count = min(
                MOST_CALLS, max(count + 1, int(count * min(10.0, round_seconds / max(took, 1e-9))))
            )
        calls[name] = count
    values: dict[Name, list[float]] = {name: [] for name in work}
    for name in _turns(list(work), rounds):
        values[name].append(timed(work[name], calls[name]) / calls[name])
    return values


def values_in_turns(
    work: Mapping[Name, Callable[[], object]], *, rounds: int = 20
) -> dict[Name, list[float]]:
    """Return what each callable returns, `rounds` values each, taken in turns.

    For what measures by itself, as ranks and other programs do: whatever else a call does (a request on its
    way, numbers drawn, a result checked) is no part of the figure. The first figure of each, which pays for
    what is made lazily, counts nowhere.

    Args:
        work: What measures and returns a figure of any unit, by name.
        rounds: Values of each.

    Raises:
        ValueError: There is nothing to ask, or no round.
        TypeError: A callable returns no number.
    """
    if not work or rounds < 1:
        raise ValueError("values_in_turns wants something to ask, and one round or more")

    def told(name: Name) -> float:
        value = work[name]()
        if isinstance(value, bool) or not isinstance(value, SupportsFloat):
            raise TypeError(
                f"values_in_turns wants a number, {name!r} returned {type(value).__name__}; "
                "in_turns times the calls themselves"
            )
        return float(value)

    for name in work:
        told(name)
    values: dict[Name, list[float]] = {name: [] for name in work}
    for name in _turns(list(work), rounds):
        values[name].append(told(name))
    return values


def _turns(names: Sequence[Name], rounds: int) -> Iterator[Name]:
    """Yield every name once a round; every second round goes the other way round."""
    for number in range(rounds):
        yield from names if number % 2 == 0 else reversed(names)
