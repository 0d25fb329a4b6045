"""When each node runs what it was chosen for: one node after the other on each lane, the riskiest first.

A lane is a place among the nodes that may be out of service at a time. A lane that becomes free takes a
waiting job that ends within the window: of the next ones of each kind that need a pool the one whose runs
meet the holes of the pools' calendars best (`node_fitting`), so that what is scarce never idles, and where
none does, the next that needs none. Once no such one is left it waits as long as the window allows. Only
a job that cannot end within the window any more goes without its pools, and without anything if that is too
long as well: then a shorter one of the same node may fill what is left of a lane.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from pytest_anubis.selector.planning.placing.node_fitting import URGENT, Fitted, Rates, fit
from pytest_anubis.selector.planning.placing.pool_calendar import EPS, PoolCalendar
from pytest_anubis.selector.planning.placing.schedule_records import Filler, Job, Schedule, Slot

_PATIENCE = 0.02
"""Share of its own seconds that a job may cost in pauses and rests while others wait for the lane."""
_CHEAP = 0.002
"""Share of its own seconds that nobody looks for a cheaper job for."""
_LOOKED_AT = 4
"""Jobs of a kind that are tried, the next by rank."""
_TRIED = 16
"""Jobs that are tried for a lane, of all kinds: the more, the better what is scarce is filled."""
_FORGET = 64
"""Jobs placed between two looks for holes that have passed."""


def schedule(
    jobs: Iterable[Job],
    *,
    lanes: int,
    seconds: float,
    pools: Mapping[str, int],
    filler: Filler | None = None,
    rates: Rates | None = None,
) -> Schedule:
    """Place jobs in a window.

    Args:
        jobs: One a node.
        lanes: How many nodes may be out of service at a time.
        seconds: Length of the window.
        pools: Scarce things -> how many there are.
        filler: Asked for more work when nothing that waits fits into what is left of a lane.
        rates: What a second of a lane and of the pools is worth; None: all the same.
    """
    return _Placing(list(jobs), lanes, seconds, pools, filler, rates or Rates()).run()


_Queue = list[tuple[float, str, Job]]
Use = tuple[float, ...]
"""Seconds that a job takes of each pool."""


class _Placing:
    def __init__(
        self,
        jobs: list[Job],
        lanes: int,
        seconds: float,
        pools: Mapping[str, int],
        filler: Filler | None,
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
        self._rates = rates
        self._pools = tuple(pools)
        self._queues: dict[Use, _Queue] = {}
        self._where: dict[str, Use] = {}
        self._slots: list[Slot] = []
        self._given = {job.node for job in jobs}
        for job in jobs:
            use = self._where[job.node] = self._use(job)
            self._queues.setdefault(use, []).append((-job.rank, job.node, job))
        for queue in self._queues.values():
            queue.sort(key=_place_of)
        total = sum(job.seconds for job in jobs)
        uses = {use: len(queue) for use, queue in self._queues.items()}
        self._aim = [
            sum(use[at] * n for use, n in uses.items()) / max(total, EPS)
            for at in range(len(self._pools))
        ]
        self._prices = [rates.pools.get(pool, 1.0) / rates.lane for pool in self._pools]
        rate = [rates.pools.get(pool, 1.0) for pool in self._pools]
        # A pool that is ahead by a job for each of its things costs the whole price of what is added.
        usual = total / max(1, len(jobs))
        self._rates = replace(rates, ahead=max(usual, EPS))
        self._weight = [
            r / rates.lane / (2 * max(1, pools[pool]) * max(usual, EPS))
            for r, pool in zip(rate, self._pools, strict=True)
        ]
        self._ahead = [0.0] * len(self._pools)

    def run(self) -> Schedule:
        gaps: list[tuple[int, float]] = []
        placed = 0
        while self._lanes:
            now, lane = heapq.heappop(self._lanes)
            found = self._next(now)
            if found is None:
                gaps.append((lane, now))  # what does not fit now never will: time goes on
                continue
            self._place(found, lane)
            heapq.heappush(self._lanes, (found.end, lane))
            placed += 1
            if placed % _FORGET == 0:
                self._calendar.forget(now)
        done = {slot.node for slot in self._slots}
        return Schedule(
            slots=tuple(sorted(self._slots, key=lambda slot: (slot.start, slot.lane))),
            gaps=tuple(gaps),
            waiting=tuple(sorted(self._given - done)),
        )

    def _use(self, job: Job) -> Use:
        found = dict.fromkeys(self._pools, 0.0)
        for name, length in job.runs:
            for pool, count in job.needs.get(name, {}).items():
                found[pool] += count * length
        return tuple(found.values())

    def _next(self, now: float) -> Fitted | None:
        """Return the next job on a lane that is free now; None if none fits."""
        forced = self._best(now, pinned=True)
        if forced is not None and forced.waited <= _PATIENCE * forced.job.seconds:
            return forced
        # What a pinned job waits for nobody takes before it.
        kept = self._use(forced.job) if forced is not None else ()
        best = self._best(now, pinned=False, kept=kept)
        if best is not None and best.waited > _PATIENCE * best.job.seconds:
            best = self._lessened(best, now)
        if self._filler is not None and (
            best is None or best.waited > _PATIENCE * best.job.seconds
        ):
            waited = [one.waited for one in (best, forced) if one is not None]
            extra = self._filler.job(min(waited, default=self._seconds - now))
            if extra is not None:
                return fit(extra, now, self._calendar, self._rates)
        return best or forced

    def _lessened(self, found: Fitted, now: float) -> Fitted:
        """Return the same job without pools that it would wait for longer than they are worth to it."""
        job = found.job
        best, least = found, found.cost
        for pools in {*((pool,) for pool in job.pools), job.pools}:
            less = job.without(pools)
            if less is None:
                continue
            trial = fit(less, now, self._calendar, self._rates)
            left = {name for name, _ in less.runs}
            lost = sum(loss for name, loss in job.losses.items() if name not in left)
            cost = lost / self._rates.lane - (job.seconds - less.seconds)
            if trial is not None and trial.cost + cost < least:
                best, least = trial, trial.cost + cost
        return best

    def _best(self, now: float, *, pinned: bool, kept: Use = ()) -> Fitted | None:
        """Return the job that costs least, what it does to the pools' pace included."""
        kinds = sorted(
            (self._off(use, queue[0][2].seconds), use)
            for use, queue in self._queues.items()
            if queue and bool(queue[0][2].pins) == pinned
        )
        best, least, tried = None, float("inf"), 0
        for off, use in kinds:
            if off >= least or tried >= _TRIED:
                break  # no fitting costs less than nothing
            if any(own and there for own, there in zip(use, kept)):
                continue
            for trial in self._trials(use, now):
                tried += 1
                if trial.cost + off < least:
                    best, least = trial, trial.cost + off
                if trial.cost <= _CHEAP * trial.job.seconds:
                    break
        return best

    def _off(self, use: Use, seconds: float) -> float:
        """Return what a job costs, in seconds of a lane, by taking the pools off their pace."""
        cost = 0.0
        for rate, ahead, own, aim in zip(self._weight, self._ahead, use, self._aim, strict=True):
            more = own - aim * seconds
            cost += rate * more * (2 * ahead + more)
        # What it fills soon: `fit` takes off what it fills late.
        return cost - URGENT * sum(
            own * price for own, price in zip(use, self._prices, strict=True)
        )

    def _trials(self, use: Use, now: float) -> Iterator[Fitted]:
        """Yield how the next jobs of a kind would run; those that end too late give something up."""
        queue = self._queues[use]
        place = 0
        while place < min(_LOOKED_AT, len(queue)):
            job = queue[place][2]
            if place and queue[0][2].pins and not job.pins:
                break
            in_time = now + job.seconds <= self._seconds + EPS
            trial = fit(job, now, self._calendar, self._rates) if in_time else None
            if trial is None:  # on a lane that becomes free later it ends later still
                self._give_up(queue, place)
            else:
                yield trial
                place += 1
                if not any(use):
                    break  # without pools all fit alike

    def _give_up(self, queue: _Queue, place: int) -> None:
        """Have a job that cannot end in time go on with less."""
        job = queue.pop(place)[2]
        less = job.shortened()
        if less is not None:
            use = self._where[job.node] = self._use(less)
            insort(self._queues.setdefault(use, []), (-less.rank, less.node, less), key=_place_of)
        elif self._filler is not None:
            self._filler.offer(job.node)

    def _place(self, found: Fitted, lane: int) -> None:
        """Have a job run as fitted."""
        job = found.job
        use, seconds = self._use(job), job.seconds
        self._ahead = [
            ahead + own - aim * seconds
            for ahead, own, aim in zip(self._ahead, use, self._aim, strict=True)
        ]
        queue = self._queues.get(self._where.pop(job.node, use), [])
        at = bisect_left(queue, (-job.rank, job.node), key=_place_of)
        if at < len(queue) and queue[at][1] == job.node:  # work that a filler found waits nowhere
            del queue[at]
        for name, length, start, taken in found.runs:
            units: dict[str, list[int]] = {}
            for one in taken:
                self._calendar.take(one.pool, one.unit, start, start + length)
                units.setdefault(one.pool, []).append(one.unit)
            self._slots.append(
                Slot(
                    node=job.node,
                    benchmark=name,
                    start=start,
                    seconds=length,
                    lane=lane,
                    units={pool: tuple(sorted(own)) for pool, own in units.items()},
                )
            )


def _place_of(item: tuple[float, str, Job]) -> tuple[float, str]:
    return item[:2]
