"""Fit one node's benchmarks into the pools' calendars: in which order they run, and when.

A node runs its benchmarks one after the other, without a pause if possible. Pooled runs, which need a pool,
should begin where a hole of its calendar begins, or end where it ends. Plain runs are put between them to
meet these times: the lengths that they can fill are the sums of their subsets. A beam search tries orders of
the pooled runs with subsets before each. A hole that is begun late leaves a rest, which costs its worth if no
later run can use it. `window_schedule` and `window_solution` use it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from heapq import nsmallest

from pytest_anubis.selector.planning.placing.pool_calendar import (
    EPS,
    FreeUnit,
    HeldUnits,
    PoolCalendar,
)
from pytest_anubis.selector.planning.placing.schedule_records import Job

URGENT = 0.3
"""Share of a pool's second that counts as lost if it is used as late as possible, as later nodes cannot use
early holes. Tried between 0 and 1."""
BEAM_WIDTH = 4
"""Partial orders that are followed: each has some twenty extensions, few of which differ in cost."""
MAX_HOLES = 10
"""Holes of each pool that are tried, the earliest first: later ones are for later nodes."""
MAX_SINGLE_RUNS = 4
"""Pooled runs that are placed one by one; more are placed as one block per need."""
MAX_SUMS = 256
"""Different lengths that plain runs can fill: enough to meet a hole to about a second."""
REST_LOSS = 0.15
"""Share of a rest that counts as lost although a later run could use it. Tried between 0 and 0.5."""


@dataclass(frozen=True, slots=True)
class SecondPrices:
    """Prices of a second, to weigh a node's pause against the rest of a pool's hole."""

    lane: float = 1.0  # price of a lane; positive
    # Price of a pause when weighed against what a run spares: 0 where all nodes have a lane
    pause: float = 1.0
    ahead: float = 300.0  # seconds ahead for which pools are filled: those of a usual job
    pools: Mapping[str, float] = field(default_factory=dict)  # pool -> price of one of its units


Run = tuple[str, float]
"""Benchmark and seconds."""
PlacedRun = tuple[str, float, float, tuple[FreeUnit, ...]]
"""Benchmark, seconds, start (from the window's beginning) and the units that it holds."""


@dataclass(frozen=True, slots=True)
class FittedJob:
    """A job with the times of its runs."""

    job: Job
    runs: tuple[PlacedRun, ...]  # its runs, by start
    end: float  # when the node returns to service
    waited: float  # seconds that it pauses
    # Worth of its pauses, and of the rests that it leaves of holes, in seconds of a lane
    cost: float


@dataclass(frozen=True, slots=True)
class _Block:
    """Runs with the same needs, one after the other on the same units; usually a single run."""

    runs: tuple[Run, ...]
    seconds: float
    needs: Mapping[str, int]

    def same_as(self, other: _Block) -> bool:
        """Return whether the two may change places."""
        return self.seconds == other.seconds and self.needs == other.needs


@dataclass(frozen=True, slots=True)
class _PartialOrder:
    """The beginning of an order: its cost, its end, and what is still to run."""

    cost: float
    time: float
    waited: float
    pooled: tuple[_Block, ...]
    plain: tuple[Run, ...]
    runs: tuple[PlacedRun, ...]
    held: HeldUnits


@dataclass(frozen=True, slots=True)
class _Extension:
    """A partial order and the block to run next, after the plain runs whose bits are in the mask."""

    cost: float
    start: float
    waited: float
    order: _PartialOrder
    block: _Block
    mask: int
    units: list[FreeUnit]

    def apply(self) -> _PartialOrder:
        """Return the longer partial order."""
        order, block = self.order, self.block
        plain = list(enumerate(order.plain))
        before = tuple([run for at, run in plain if self.mask >> at & 1])
        runs, _ = _appended(order.runs, order.time, before)
        runs, time = _appended(runs, self.start, block.runs, tuple(self.units))
        return _PartialOrder(
            cost=self.cost,
            time=time,
            waited=self.waited,
            pooled=tuple([one for one in order.pooled if one is not block]),
            plain=tuple([run for at, run in plain if not self.mask >> at & 1]),
            runs=runs,
            held={**order.held, **{(one.pool, one.unit): time for one in self.units}},
        )


def fit(job: Job, now: float, calendar: PoolCalendar, prices: SecondPrices) -> FittedJob | None:
    """Return the cheapest way found to run a job from now on; None if it cannot end within the window.

    `now` is in seconds from the window's beginning. The calendar is not changed.
    """
    pooled = _blocks(job)
    plain = [run for run in job.runs if not job.needs.get(run[0])]
    plain.sort(key=lambda run: (-run[1], run[0]))
    beam = [_PartialOrder(0.0, now, 0.0, pooled, tuple(plain), (), {})]
    slack = calendar.seconds - job.seconds - now + EPS
    for _ in pooled:
        found: list[_Extension] = []
        for order in beam:
            for place, block in enumerate(order.pooled):
                if not any(block.same_as(other) for other in order.pooled[:place]):
                    found += _extensions(order, block, now, calendar, prices, slack)
        best = nsmallest(BEAM_WIDTH, found, key=lambda one: (one.cost, one.start))
        beam = [extension.apply() for extension in best]
        if not beam:
            return None
    runs, end = _appended(beam[0].runs, beam[0].time, beam[0].plain)
    if end > calendar.seconds + EPS:
        return None
    return FittedJob(job, runs, end, beam[0].waited, beam[0].cost)


def _blocks(job: Job) -> tuple[_Block, ...]:
    """Return a job's pooled runs as blocks; where they are many, those with the same needs as one block."""
    single = [
        _Block((run,), run[1], job.needs[run[0]]) for run in job.runs if job.needs.get(run[0])
    ]
    if len(single) <= MAX_SINGLE_RUNS:
        return tuple(single)
    found: dict[tuple[tuple[str, int], ...], list[Run]] = {}
    for block in single:
        found.setdefault(tuple(sorted(block.needs.items())), []).extend(block.runs)
    return tuple(
        _Block(tuple(runs), sum(seconds for _, seconds in runs), dict(needs))
        for needs, runs in found.items()
    )


def _appended(
    runs: tuple[PlacedRun, ...],
    time: float,
    more: tuple[Run, ...],
    units: tuple[FreeUnit, ...] = (),
) -> tuple[tuple[PlacedRun, ...], float]:
    """Return runs with more appended from a time on, and when the last one ends."""
    added: list[PlacedRun] = []
    for name, length in more:
        added.append((name, length, time, units))
        time += length
    return (*runs, *added), time


def _extensions(
    order: _PartialOrder,
    block: _Block,
    now: float,
    calendar: PoolCalendar,
    prices: SecondPrices,
    slack: float,
) -> list[_Extension]:
    """Return the ways to run a block next, each after some of the plain runs."""
    length, time = block.seconds, order.time
    found: list[_Extension] = []
    known: set[float] = set()
    sums, masks = _subsets(tuple([seconds for _, seconds in order.plain]))
    for begin, until in _holes(block, order, sums[-1], calendar):
        for start, at in _starts(time, begin, until - length, sums):
            pause = max(0.0, start - time - sums[at])
            waited = order.waited + pause
            if start in known or waited > slack:
                continue
            known.add(start)
            units = calendar.free(block.needs, start, start + length, order.held)
            if units is not None:
                more = pause + _lost(units, now, start, start + length, calendar, prices)
                cost = order.cost + more
                found.append(_Extension(cost, start, waited, order, block, masks[at], units))
                if more <= EPS:
                    return found  # no way is cheaper than one without cost
    return found


def _holes(
    block: _Block, order: _PartialOrder, plain_seconds: float, calendar: PoolCalendar
) -> list[tuple[float, float]]:
    """Return the holes from now on that are long enough for a block, as begin and end."""
    found: set[tuple[float, float]] = set()
    for pool in block.needs:
        seen = 0
        for begin, until, unit in calendar.holes[pool]:
            since = max(begin, order.time)
            if order.held:
                since = max(since, order.held.get((pool, unit), since))
            if until - since >= block.seconds - EPS:
                found.add((since, until))
                seen += 1
                if seen == MAX_HOLES or begin > order.time + plain_seconds:
                    break  # before a later hole the node would pause for longer still
    return sorted(found)


def _starts(
    time: float, begin: float, latest: float, sums: list[float]
) -> Iterator[tuple[float, int]]:
    """Yield possible starts of a run in a hole, each with the index of the sum of plain runs before it."""
    below = bisect_right(sums, begin - time + EPS) - 1
    yield begin, below  # after a pause, unless the sum meets the hole
    if below + 1 < len(sums) and time + sums[below + 1] <= latest + EPS:
        yield time + sums[below + 1], below + 1
        last = bisect_right(sums, latest - time + EPS) - 1
        if last > below + 1:
            yield time + sums[last], last


def _lost(
    units: list[FreeUnit],
    now: float,
    start: float,
    end: float,
    calendar: PoolCalendar,
    prices: SecondPrices,
) -> float:
    """Return what a run wastes of the holes of its units, in seconds of a lane."""
    cost = 0.0
    for pool, _, since, until in units:
        short = calendar.shortest[pool]
        rests = [start - max(since, now)]
        if until < calendar.seconds:  # the rest to the window's end stays free for all later runs
            rests.append(until - end)
        lost = sum(rest if rest < short else short * REST_LOSS for rest in rests if rest > EPS)
        lateness = min(1.0, (start - now) / prices.ahead)
        cost += (lost + URGENT * lateness * (end - start)) * prices.pools.get(pool, 1.0)
    return cost / prices.lane


@lru_cache(maxsize=1 << 16)
def _subsets(lengths: tuple[float, ...]) -> tuple[list[float], list[int]]:
    """Return the sums of subsets of lengths, ascending, and each one's subset as a bit mask."""
    found: dict[float, tuple[float, int]] = {0.0: (0.0, 0)}
    for place, length in enumerate(lengths):
        for total, mask in list(found.values()):
            found.setdefault(round(total + length, 3), (total + length, mask | 1 << place))
        if len(found) > MAX_SUMS:
            break
    ordered = sorted(found.values())
    return [total for total, _ in ordered], [mask for _, mask in ordered]
