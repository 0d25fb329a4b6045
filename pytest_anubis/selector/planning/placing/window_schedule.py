"""Schedule the nodes' jobs of a window, one node after the other on each lane.

A lane is a place among the nodes that may be out of service at a time. A lane that becomes free takes one of
the next jobs in turn: the one whose runs fit the pools' calendars best (`node_fitting`). Turns are levelled:
the jobs of each kind (what they use of the pools) are spread evenly over the window, long and short alike, so
that scarce pools are asked for at a steady pace (goal chasing of mixed-model lines, Monden 1983). The least
risky of each kind come last, where jobs may find no room. If only lanes are shared, the riskiest go first.

A job that would wait for a pool for longer than the pool is worth to it goes without. A job that can no
longer end within the window gives up its pools; if that is not enough, backfilling may run a shorter one.
`window_solution` uses it.
"""

from __future__ import annotations

import heapq
from bisect import insort
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from pytest_anubis.selector.planning.placing.backfill import Backfill
from pytest_anubis.selector.planning.placing.node_fitting import (
    URGENT,
    FittedJob,
    SecondPrices,
    fit,
)
from pytest_anubis.selector.planning.placing.pool_calendar import EPS, PoolCalendar
from pytest_anubis.selector.planning.placing.schedule_records import Job, PlannedRun

_PATIENCE = 0.02
"""Share of its own seconds that a job may pause before doing without its pools is considered."""
_TRIED_JOBS = 4
"""Jobs in turn that are tried for a lane: more of them fill scarce pools better."""
_CHEAP = 0.002
"""Share of its own seconds below which a job's use and waste of pools needs no comparison."""
_MAX_PASSED_OVER = 200
"""Jobs that are passed over for a lane because a pinned one waits for what they need."""
_PASSED_OVER_CREDIT = 2.0
"""Seconds of a lane credited to a job each time it was tried and not taken, so that its turn comes."""
_LAST_SHARE = 0.04
"""Share of the jobs of a kind, the least risky, that come last: about as many as may find no room."""
_TAIL = 300.0
"""Seconds, besides a job's own length, that the last turns keep from the window's end."""
_GOLDEN = 0.6180339887498949
"""Multiples of it modulo 1 are evenly spread, however many there are (Weyl's sequence)."""
_FORGET_EVERY = 64
"""Jobs placed before past holes are dropped again."""

_Turn = tuple[float, str, Job]
"""When a job's turn is, its node, and the job."""


def _turns(jobs: Iterable[Job], seconds: float) -> list[_Turn]:
    """Return jobs in turn: each kind spread over the window, or by risk where no job needs a pool."""
    kinds: dict[tuple[tuple[str, float], ...], list[Job]] = {}
    for job in jobs:
        kinds.setdefault(tuple(sorted(job.use.items())), []).append(job)
    found: list[_Turn] = []
    for same in kinds.values():
        same.sort(key=lambda job: (-job.rank, job.node))
        last = len(same) - int(_LAST_SHARE * len(same))
        for place, job in enumerate(same):
            if set(kinds) == {()}:
                found.append((-job.rank, job.node, job))
                continue
            share = (place + 0.5) * _GOLDEN % 1 * (1 - _LAST_SHARE)
            if place >= last:
                share = 1 - _LAST_SHARE * (len(same) - place) / max(1, len(same) - last)
            # A long job that came last would find no room.
            found.append((share * max(0.0, seconds - job.seconds - _TAIL), job.node, job))
    return sorted(found, key=_turn)


def _turn(item: _Turn) -> tuple[float, str]:
    return item[:2]


class Scheduler:
    """Places jobs, one for each node, in a window of so many seconds and lanes.

    `pools` are the numbers of units. `backfill` gives more jobs when no waiting one fits into what is left of
    a lane.
    """

    def __init__(
        self,
        jobs: Sequence[Job],
        *,
        lanes: int,
        seconds: float,
        pools: Mapping[str, int],
        backfill: Backfill,
        prices: SecondPrices,
    ) -> None:
        shortest: dict[str, float] = {}
        for job in jobs:
            for name, length in job.runs:
                for pool in job.needs.get(name, ()):
                    shortest[pool] = min(length, shortest.get(pool, length))
        self._calendar = PoolCalendar(pools, seconds, shortest)
        self._seconds = seconds
        self._lanes = [(0.0, lane) for lane in range(lanes)]
        self._backfill = backfill
        usual = sum(job.seconds for job in jobs) / max(1, len(jobs))
        self._prices = replace(prices, ahead=max(usual, EPS))
        self._pinned = sorted(((-job.rank, job.node, job) for job in jobs if job.pins), key=_turn)
        self._waiting = _turns((job for job in jobs if not job.pins), seconds)
        self._passed_over: dict[str, int] = {}
        self._runs: list[PlannedRun] = []

    def run(self) -> tuple[PlannedRun, ...]:
        """Return the runs of the jobs, by start."""
        placed = 0
        while self._lanes:
            now, lane = heapq.heappop(self._lanes)
            found = self._next(now)
            if found is None:
                continue  # later there is less time still: the lane stays empty
            self._place(found, lane)
            heapq.heappush(self._lanes, (found.end, lane))
            placed += 1
            if placed % _FORGET_EVERY == 0:
                self._calendar.forget(now)
        return tuple(sorted(self._runs, key=lambda run: (run.start, run.lane)))

    def _next(self, now: float) -> FittedJob | None:
        """Return the job for a lane that is free now, taken off its queue; None if none fits."""
        pinned = self._cheapest(self._pinned, now)
        if pinned is not None and _patient(pinned):
            return self._taken(self._pinned, pinned)
        # No other job takes what a pinned one waits for.
        reserved = set(pinned.job.pools) if pinned is not None else set()
        best = self._cheapest(self._waiting, now, reserved)
        if best is not None and not _patient(best):
            best = self._without_pools(best, now)
        if best is None or not _patient(best):
            pauses = [one.waited for one in (best, pinned) if one is not None]
            extra = self._backfill.job(min(pauses, default=self._seconds - now))
            if extra is not None:
                return fit(extra, now, self._calendar, self._prices)
        if best is not None:
            return self._taken(self._waiting, best)
        return None if pinned is None else self._taken(self._pinned, pinned)

    def _cheapest(
        self, queue: list[_Turn], now: float, reserved: Collection[str] = ()
    ) -> FittedJob | None:
        """Return the cheapest of the next jobs in turn; those that would end too late are shortened."""
        best, least, place, passed_over = None, float("inf"), 0, 0
        tried: list[str] = []
        while place < len(queue) and len(tried) < _TRIED_JOBS and passed_over < _MAX_PASSED_OVER:
            job = queue[place][2]
            if reserved and not set(reserved).isdisjoint(job.pools):
                place += 1
                passed_over += 1
                continue
            in_time = now + job.seconds <= self._seconds + EPS
            trial = fit(job, now, self._calendar, self._prices) if in_time else None
            if trial is None:  # on a lane that becomes free later it would end later still
                self._shorten(queue, place)
                continue
            # `fit` does not subtract what using the pools early is worth.
            credit = sum(
                URGENT * own * self._prices.pools.get(pool, 1.0) / self._prices.lane
                for pool, own in job.use.items()
            )
            cost = trial.cost - credit - _PASSED_OVER_CREDIT * self._passed_over.get(job.node, 0)
            if cost < least:
                best, least = trial, cost
            if not tried and max(trial.cost, credit) <= _CHEAP * job.seconds:
                break  # the job whose turn it is uses no scarce pool
            tried.append(job.node)
            place += 1
        for node in tried:
            self._passed_over[node] = self._passed_over.get(node, 0) + 1
        return best

    def _without_pools(self, found: FittedJob, now: float) -> FittedJob:
        """Return the job without the pools that are worth less to it than waiting for them costs."""
        job, pause = found.job, self._prices.pause
        best, least = found, pause * (found.end - now)
        for pools in (*((pool,) for pool in job.pools), job.pools):
            less = job.without(pools)
            trial = less and fit(less, now, self._calendar, self._prices)
            if less and trial:
                left = {name for name, _ in less.runs}
                lost = sum(loss for name, loss in job.losses.items() if name not in left)
                cost = lost + pause * (trial.end - now)
                if cost < least:
                    best, least = trial, cost
        return best

    def _shorten(self, queue: list[_Turn], place: int) -> None:
        """Replace a job that cannot end in time by a shorter one, or leave its node to backfilling."""
        turn, node, job = queue.pop(place)
        less = job.shortened()
        if less is not None:
            insort(queue, (turn, node, less), key=_turn)
        else:
            self._backfill.release(node)

    def _taken(self, queue: list[_Turn], found: FittedJob) -> FittedJob:
        place = next(at for at, item in enumerate(queue) if item[1] == found.job.node)
        del queue[place]
        return found

    def _place(self, found: FittedJob, lane: int) -> None:
        """Enter a job's runs into the plan and the calendar."""
        for name, length, start, units in found.runs:
            numbers: dict[str, list[int]] = {}
            for one in units:
                self._calendar.take(one.pool, one.unit, start, start + length)
                numbers.setdefault(one.pool, []).append(one.unit)
            self._runs.append(
                PlannedRun(
                    node=found.job.node,
                    benchmark=name,
                    start=start,
                    seconds=length,
                    lane=lane,
                    units={pool: tuple(sorted(own)) for pool, own in numbers.items()},
                )
            )


def _patient(found: FittedJob) -> bool:
    """Return whether the job pauses so little that it may be taken as it is."""
    return found.waited <= _PATIENCE * found.job.seconds
