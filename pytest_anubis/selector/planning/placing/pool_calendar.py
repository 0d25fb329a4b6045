"""Calendars of the units of pools (resources that nodes share in a window): when each unit is free.

`node_fitting` and `window_schedule` use it.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Mapping
from typing import NamedTuple

EPS = 1e-6
"""Seconds by which a sum of durations may be off."""


class Hole(NamedTuple):
    """A time, in seconds from the window's beginning, in which one unit of a pool is free."""

    begin: float
    end: float
    unit: int


class FreeUnit(NamedTuple):
    """A unit of a pool that a run could hold, and the time in which it is free."""

    pool: str
    unit: int
    since: float
    until: float


HeldUnits = Mapping[tuple[str, int], float]
"""Pool and unit -> until when earlier runs of the node being fitted hold it; not yet in the calendar."""


class PoolCalendar:
    """The holes of all pools; at first each unit is free for the whole window.

    Attributes:
        seconds: Length of the window.
        holes: Pool -> its holes, by their beginning.
        shortest: Pool -> seconds of the shortest run that needs it: shorter holes are of no use.
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
        """Mark a unit as busy from start to end; the rest of its hole on both sides stays free.

        Raises:
            ValueError: The unit is not free for all of that time.
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
        """Drop the holes that no run starting now (in seconds) or later can use."""
        for pool, holes in self.holes.items():
            least = now + self.shortest[pool] - EPS
            self.holes[pool] = [hole for hole in holes if hole.end >= least]

    def free(
        self, needs: Mapping[str, int], start: float, end: float, held: HeldUnits
    ) -> list[FreeUnit] | None:
        """Return units for a run from start to end, those that became free last; None if too few are free.

        `needs` has pool -> number of units; `held` are the units that earlier runs of the same node hold.
        """
        found: list[FreeUnit] = []
        soon, late = start + EPS, end - EPS
        for pool, count in needs.items():
            fitting: list[tuple[float, int, float]] = []  # the latest beginning first
            for begin, until, unit in self.holes[pool]:
                if begin > soon:
                    break
                if until >= late:
                    since = max(begin, held.get((pool, unit), begin)) if held else begin
                    if since <= soon:
                        fitting.append((-since, unit, until))
            if len(fitting) < count:
                return None
            best = [min(fitting)] if count == 1 else sorted(fitting)[:count]
            found += [FreeUnit(pool, unit, -since, until) for since, unit, until in best]
        return found
