"""When each node runs what it was chosen for: one node after the other on each lane, the riskiest first.

A lane is a place among the nodes that may be out of service at a time. A lane that becomes free takes the
waiting job of the node that is worth most and still ends within the window; a job that needs a pool goes
first whenever it comes through without waiting, its other runs put before what it needs, so that what is
scarce never idles. Others go on while it waits; once none is left it waits as long as the window allows. Only
a job that cannot end within the window any more goes without its pools, and without anything if that is too
long as well: then a shorter one of the same node may fill what is left of a lane.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

_EPS = 1e-6
"""Seconds by which a sum of durations may be off."""
_PATIENCE = 0.02
"""Share of its own seconds for which a job may hold a lane idle while others wait for the lane."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What one node is to run.

    Attributes:
        node: Its name.
        rank: Jobs of a higher one go first.
        runs: Benchmark and its seconds.
        needs: Benchmark -> pool -> how many of it.
        pins: Those of its benchmarks that have to run: the others are given up for them.
    """

    node: str
    rank: float
    runs: tuple[tuple[str, float], ...]
    needs: Mapping[str, Mapping[str, int]]
    pins: frozenset[str] = frozenset()

    @property
    def seconds(self) -> float:
        """How long all runs take."""
        return sum(length for _, length in self.runs)

    @property
    def pools(self) -> tuple[str, ...]:
        """The pools that it needs, sorted."""
        return tuple(sorted({pool for name, _ in self.runs for pool in self.needs.get(name, ())}))

    def shortened(self) -> Job | None:
        """Return what is left without what has not to run, or else without the pools; None if nothing is."""
        runs = tuple(run for run in self.runs if run[0] in self.pins)
        if len(runs) in (0, len(self.runs)):
            runs = tuple(run for run in self.runs if not self.needs.get(run[0]))
        return replace(self, runs=runs) if 0 < len(runs) < len(self.runs) else None


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


class Filler(Protocol):
    """More work, for what nothing that waits fits into."""

    def job(self, seconds: float) -> Job | None:
        """Return a job without pools that is at most as long, of a node that has none; None without one."""

    def offer(self, node: str) -> None:
        """Take a node whose own job found no room: a shorter one may."""


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
    return _Placing(lanes, seconds, pools, filler).run(jobs)


@dataclass(frozen=True, slots=True, eq=False)
class _Trial:
    """A job as it would run on a lane: its slots, the pools' units afterwards, its end, its idle seconds."""

    job: Job
    slots: list[Slot]
    free: dict[str, list[float]]
    end: float
    waited: float


class _Placing:
    def __init__(
        self, lanes: int, seconds: float, pools: Mapping[str, int], filler: Filler | None
    ) -> None:
        self._end = seconds + _EPS
        self._lanes = [(0.0, lane) for lane in range(lanes)]
        self._free = {pool: [0.0] * count for pool, count in pools.items()}
        self._filler = filler
        self._plain: list[tuple[float, str, Job]] = []
        self._pooled: dict[tuple[str, ...], list[tuple[float, str, Job]]] = {}
        self._slots: list[Slot] = []

    def run(self, jobs: Iterable[Job]) -> Schedule:
        given = list(jobs)
        for job in given:
            self._queue(job)
        gaps: list[tuple[int, float]] = []
        while self._lanes:
            now, lane = heapq.heappop(self._lanes)
            end = self._next(now, lane)
            if end is None:
                gaps.append((lane, now))  # what does not fit now never will: time goes on
            else:
                heapq.heappush(self._lanes, (end, lane))
        placed = {slot.node for slot in self._slots}
        return Schedule(
            slots=tuple(sorted(self._slots, key=lambda slot: (slot.start, slot.lane))),
            gaps=tuple(gaps),
            waiting=tuple(sorted({job.node for job in given} - placed)),
        )

    def _queue(self, job: Job) -> None:
        queue = self._pooled.setdefault(job.pools, []) if job.pools else self._plain
        heapq.heappush(queue, (-job.rank, job.node, job))

    def _next(self, now: float, lane: int) -> float | None:
        """Place the next job on a lane that is free now; return when it ends, None if none fits."""
        # The fullest first: a job that gives something up comes back where fewer pools are needed.
        queues = sorted(self._pooled.items(), key=lambda item: (-len(item[0]), item[0]))
        trials = [self._head(queue, now, lane) for _, queue in queues]
        heads = sorted(
            (trial for trial in trials if trial is not None),
            key=lambda trial: (-trial.job.rank, trial.job.node),
        )
        plain = self._head(self._plain, now, lane)
        kept: set[str] = set()  # pools that a pinned job waits for
        for trial in heads:
            job = trial.job
            behind = not kept.isdisjoint(job.pools) or (plain is not None and bool(plain.job.pins))
            if trial.waited <= _PATIENCE * job.seconds and (job.pins or not behind):
                return self._place(trial)
            if job.pins:
                kept |= set(job.pools)
        if plain is not None:
            return self._place(plain)
        first = min(heads, key=lambda trial: (not trial.job.pins, trial.waited), default=None)
        room = self._end - _EPS - now
        extra = self._filler and self._filler.job(room if first is None else first.waited)
        if extra:
            return self._place(self._trial(extra, now, lane))
        return None if first is None else self._place(first)

    def _head(self, queue: list[tuple[float, str, Job]], now: float, lane: int) -> _Trial | None:
        """Return how the first job of a queue would run; those that end too late give something up."""
        while queue:
            trial = self._trial(queue[0][2], now, lane)
            if trial.end <= self._end:
                return trial
            job = heapq.heappop(queue)[2]  # on a lane that becomes free later it ends later still
            less = job.shortened()
            if less is not None:
                self._queue(less)
            elif self._filler is not None:
                self._filler.offer(job.node)
        return None

    def _trial(self, job: Job, now: float, lane: int) -> _Trial:
        """Run a job's runs one after the other: while a pool is busy, others that fit in before."""
        free = {pool: list(self._free[pool]) for pool in job.pools}

        def when(run: tuple[str, float]) -> tuple[float, str]:
            needs = job.needs[run[0]].items()
            return max(sorted(free[pool])[count - 1] for pool, count in needs), run[0]

        pooled = [run for run in job.runs if job.needs.get(run[0])]
        plain = sorted(
            (run for run in job.runs if not job.needs.get(run[0])), key=lambda run: run[1]
        )
        time, slots = now, []
        while pooled or plain:
            run, at = plain[-1] if plain else pooled[0], time
            if pooled:
                run = min(pooled, key=when)
                at = max(time, when(run)[0])
                idle = at - time
                if plain and idle > _EPS:
                    short = [one for one in plain if one[1] <= idle + _EPS]
                    # Of the lane and what it waits for, whichever would idle for less may.
                    if short or idle > plain[0][1] - idle:
                        run, at = (short or plain[:1])[-1], time
            (pooled if job.needs.get(run[0]) else plain).remove(run)
            name, length = run
            units = _taken(free, job.needs.get(name, {}), at + length)
            slots.append(
                Slot(
                    node=job.node, benchmark=name, start=at, seconds=length, lane=lane, units=units
                )
            )
            time = at + length
        return _Trial(job, slots, free, time, time - now - job.seconds)

    def _place(self, trial: _Trial) -> float:
        """Have a job run as tried; return when it ends."""
        job = trial.job
        queue = self._pooled[job.pools] if job.pools else self._plain
        if queue and queue[0][2] is job:  # work that a filler found waits nowhere
            heapq.heappop(queue)
        self._free |= trial.free
        self._slots += trial.slots
        return trial.end


def _taken(
    free: dict[str, list[float]], needs: Mapping[str, int], until: float
) -> dict[str, tuple[int, ...]]:
    """Take of each pool the units that are free first; return their numbers."""
    taken = {}
    for pool, count in needs.items():
        own = free[pool]
        units = sorted(range(len(own)), key=own.__getitem__)[:count]
        for unit in units:
            own[unit] = until
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
