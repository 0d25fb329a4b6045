"""When each node runs what it was chosen for: one node after the other on each lane.

A lane is a place among the nodes that may be out of service at a time. A lane that becomes free takes one of
the next jobs in turn: the one whose runs meet the holes of the pools' calendars best (`node_fitting`). The
turn is level: jobs of each kind (what they take of the pools) are spread evenly over the window, long and
short ones alike, so that what is scarce is asked for at the same pace all the time (goal chasing of
mixed-model lines, Monden 1983). The least risky of each kind come last, as whoever finds no room is among
them. Where nothing is shared but lanes the riskiest go first.

A job that would wait for a pool for longer than that is worth to it goes without; one that cannot end within
the window any more goes without its pools, and without anything if that is too long as well: then a shorter
one of the same node may fill what is left of a lane.
"""

from __future__ import annotations

import heapq
from bisect import insort
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from pytest_anubis.selector.planning.placing.node_fitting import URGENT, Fitted, Rates, fit
from pytest_anubis.selector.planning.placing.pool_calendar import EPS, PoolCalendar
from pytest_anubis.selector.planning.placing.schedule_records import Job, Slot
from pytest_anubis.selector.planning.placing.spare_work import SpareWork

_PATIENCE = 0.02
"""Share of its own seconds for which a job may pause before it is asked whether it needs its pools."""
_TRIED = 4
"""Jobs that are tried for a lane, the next in turn: the more, the better what is scarce is filled."""
_CHEAP = 0.002
"""Share of its own seconds below which what a job takes of the pools and wastes is not worth a comparison."""
_PASSED = 200
"""Jobs that are passed over for a lane, as a pinned one waits for what they need."""
_SKIPPED = 2.0
"""Seconds of a lane that each time costs that a job was passed over: so everybody's turn comes."""
_LAST = 0.04
"""Share of the jobs of a kind, the least risky, that come last: about what may find no room."""
_TAIL = 300.0
"""Seconds before the window's end at which the last turns are, beside each job's own length."""
_GOLDEN = 0.6180339887498949
"""Multiples of it modulo 1 are spread evenly, however many there are (Weyl's sequence)."""
_FORGET = 64
"""Jobs placed between two looks for holes that have passed."""


def schedule(
    jobs: Iterable[Job],
    *,
    lanes: int,
    seconds: float,
    pools: Mapping[str, int],
    filler: SpareWork,
    rates: Rates,
) -> tuple[Slot, ...]:
    """Place jobs in a window, and return their runs, by start.

    Args:
        jobs: One a node.
        lanes: How many nodes may be out of service at a time.
        seconds: Length of the window.
        pools: Scarce things -> how many there are.
        filler: Asked for more work when nothing that waits fits into what is left of a lane.
        rates: What a second of a lane and of the pools is worth.
    """
    return _Placing(list(jobs), lanes, seconds, pools, filler, rates).run()


_Turn = tuple[float, str, Job]
"""When a job's turn is, its node, and the job."""


def turns(jobs: Iterable[Job], seconds: float) -> list[_Turn]:
    """Return jobs in turn: each kind spread over the window, or by risk where no job needs a pool.

    Args:
        jobs: One a node.
        seconds: Length of the window.
    """
    kinds: dict[tuple[tuple[str, float], ...], list[Job]] = {}
    for job in jobs:
        kinds.setdefault(tuple(sorted(job.use.items())), []).append(job)
    found: list[_Turn] = []
    for same in kinds.values():
        same.sort(key=lambda job: (-job.rank, job.node))
        last = len(same) - int(_LAST * len(same))
        for place, job in enumerate(same):
            if set(kinds) == {()}:
                found.append((-job.rank, job.node, job))
                continue
            share = (place + 0.5) * _GOLDEN % 1 * (1 - _LAST)
            if place >= last:
                share = 1 - _LAST * (len(same) - place) / max(1, len(same) - last)
            # A long one that comes last would find no room.
            found.append((share * max(0.0, seconds - job.seconds - _TAIL), job.node, job))
    return sorted(found, key=_turn)


def _turn(item: _Turn) -> tuple[float, str]:
    return item[:2]


class _Placing:
    def __init__(
        self,
        jobs: list[Job],
        lanes: int,
        seconds: float,
        pools: Mapping[str, int],
        filler: SpareWork,
        rates: Rates,
    ) -> None:
        shortest: dict[str, float] = {}
        for job in jobs:
            for name, length in job.runs:
                for pool in job.needs.get(name, ()):
                    shortest[pool] = min(length, shortest.get(pool, length))
        self._calendar = PoolCalendar(pools, seconds, shortest)
        self._seconds = seconds
        self._lanes = [(0.0, lane) for lane in range(lanes)]
        self._filler = filler
        usual = sum(job.seconds for job in jobs) / max(1, len(jobs))
        self._rates = replace(rates, ahead=max(usual, EPS))
        self._pinned = sorted(((-job.rank, job.node, job) for job in jobs if job.pins), key=_turn)
        self._waiting = turns((job for job in jobs if not job.pins), seconds)
        self._skipped: dict[str, int] = {}
        self._slots: list[Slot] = []

    def run(self) -> tuple[Slot, ...]:
        placed = 0
        while self._lanes:
            now, lane = heapq.heappop(self._lanes)
            found = self._next(now)
            if found is None:
                continue  # what does not fit now never will: time goes on
            self._place(found, lane)
            heapq.heappush(self._lanes, (found.end, lane))
            placed += 1
            if placed % _FORGET == 0:
                self._calendar.forget(now)
        return tuple(sorted(self._slots, key=lambda slot: (slot.start, slot.lane)))

    def _next(self, now: float) -> Fitted | None:
        """Return the next job on a lane that is free now, taken off its queue; None if none fits."""
        forced = self._best(self._pinned, now)
        if forced is not None and _at_once(forced):
            return self._taken(self._pinned, forced)
        # What a pinned job waits for nobody takes before it.
        kept = set(forced.job.pools) if forced is not None else set()
        best = self._best(self._waiting, now, kept)
        less = best if best is None or _at_once(best) else self._lessened(best, now)
        if less is None or not _at_once(less):
            waited = [one.waited for one in (less, forced) if one is not None]
            extra = self._filler.job(min(waited, default=self._seconds - now))
            if extra is not None:
                return fit(extra, now, self._calendar, self._rates)
        if less is not None:
            return self._taken(self._waiting, less)
        return None if forced is None else self._taken(self._pinned, forced)

    def _best(self, queue: list[_Turn], now: float, kept: Collection[str] = ()) -> Fitted | None:
        """Return the next in turn that costs least; those that end too late give something up."""
        best, least, place, passed = None, float("inf"), 0, 0
        tried: list[str] = []
        while place < len(queue) and len(tried) < _TRIED and passed < _PASSED:
            job = queue[place][2]
            if kept and not set(kept).isdisjoint(job.pools):
                place += 1
                passed += 1
                continue
            in_time = now + job.seconds <= self._seconds + EPS
            trial = fit(job, now, self._calendar, self._rates) if in_time else None
            if trial is None:  # on a lane that becomes free later it ends later still
                self._give_up(queue, place)
                continue
            # What it fills soon of the pools is what `fit` does not take off.
            credit = sum(
                URGENT * own * self._rates.pools.get(pool, 1.0) / self._rates.lane
                for pool, own in job.use.items()
            )
            cost = trial.cost - credit - _SKIPPED * self._skipped.get(job.node, 0)
            if cost < least:
                best, least = trial, cost
            if not tried and max(trial.cost, credit) <= _CHEAP * job.seconds:
                break  # whose turn it is takes nothing that is scarce
            tried.append(job.node)
            place += 1
        for node in tried:
            self._skipped[node] = self._skipped.get(node, 0) + 1
        return best

    def _lessened(self, found: Fitted, now: float) -> Fitted:
        """Return the same job without pools that it would wait for longer than they are worth to it."""
        job = found.job
        pause = self._rates.pause
        best, least = found, pause * (found.end - now)
        for pools in (*((pool,) for pool in job.pools), job.pools):
            less = job.without(pools)
            trial = less and fit(less, now, self._calendar, self._rates)
            if less and trial:
                left = {name for name, _ in less.runs}
                lost = sum(loss for name, loss in job.losses.items() if name not in left)
                if lost + pause * (trial.end - now) < least:
                    best, least = trial, lost + pause * (trial.end - now)
        return best

    def _give_up(self, queue: list[_Turn], place: int) -> None:
        """Have a job that cannot end in time go on with less."""
        turn, node, job = queue.pop(place)
        less = job.shortened()
        if less is not None:
            insort(queue, (turn, node, less), key=_turn)
        else:
            self._filler.offer(node)

    def _taken(self, queue: list[_Turn], found: Fitted) -> Fitted:
        place = next(at for at, item in enumerate(queue) if item[1] == found.job.node)
        del queue[place]
        return found

    def _place(self, found: Fitted, lane: int) -> None:
        """Have a job run as fitted."""
        for name, length, start, taken in found.runs:
            units: dict[str, list[int]] = {}
            for one in taken:
                self._calendar.take(one.pool, one.unit, start, start + length)
                units.setdefault(one.pool, []).append(one.unit)
            self._slots.append(
                Slot(
                    node=found.job.node,
                    benchmark=name,
                    start=start,
                    seconds=length,
                    lane=lane,
                    units={pool: tuple(sorted(own)) for pool, own in units.items()},
                )
            )


def _at_once(found: Fitted) -> bool:
    return found.waited <= _PATIENCE * found.job.seconds
