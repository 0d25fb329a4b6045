"""Backfilling: find a short set of benchmarks, for a node that runs nothing yet, for the rest of a lane.

`window_schedule` and `window_solution` use it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pytest_anubis.selector.planning.fleet_coverage import Bools
from pytest_anubis.selector.planning.placing.schedule_records import Job
from pytest_anubis.selector.planning.window_problem import NodeGroup, Window
from pytest_anubis.selector.planning.window_solver import Columns

RankedNode = tuple[float, int, int]
"""Negative rank of a node, place of its group, row in the group."""


class Backfill:
    """The nodes that may still run something: those without a choice, and those whose job found no room.

    Nothing was chosen for the `idle` nodes, given with the riskiest first; the `busy` ones have a job, and
    count once `release` is called. Sets that need a pool of the window are not used.
    """

    def __init__(
        self,
        groups: Sequence[NodeGroup],
        columns: Sequence[Columns],
        idle: Sequence[RankedNode],
        busy: Sequence[RankedNode],
        window: Window,
    ) -> None:
        self._needs = window.needs
        self._parts = []
        self._excluded: list[Bools] = []
        self._at: dict[str, tuple[int, int]] = {}
        for place, (group, own) in enumerate(zip(groups, columns, strict=True)):
            idle_rows = [row for _, of, row in idle if of == place]
            rows = np.array([*idle_rows, *(row for _, of, row in busy if of == place)], np.int64)
            self._excluded.append(np.arange(len(rows)) >= len(idle_rows))
            for at, row in enumerate(rows[len(idle_rows) :].tolist(), start=len(idle_rows)):
                self._at[group.names[row]] = (place, at)
            needing = [bool(window.needs.get(name)) for name in group.benchmarks]
            order = np.flatnonzero(~own.sets[:, needing].any(axis=1))
            order = order[np.argsort(own.seconds[order], kind="stable")]
            # The best value of all sets up to each length, a row for each, so that one look-up is enough.
            best = np.maximum.accumulate(own.value.T[np.ix_(order, rows)], axis=0)
            self._parts.append((group, own, rows, order, best))

    def release(self, node: str) -> None:
        """Admit a node whose own job found no room, since a shorter one may."""
        if node in self._at:
            place, at = self._at[node]
            self._excluded[place][at] = False

    def job(self, seconds: float) -> Job | None:
        """Return the job that spares most in at most these seconds; its node is then excluded."""
        found: tuple[float, int, int, int] | None = None
        for place, (_, own, rows, order, best) in enumerate(self._parts):
            fitting = int(np.searchsorted(own.seconds[order], seconds, side="right"))
            if not fitting or not len(rows):
                continue
            values = np.where(self._excluded[place], -1.0, best[fitting - 1])
            at = int(np.argmax(values))
            if values[at] > 0 and (found is None or values[at] > found[0]):
                found = (float(values[at]), place, at, fitting)
        if found is None:
            return None
        _, place, at, fitting = found
        group, own, rows, order, best = self._parts[place]
        self._excluded[place][at] = True
        row = int(rows[at])
        # The running maximum reaches its final value at the set itself.
        column = order[int(np.flatnonzero(best[:fitting, at] >= best[fitting - 1, at])[0])]
        runs = tuple(
            (group.benchmarks[b], float(group.seconds[b]))
            for b in np.flatnonzero(own.sets[column]).tolist()
        )
        return Job(
            node=group.names[row], rank=float(group.before[row]), runs=runs, needs=self._needs
        )
