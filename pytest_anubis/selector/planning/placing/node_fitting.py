"""When one node runs its benchmarks: in the order in which those that need a pool meet holes of its calendar.

A node runs one benchmark after the other without a pause, if it can. Benchmarks without needs are put between
those with needs so that each begins where a hole begins (or ends where it ends): the lengths that they can
fill are the sums of their subsets. The orders of the runs with needs and the subsets before each are looked
at, those first that cost least so far (a beam); a hole that is begun late leaves a rest, which costs what it
is worth if nobody can fill it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from heapq import nsmallest

from pytest_anubis.selector.planning.placing.pool_calendar import EPS, Own, PoolCalendar, Taken
from pytest_anubis.selector.planning.placing.schedule_records import Job

URGENT = 0.3
"""Of a second of a pool that is filled as late as it can be: the share that is reckoned as lost, as what is
free soon will be free no more for those who come later. Tried between 0 and 1."""
BEAM = 4
"""Beginnings of an order that are followed: each has some twenty ways to go on, few that differ in cost."""
HOLES = 10
"""Holes of each pool that are looked at, the earliest: later ones are for later nodes."""
SINGLE = 4
"""Runs with needs that are placed each by itself; more are placed as one block for each need."""
SUMS = 256
"""Different lengths that the benchmarks without needs can fill: a hole is met to a second or so by these."""
REST = 0.15
"""Of a rest that somebody could still fill: the share that is reckoned as lost. Tried between 0 and 0.5."""


@dataclass(frozen=True, slots=True)
class Rates:
    """What a second is worth, to weigh a pause of a node against a rest of a pool's hole.

    Attributes:
        lane: Of a node that pauses; positive.
        pause: The same where it is weighed against what a run spares: 0 where there are places for all.
        ahead: Seconds ahead for which pools are filled: those of a usual job.
        pools: Pool -> of one of its things.
    """

    lane: float = 1.0
    pause: float = 1.0
    ahead: float = 300.0
    pools: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Fitted:
    """A job as it would run.

    Attributes:
        job: What runs.
        runs: Benchmark, seconds, start (seconds from the window's beginning) and what it takes, by start.
        end: When the node comes back.
        waited: Seconds that it pauses.
        cost: What its pauses, and the rests that it leaves of holes, are worth in seconds of a lane.
    """

    job: Job
    runs: tuple[tuple[str, float, float, tuple[Taken, ...]], ...]
    end: float
    waited: float
    cost: float


Run = tuple[str, float]
Placed = tuple[str, float, float, tuple[Taken, ...]]


@dataclass(frozen=True, slots=True)
class _Block:
    """Runs with the same needs, one after the other on the same things; mostly one alone."""

    runs: tuple[Run, ...]
    seconds: float
    needs: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class _Begun:
    """The beginning of an order: what it cost, when it ends, what it has not run yet."""

    cost: float
    time: float
    waited: float
    pooled: tuple[_Block, ...]
    plain: tuple[Run, ...]
    runs: tuple[Placed, ...]
    own: Own


def fit(job: Job, now: float, calendar: PoolCalendar, rates: Rates) -> Fitted | None:
    """Fit a job in from now on.

    Args:
        job: What one node is to run.
        now: When it may begin, seconds from the window's beginning.
        calendar: Of the pools; it is not changed.
        rates: What a second is worth.

    Returns:
        The cheapest way that was found; None if it cannot end within the window.
    """
    pooled = _blocks(job)
    plain = tuple(sorted((r for r in job.runs if not job.needs.get(r[0])), key=_longest_first))
    begun = [_Begun(0.0, now, 0.0, pooled, plain, (), {})]
    slack = calendar.seconds - job.seconds - now + EPS
    for _ in pooled:
        ways: list[_Way] = []
        for state in begun:
            for place, block in enumerate(state.pooled):
                if any(_alike(block, other) for other in state.pooled[:place]):
                    continue  # either may be first
                ways += _ways(state, block, now, calendar, rates, slack)
        begun = [_gone(way) for way in nsmallest(BEAM, ways, key=_cheapest)]
        if not begun:
            return None
    best = begun[0]
    runs, end = _in_a_row(best.runs, best.time, best.plain)
    if end > calendar.seconds + EPS:
        return None
    return Fitted(job, runs, end, best.waited, best.cost)


def _longest_first(run: Run) -> tuple[float, str]:
    return -run[1], run[0]


def _blocks(job: Job) -> tuple[_Block, ...]:
    """Return the runs of a job that need pools; where they are many, those with the same needs in one."""
    single = [
        _Block((run,), run[1], job.needs[run[0]]) for run in job.runs if job.needs.get(run[0])
    ]
    if len(single) <= SINGLE:
        return tuple(single)
    found: dict[tuple[tuple[str, int], ...], list[Run]] = {}
    for block in single:
        found.setdefault(tuple(sorted(block.needs.items())), []).extend(block.runs)
    return tuple(
        _Block(tuple(runs), sum(seconds for _, seconds in runs), dict(needs))
        for needs, runs in found.items()
    )


def _alike(one: _Block, other: _Block) -> bool:
    return one.seconds == other.seconds and one.needs == other.needs


def _in_a_row(
    runs: tuple[Placed, ...],
    time: float,
    more: tuple[Run, ...],
    taken: tuple[Taken, ...] = (),
) -> tuple[tuple[Placed, ...], float]:
    added: list[Placed] = []
    for name, length in more:
        added.append((name, length, time, taken))
        time += length
    return (*runs, *added), time


@dataclass(frozen=True, slots=True)
class _Way:
    """A way to go on: a block that starts at a time, after a subset of what needs nothing."""

    cost: float
    start: float
    waited: float
    state: _Begun
    block: _Block
    mask: int
    taken: list[Taken]


def _cheapest(way: _Way) -> tuple[float, float]:
    return way.cost, way.start


def _ways(
    state: _Begun,
    block: _Block,
    now: float,
    calendar: PoolCalendar,
    rates: Rates,
    slack: float,
) -> list[_Way]:
    """Return the ways to go on with runs that need pools, some without needs before them."""
    needs, length, time = block.needs, block.seconds, state.time
    found: list[_Way] = []
    known: set[float] = set()
    sums, masks = _subsets(tuple([seconds for _, seconds in state.plain]))
    for begin, until in _holes(needs, length, state, sums[-1], calendar):
        for start, at in _starts(time, begin, until - length, sums):
            waited = max(0.0, start - time - sums[at])
            if start in known or state.waited + waited > slack:
                continue
            known.add(start)
            taken = calendar.free(needs, start, start + length, state.own)
            if taken is not None:
                cost = waited + _lost(taken, now, start, start + length, calendar, rates)
                found.append(
                    _Way(
                        state.cost + cost,
                        start,
                        state.waited + waited,
                        state,
                        block,
                        masks[at],
                        taken,
                    )
                )
                if cost <= EPS:
                    return found  # nothing is cheaper than nothing
    return found


def _gone(way: _Way) -> _Begun:
    """Return the beginning of an order that a way leads to."""
    state, block = way.state, way.block
    before = tuple([one for at, one in enumerate(state.plain) if way.mask >> at & 1])
    runs, _ = _in_a_row(state.runs, state.time, before)
    runs, time = _in_a_row(runs, way.start, block.runs, tuple(way.taken))
    return _Begun(
        cost=way.cost,
        time=time,
        waited=way.waited,
        pooled=tuple([one for one in state.pooled if one is not block]),
        plain=tuple([one for at, one in enumerate(state.plain) if not way.mask >> at & 1]),
        runs=runs,
        own={**state.own, **{(one.pool, one.unit): time for one in way.taken}},
    )


def _holes(
    needs: Mapping[str, int], length: float, state: _Begun, most: float, calendar: PoolCalendar
) -> list[tuple[float, float]]:
    """Return from when to when something that is needed is free: holes that are long enough from now on."""
    time, own = state.time, state.own
    found: set[tuple[float, float]] = set()
    for pool in needs:
        seen = 0
        for begin, until, unit in calendar.holes[pool]:
            since = max(begin, time)
            if own:
                since = max(since, own.get((pool, unit), since))
            if until - since >= length - EPS:
                found.add((since, until))
                seen += 1
                if seen == HOLES or begin > time + most:
                    break  # the node would pause for those behind for longer still
    return sorted(found)


def _starts(
    time: float, begin: float, latest: float, sums: list[float]
) -> Iterator[tuple[float, int]]:
    """Yield when a run might begin that fills a hole, and the place of what is run before in the sums."""
    below = bisect_right(sums, begin - time + EPS) - 1
    yield begin, below  # after a pause, unless the sum meets the hole
    if below + 1 < len(sums) and time + sums[below + 1] <= latest + EPS:
        yield time + sums[below + 1], below + 1
        last = bisect_right(sums, latest - time + EPS) - 1
        if last > below + 1:
            yield time + sums[last], last


def _lost(
    taken: list[Taken],
    now: float,
    start: float,
    end: float,
    calendar: PoolCalendar,
    rates: Rates,
) -> float:
    """Return what is lost of the holes that are taken, in seconds of a lane."""
    cost = 0.0
    for pool, _, since, until in taken:
        short = calendar.shortest[pool]
        rests = [start - max(since, now)]
        if until < calendar.seconds:  # what follows is free for all that comes later
            rests.append(until - end)
        lost = sum(rest if rest < short else short * REST for rest in rests if rest > EPS)
        late = min(1.0, (start - now) / rates.ahead)
        cost += (lost + URGENT * late * (end - start)) * rates.pools.get(pool, 1.0)
    return cost / rates.lane


@lru_cache(maxsize=1 << 16)
def _subsets(lengths: tuple[float, ...]) -> tuple[list[float], list[int]]:
    """Return the sums that subsets of lengths have, in order, and for each which they are, as bits."""
    found: dict[float, tuple[float, int]] = {0.0: (0.0, 0)}
    for place, length in enumerate(lengths):
        for total, mask in list(found.values()):
            found.setdefault(round(total + length, 3), (total + length, mask | 1 << place))
        if len(found) > SUMS:
            break
    ordered = sorted(found.values())
    return [total for total, _ in ordered], [mask for _, mask in ordered]
