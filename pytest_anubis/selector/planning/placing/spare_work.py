"""Work for what is left of a lane: short sets of benchmarks, of nodes that run nothing yet."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pytest_anubis.selector.planning.fleet_coverage import Bools
from pytest_anubis.selector.planning.placing.schedule_records import Job
from pytest_anubis.selector.planning.window_problem import Population, Window
from pytest_anubis.selector.planning.window_solver import Library


class SpareWork:
    """Finds work for what is left of a lane among nodes that run nothing yet, the worthiest first.

    They are nodes that nothing was chosen for, and those whose own choice found no room.
    """

    def __init__(
        self,
        populations: Sequence[Population],
        libraries: Sequence[Library],
        idle: Sequence[tuple[float, int, int]],
        busy: Sequence[tuple[float, int, int]],
        window: Window,
    ) -> None:
        self._needs = window.needs
        self._parts = []
        self._gone: list[Bools] = []
        self._at: dict[str, tuple[int, int]] = {}
        for place, (pop, library) in enumerate(zip(populations, libraries, strict=True)):
            own = [row for _, of, row in idle if of == place]
            rows = np.array([*own, *(row for _, of, row in busy if of == place)], dtype=np.int64)
            self._gone.append(np.arange(len(rows)) >= len(own))
            names = (pop.names[row] for row in rows[len(own) :].tolist())
            self._at |= {name: (place, at) for at, name in enumerate(names, start=len(own))}
            needing = [bool(window.needs.get(name)) for name in pop.benchmarks]
            plain = ~library.sets[:, needing].any(axis=1)
            order = np.flatnonzero(plain)
            order = order[np.argsort(library.seconds[order], kind="stable")]
            # Of all sets up to each length the best, a row for each: then one look-up says what fits best.
            best = np.maximum.accumulate(library.worth.T[np.ix_(order, rows)], axis=0)
            self._parts.append((pop, library, rows, order, best))

    def offer(self, node: str) -> None:
        """Take a node whose own job found no room: a shorter one may."""
        if node in self._at:
            place, at = self._at[node]
            self._gone[place][at] = False

    def job(self, seconds: float) -> Job | None:
        """Return the work that spares most in at most these seconds."""
        found: tuple[float, int, int, int] | None = None
        for place, (_, library, rows, order, best) in enumerate(self._parts):
            fitting = int(np.searchsorted(library.seconds[order], seconds, side="right"))
            if not fitting or not len(rows):
                continue
            values = np.where(self._gone[place], -1.0, best[fitting - 1])
            at = int(np.argmax(values))
            if values[at] > 0 and (found is None or values[at] > found[0]):
                found = (float(values[at]), place, at, fitting)
        if found is None:
            return None
        _, place, at, fitting = found
        pop, library, rows, order, best = self._parts[place]
        self._gone[place][at] = True
        row = int(rows[at])
        # The best so far is reached first where the set itself stands.
        column = order[int(np.flatnonzero(best[:fitting, at] >= best[fitting - 1, at])[0])]
        runs = tuple(
            (pop.benchmarks[b], float(pop.seconds[b]))
            for b in np.flatnonzero(library.sets[column]).tolist()
        )
        return Job(node=pop.names[row], rank=float(pop.before[row]), runs=runs, needs=self._needs)
