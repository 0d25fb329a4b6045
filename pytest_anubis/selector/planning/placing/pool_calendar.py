"""When the things of a pool are free: the holes in each one's calendar, which later work may fill."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Mapping
from typing import NamedTuple

EPS = 1e-6
"""Seconds by which a sum of durations may be off."""


class Hole(NamedTuple):
    """A time in which one thing of a pool is free.

    Attributes:
        begin: Seconds from the window's beginning.
        end: The same.
        unit: Number of the thing.
    """

    begin: float
    end: float
    unit: int


class Taken(NamedTuple):
    """A thing that a run would take.

    Attributes:
        pool: Of which pool.
        unit: Its number.
        since: Since when it has been free.
        until: Until when it is free.
    """

    pool: str
    unit: int
    since: float
    until: float


Own = Mapping[tuple[str, int], float]
"""What earlier runs of the node that is being fitted take: pool and number -> until when. Not noted yet."""


class PoolCalendar:
    """The holes of all pools; at first each thing is free for the whole window.

    Attributes:
        seconds: Length of the window.
        holes: Pool -> its holes, by their beginning.
        shortest: Pool -> seconds of the shortest run that takes it: a hole below that serves nobody.
    """

    def __init__(
        self, pools: Mapping[str, int], seconds: float, shortest: Mapping[str, float]
    ) -> None:
        self.seconds = seconds
        self.shortest = {pool: shortest.get(pool, 0.0) for pool in pools}
        self.holes = {
            pool: [Hole(0.0, seconds, unit) for unit in range(count)]
            for pool, count in pools.items()
        }

    def take(self, pool: str, unit: int, start: float, end: float) -> None:
        """Note that a thing is busy; what is left of its hole on both sides stays free.

        Args:
            pool: Its pool.
            unit: Its number.
            start: Seconds from the window's beginning.
            end: The same.

        Raises:
            ValueError: The thing is not free for all of that time.
        """
        holes = self.holes[pool]
        for place in range(bisect_right(holes, (start + EPS, float("inf"), 0)) - 1, -1, -1):
            begin, until, free = holes[place]
            if free == unit and until >= end - EPS:
                del holes[place]
                for rest in (Hole(begin, start, unit), Hole(end, until, unit)):
                    if rest.end - rest.begin >= max(self.shortest[pool] - EPS, EPS):
                        insort(holes, rest)
                return
        raise ValueError(f"{pool} {unit} is not free from {start} s to {end} s")

    def forget(self, now: float) -> None:
        """Drop the holes that nothing can fill any more that starts now (in seconds) or later."""
        for pool, holes in self.holes.items():
            least = now + self.shortest[pool] - EPS
            self.holes[pool] = [hole for hole in holes if hole.end >= least]

    def free(
        self, needs: Mapping[str, int], start: float, end: float, own: Own
    ) -> list[Taken] | None:
        """Return the things that a run would take, those that have been free for the shortest time.

        Args:
            needs: Pool -> how many of it.
            start: When it begins, seconds from the window's beginning.
            end: When it ends.
            own: What earlier runs of the same node take.

        Returns:
            None if too few are free.
        """
        found: list[Taken] = []
        soon, late = start + EPS, end - EPS
        for pool, count in needs.items():
            fitting: list[tuple[float, int, float]] = []  # the latest beginning first
            for begin, until, unit in self.holes[pool]:
                if begin > soon:
                    break
                if until >= late:
                    since = max(begin, own.get((pool, unit), begin)) if own else begin
                    if since <= soon:
                        fitting.append((-since, unit, until))
            if len(fitting) < count:
                return None
            best = [min(fitting)] if count == 1 else sorted(fitting)[:count]
            found += [Taken(pool, unit, -since, until) for since, unit, until in best]
        return found
