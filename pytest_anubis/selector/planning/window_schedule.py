"""When each node runs what it was chosen for: one node after the other on each lane, the riskiest first.

A lane is a place among the nodes that may be out of service at a time. A lane that becomes free takes the
waiting job of the node that is worth most and still ends within the window; a job that needs a pool goes
first whenever what it needs is free, so that what is scarce never idles. A node that would only wait for a
pool goes without the runs that need it, if lanes are scarce.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

_EPS = 1e-6
"""Seconds by which a sum of durations may be off."""
_PATIENCE = 0.005
"""Share of the window for which a scarce lane waits for a pool at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What one node is to run.

    Attributes:
        node: Its name.
        rank: Jobs of a higher one go first.
        runs: Benchmark and its seconds.
        needs: Benchmark -> pool -> how many of it.
        pinned: Some of it has to run: it waits for a pool however long that takes.
    """

    node: str
    rank: float
    runs: tuple[tuple[str, float], ...]
    needs: Mapping[str, Mapping[str, int]]
    pinned: bool = False

    @property
    def seconds(self) -> float:
        """How long all runs take."""
        return sum(length for _, length in self.runs)

    @property
    def pools(self) -> tuple[str, ...]:
        """The pools that it needs, sorted."""
        return tuple(sorted({pool for name, _ in self.runs for pool in self.needs.get(name, ())}))

    def without_pools(self) -> Job:
        """Return what is left of it without the runs that need a pool."""
        plain = tuple(run for run in self.runs if not self.needs.get(run[0]))
        return Job(node=self.node, rank=self.rank, runs=plain, needs=self.needs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """One run of the plan.

    Attributes:
        node: On which node.
        benchmark: What.
        start: Seconds from the window's beginning.
        seconds: How long.
        lane: Number of the place among the nodes that are out of service.
        units: Pool -> numbers of the things that it takes.
    """

    node: str
    benchmark: str
    start: float
    seconds: float
    lane: int
    units: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Who runs what when.

    Attributes:
        slots: The runs, by start.
        gaps: Lane and the second from which on it is free, for lanes that have time left.
        waiting: Nodes whose jobs found no room.
    """

    slots: tuple[Slot, ...]
    gaps: tuple[tuple[int, float], ...]
    waiting: tuple[str, ...]


Filler = Callable[[float], "Job | None"]
"""Gets the seconds that a lane has left, and returns a job without pools that is at most as long."""


def schedule(
    jobs: Iterable[Job],
    *,
    lanes: int,
    seconds: float,
    pools: Mapping[str, int],
    filler: Filler | None = None,
) -> Schedule:
    """Place jobs in a window.

    Args:
        jobs: One a node.
        lanes: How many nodes may be out of service at a time.
        seconds: Length of the window.
        pools: Scarce things -> how many there are.
        filler: Asked for more work when nothing that waits fits into what is left of a lane.
    """
    return _Placing(lanes, seconds, pools).run(jobs, filler)


class _Placing:
    def __init__(self, lanes: int, seconds: float, pools: Mapping[str, int]) -> None:
        self._end = seconds + _EPS
        self._patience = _PATIENCE * seconds
        self._lanes = [(0.0, lane) for lane in range(lanes)]
        self._free = {pool: [0.0] * count for pool, count in pools.items()}
        self._plain: list[tuple[float, str, Job]] = []
        self._pooled: dict[tuple[str, ...], list[tuple[float, str, Job]]] = {}
        self._slots: list[Slot] = []
        self._waiting: list[str] = []

    def run(self, jobs: Iterable[Job], filler: Filler | None) -> Schedule:
        given = list(jobs)
        for job in given:
            self._queue(job)
        if len(self._lanes) >= len(given):  # a lane for everybody: waiting costs nothing
            self._patience = float("inf")
        gaps = []
        while self._lanes:
            now, lane = heapq.heappop(self._lanes)
            end = self._next(now, lane)
            if end is None and filler is not None:
                more = filler(self._end - _EPS - now)
                end = None if more is None else self._place(more, now, lane)
            if end is None:
                gaps.append((lane, now))  # what does not fit now never will: time goes on
            else:
                heapq.heappush(self._lanes, (end, lane))
        rest = [*self._plain, *(job for queue in self._pooled.values() for job in queue)]
        self._waiting += [node for _, node, _ in rest]
        order = sorted(self._slots, key=lambda slot: (slot.start, slot.lane))
        return Schedule(slots=tuple(order), gaps=tuple(gaps), waiting=tuple(sorted(self._waiting)))

    def _queue(self, job: Job) -> None:
        queue = self._pooled.setdefault(job.pools, []) if job.pools else self._plain
        heapq.heappush(queue, (-job.rank, job.node, job))

    def _next(self, now: float, lane: int) -> float | None:
        """Place the next job on a lane that is free now; return when it ends, None if none fits."""
        end = self._next_pooled(now, lane, wait=False)
        while end is None and self._plain:
            job = heapq.heappop(self._plain)[2]
            if now + job.seconds <= self._end:
                end = self._place(job, now, lane)
            else:  # nor on any lane that becomes free later
                self._waiting.append(job.node)
        return self._next_pooled(now, lane, wait=True) if end is None else end

    def _next_pooled(self, now: float, lane: int, *, wait: bool) -> float | None:
        queues = sorted((queue[0], pools) for pools, queue in self._pooled.items() if queue)
        for (_, _, job), pools in queues:
            ready = self._ready(job)
            begin = max(now, ready) if wait else now
            if not wait and ready > now + _EPS:
                continue
            late = begin + job.seconds > self._end
            if not late and (job.pinned or begin - now <= self._patience):
                end = self._place(job, begin, lane)
                if end is not None:
                    heapq.heappop(self._pooled[pools])
                    return end
            if not (wait or late):
                continue
            heapq.heappop(self._pooled[pools])
            plain = job.without_pools()
            if plain.runs:
                self._queue(plain)
                if wait:
                    return self._next(now, lane)
            else:
                self._waiting.append(job.node)
            return self._next_pooled(now, lane, wait=wait)
        return None

    def _ready(self, job: Job) -> float:
        """Return when the first of its runs could begin that needs a pool."""
        return min(self._when(job, name) for name, _ in job.runs if job.needs.get(name))

    def _when(self, job: Job, name: str) -> float:
        return max(sorted(self._free[pool])[count - 1] for pool, count in job.needs[name].items())

    def _place(self, job: Job, begin: float, lane: int) -> float | None:
        """Place a job's runs one after the other; None if it would end or wait too long."""
        kept = {pool: list(free) for pool, free in self._free.items()} if job.pools else {}
        pooled = [run for run in job.runs if job.needs.get(run[0])]
        plain = sorted(
            (run for run in job.runs if not job.needs.get(run[0])), key=lambda run: run[1]
        )
        now, slots = begin, []
        while pooled or plain:
            first = min(pooled, key=lambda run: (self._when(job, run[0]), run[0]), default=None)
            if first is not None and (not plain or self._when(job, first[0]) <= now + _EPS):
                pooled.remove(first)
                now = max(now, self._when(job, first[0]))
                name, length = first
            else:
                name, length = plain.pop()
            units = self._take(job.needs.get(name, {}), now + length)
            slots.append(
                Slot(
                    node=job.node, benchmark=name, start=now, seconds=length, lane=lane, units=units
                )
            )
            now += length
        waited = now - begin - job.seconds
        if now > self._end or (waited > self._patience and not job.pinned):
            self._free |= kept
            return None
        self._slots += slots
        return now

    def _take(self, needs: Mapping[str, int], until: float) -> dict[str, tuple[int, ...]]:
        taken = {}
        for pool, count in needs.items():
            free = self._free[pool]
            units = sorted(range(len(free)), key=free.__getitem__)[:count]
            for unit in units:
                free[unit] = until
            taken[pool] = tuple(units)
        return taken


def violations(
    slots: Sequence[Slot],
    *,
    seconds: float,
    at_once: int | None,
    pools: Mapping[str, int],
    needs: Mapping[str, Mapping[str, int]],
) -> list[str]:
    """Return what is wrong with a schedule, one line each: reckoned from its runs alone.

    Args:
        slots: The runs.
        seconds: Length of the window.
        at_once: How many nodes may be out of service at a time; None: all.
        pools: Scarce things -> how many there are.
        needs: Benchmark -> pool -> how many of it.
    """
    wrong = [
        f"{one.node}: {one.benchmark} is outside of the window"
        for one in slots
        if one.start < -_EPS or one.start + one.seconds > seconds + 2 * _EPS
    ]
    spans: dict[str, tuple[float, float]] = {}
    busy: dict[tuple[str, str], list[tuple[float, int]]] = {}
    for one in slots:
        begin, end = spans.get(one.node, (one.start, one.start))
        spans[one.node] = (min(begin, one.start), max(end, one.start + one.seconds))
        events = [(one.start + 2 * _EPS, 1), (one.start + one.seconds - _EPS, -1)]
        busy.setdefault(("node", one.node), []).extend(events)
        for pool, count in needs.get(one.benchmark, {}).items():
            if len(set(one.units.get(pool, ()))) != count:
                wrong.append(f"{one.node}: {one.benchmark} lacks its {pool}")
            for unit in one.units.get(pool, ()):
                if not 0 <= unit < pools[pool]:
                    wrong.append(f"{one.node}: there is no {pool} {unit}")
                busy.setdefault((pool, str(unit)), []).extend(events)
    for (kind, name), events in busy.items():
        if _peak(events) > 1:
            wrong.append(f"{kind} {name} does two things at once")
    out = [(b + 2 * _EPS, 1) for b, _ in spans.values()] + [
        (e - _EPS, -1) for _, e in spans.values()
    ]
    if at_once is not None and _peak(out) > at_once:
        wrong.append(f"{_peak(out)} nodes are out of service at once, {at_once} may be")
    return wrong


def _peak(events: Iterable[tuple[float, int]]) -> int:
    now = most = 0
    for _, change in sorted(events):
        now += change
        most = max(most, now)
    return most
