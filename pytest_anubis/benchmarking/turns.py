"""Measure several callables in turns within one test, so that all see the same moments.

If two callables are measured one after the other on a shared machine, their ratio depends on what else ran
during each. In turns, every round of one is next to a round of the other. Tests in `suites/traffic/` use it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import SupportsFloat, TypeVar

Name = TypeVar("Name", bound=Hashable)

ROUND = 0.02
"""Seconds of one callable in a round, as in `anubis_metric.measure`: long compared with the cost of reading a
clock and with one interrupt."""

MAX_CALLS = 1_000_000


def in_turns(
    work: Mapping[Name, Callable[[], object]],
    *,
    rounds: int = 20,
    round_seconds: float = ROUND,
    synchronize: Callable[[], object] = lambda: None,
) -> dict[Name, list[float]]:
    """Return the seconds of one call of each callable, `rounds` values each, taken in turns.

    The results of the callables are ignored; use `values_in_turns` for callables that measure themselves.
    Every second round has the reverse order, so that none is always first. The first call of each, which
    includes lazy initialisation, is not counted, nor are the calls that determine how many calls fill a
    round.

    Args:
        work: Callables to time, by name.
        rounds: Number of values for each.
        round_seconds: Seconds that each runs in a round.
        synchronize: Waits for the device (`anubis_device.synchronize`); does nothing on a CPU.

    Raises:
        ValueError: There are no callables or no rounds.
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
        # Until the calls fill half a round: as many more as the time suggests, at most ten times as many.
        while (took := timed(fn, count)) < round_seconds / 2 and count < MAX_CALLS:
            factor = min(10.0, round_seconds / max(took, 1e-9))
            count = min(MAX_CALLS, max(count + 1, int(count * factor)))
        calls[name] = count
    values: dict[Name, list[float]] = {name: [] for name in work}
    for name in _turns(list(work), rounds):
        values[name].append(timed(work[name], calls[name]) / calls[name])
    return values


def values_in_turns(
    work: Mapping[Name, Callable[[], object]], *, rounds: int = 20
) -> dict[Name, list[float]]:
    """Return the results of each callable, `rounds` values each, taken in turns.

    Use it for callables that measure themselves, such as ranks and other programs: other work in a call, such
    as sending a request or checking a result, is then not part of the value. The first value of each, which
    includes lazy initialisation, is not counted.

    Args:
        work: Callables that measure and return a number in any unit, by name.
        rounds: Number of values for each.

    Raises:
        ValueError: There are no callables or no rounds.
        TypeError: A callable does not return a number.
    """
    if not work or rounds < 1:
        raise ValueError("values_in_turns wants something to ask, and one round or more")

    def value_of(name: Name) -> float:
        value = work[name]()
        if isinstance(value, bool) or not isinstance(value, SupportsFloat):
            raise TypeError(
                f"values_in_turns wants a number, {name!r} returned {type(value).__name__}; "
                "in_turns times the calls themselves"
            )
        return float(value)

    for name in work:
        value_of(name)
    values: dict[Name, list[float]] = {name: [] for name in work}
    for name in _turns(list(work), rounds):
        values[name].append(value_of(name))
    return values


def _turns(names: Sequence[Name], rounds: int) -> Iterator[Name]:
    """Yield every name once per round; every second round has the reverse order."""
    for number in range(rounds):
        yield from names if number % 2 == 0 else reversed(names)
