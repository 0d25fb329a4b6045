"""The plan of one window for a fleet: who runs what when, what is left out, what more time would bring."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pytest_anubis.selector.planning.fleet_coverage import Bools, ClassCoverage, Floats
from pytest_anubis.selector.planning.window_bound import node_bounds
from pytest_anubis.selector.planning.window_problem import (
    LANES,
    NodeCase,
    Population,
    Window,
    misfits,
    population,
)
from pytest_anubis.selector.planning.window_schedule import Job, Schedule, Slot, schedule
from pytest_anubis.selector.planning.window_solver import (
    Library,
    best_prices,
    choose_all,
    make_library,
)
from pytest_anubis.selector.selector_error import SelectorError

HOUR = 3600.0
_SPARE = 3
"""Nodes that wait for each lane among whom work for what is left of the lanes is sought: the worthiest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedNode:
    """A node of the plan.

    Attributes:
        node: Its name.
        hardware_class: Its class.
        runs: Its runs in their order; none where it is left out.
        before: Probability of an incident within the horizon without the window.
        after: The same once all of its runs have passed.
        spared: Seconds of incidents that its runs spare.
    """

    node: str
    hardware_class: str
    runs: tuple[Slot, ...]
    before: float
    after: float
    spared: float

    @property
    def start(self) -> float:
        """When it leaves service, seconds from the window's beginning."""
        return min((run.start for run in self.runs), default=0.0)

    @property
    def end(self) -> float:
        """When it comes back."""
        return max((run.start + run.seconds for run in self.runs), default=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowPlan:
    """What a window should validate.

    Attributes:
        nodes: Every node, those that run something first, by start.
        left_out: Benchmarks that no node can run in this window -> why.
        spared: Seconds of incidents that are spared in all.
        spent: Seconds of nodes that validation takes.
        value: What is spared less the worth of what is spent.
        bound: No plan can have a larger value.
        hour: What another hour of the window would add to the value, about.
        one_more: Resource -> what one more of it would add, about.
        used: Resource -> share of its time that the plan takes.
        unpinned: Nodes whose pinned benchmarks found no room.
    """

    nodes: tuple[PlannedNode, ...]
    left_out: Mapping[str, str]
    spared: float
    spent: float
    value: float
    bound: float
    hour: float
    one_more: Mapping[str, float]
    used: Mapping[str, float]
    unpinned: tuple[str, ...] = ()

    @property
    def gap(self) -> float:
        """Share of the bound that the plan may lack."""
        return max(0.0, 1 - self.value / self.bound) if self.bound > 0 else 0.0


def plan_window(
    cases: Sequence[NodeCase], coverage: Mapping[str, ClassCoverage], window: Window
) -> WindowPlan:
    """Plan a window.

    Args:
        cases: The nodes that could be validated; each at most once.
        coverage: Hardware class -> what its benchmarks expose; of every class of a node.
        window: What there is.

    Raises:
        SelectorError: The window or what it offers makes no sense.
    """
    _check(cases, window)
    classes = sorted({case.hardware_class for case in cases})
    populations = [
        population([c for c in cases if c.hardware_class == key], coverage[key], window)
        for key in classes
    ]
    left_out = {
        name: why
        for key in classes
        for name, why in misfits(coverage[key].benchmarks, coverage[key].seconds, window).items()
    }
    whole = window.capacity()
    pinned = sum((pop.pins @ pop.use).sum(axis=0) for pop in populations)
    room = np.maximum(whole - pinned, whole * 1e-9)  # what is pinned may take all, or more
    usable = whole > 0
    libraries = [make_library(pop, window.worth) for pop in populations]
    prices = np.zeros(len(whole))
    narrowed = [
        replace(lib, use=lib.use[:, usable], rebate=_only(lib, usable)) for lib in libraries
    ]
    prices[usable] = best_prices(narrowed, room[usable])
    chosen = choose_all(populations, libraries, room, prices, window.worth)
    made = _scheduled(populations, libraries, chosen, window)
    bounds = []
    for pop, own in zip(populations, chosen, strict=True):
        of_each = window.worth * pop.seconds + pop.use @ prices
        bounds.append(node_bounds(pop, of_each, own))
    bound = float(prices @ room) + sum(float(b.sum()) for b in bounds)
    bound += sum(float(pop.pinned_worth.sum()) for pop in populations)
    return _plan(classes, populations, made, window, left_out, bound, prices)


def _only(library: Library, usable: Bools) -> Floats | None:
    return None if library.rebate is None else library.rebate[:, :, usable]


def _check(cases: Sequence[NodeCase], window: Window) -> None:
    if not cases:
        raise SelectorError("there is no node to plan for")
    if not 0 < window.seconds < float("inf"):
        raise SelectorError(f"the window has {window.seconds!r} s; give a positive length")
    if window.at_once is not None and window.at_once < 1:
        raise SelectorError("at least one node has to be out of service at a time")
    for benchmark, needs in window.needs.items():
        for pool, count in needs.items():
            if pool not in window.pools:
                known = ", ".join(sorted(window.pools)) or "none"
                raise SelectorError(
                    f"{benchmark} needs {pool!r}, which is no pool of this window (there is: {known})"
                )
            if count < 1:
                raise SelectorError(f"{benchmark} needs {count} of {pool!r}; give 1 or more")
    if any(count < 0 for count in window.pools.values()):
        raise SelectorError("a pool has a negative amount; give 0 or more")


def _scheduled(
    populations: Sequence[Population],
    libraries: Sequence[Library],
    chosen: Sequence[Bools],
    window: Window,
) -> Schedule:
    jobs: list[Job] = []
    idle: list[tuple[float, int, int]] = []
    busy: list[tuple[float, int, int]] = []
    for place, (pop, own) in enumerate(zip(populations, chosen, strict=True)):
        full = own | pop.pins
        for row in range(len(pop.names)):
            runs = tuple(
                (pop.benchmarks[b], float(pop.seconds[b]))
                for b in np.flatnonzero(full[row]).tolist()
            )
            rank = float(pop.before[row])
            pins = frozenset(pop.benchmarks[b] for b in np.flatnonzero(pop.pins[row]).tolist())
            if pins:
                rank += (
                    1e12  # what has to run goes before what pays: beyond all incidents of a fleet
                )
            if runs:
                jobs.append(
                    Job(node=pop.names[row], rank=rank, runs=runs, needs=window.needs, pins=pins)
                )
            if not pins:
                (busy if runs else idle).append((-rank, place, row))
    lanes = len(jobs) if window.at_once is None else min(window.at_once, len(jobs))
    # Without a limit everybody who is worth it has a lane: idle ones are worth nothing.
    waiting = sorted(idle)[: _SPARE * (window.at_once or 0)]
    more = _Spare(populations, libraries, waiting, busy, window)
    return schedule(jobs, lanes=lanes, seconds=window.seconds, pools=window.pools, filler=more)


class _Spare:
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
            # Of all sets up to each length the best, a row for each: then one look-up tells what fits best.
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


def _plan(
    classes: Sequence[str],
    populations: Sequence[Population],
    made: Schedule,
    window: Window,
    left_out: Mapping[str, str],
    bound: float,
    prices: Floats,
) -> WindowPlan:
    by_node: dict[str, list[Slot]] = {}
    for slot in made.slots:
        by_node.setdefault(slot.node, []).append(slot)
    nodes: list[PlannedNode] = []
    unpinned: list[str] = []
    value = spent = spared = 0.0
    used = np.zeros(len(prices))
    for key, pop in zip(classes, populations, strict=True):
        column = {name: place for place, name in enumerate(pop.benchmarks)}
        runs = np.zeros((len(pop.names), len(pop.benchmarks)), dtype=np.bool_)
        for row, name in enumerate(pop.names):
            for slot in by_node.get(name, ()):
                runs[row, column[slot.benchmark]] = True
        done = ~(pop.pins & ~runs).any(axis=1)
        took = runs @ pop.seconds
        own_pins = pop.pins @ pop.seconds
        gained = pop.value(runs & ~pop.pins)
        gained += np.where(done, pop.pinned_worth + window.worth * own_pins, 0.0)
        value += float((gained - window.worth * took).sum())
        spent += float(took.sum())
        spared += float(gained.sum())
        used += (runs @ pop.use).sum(axis=0)
        unpinned += [
            name for name, ok in zip(pop.names, np.atleast_1d(done).tolist(), strict=True) if not ok
        ]
        risk = pop.before / window.incident_seconds
        after = np.maximum(0.0, pop.before - gained) / window.incident_seconds
        nodes += [
            PlannedNode(
                node=name,
                hardware_class=key,
                runs=tuple(by_node.get(name, ())),
                before=float(risk[row]),
                after=float(after[row]),
                spared=float(gained[row]),
            )
            for row, name in enumerate(pop.names)
        ]
    capacity, names = window.capacity(), window.resources
    counts = [window.at_once or 0 if n == LANES else window.pools[n] for n in names]
    return WindowPlan(
        nodes=tuple(
            sorted(nodes, key=lambda one: (not one.runs, one.start, -one.before, one.node))
        ),
        left_out=dict(sorted(left_out.items())),
        spared=spared,
        spent=spent,
        value=value,
        bound=max(bound, value),
        hour=float(sum(p * c for p, c in zip(prices.tolist(), counts, strict=True))) * HOUR,
        one_more={n: p * window.seconds for n, p in zip(names, prices.tolist(), strict=True)},
        used={
            n: u / c if c > 0 else 0.0
            for n, u, c in zip(names, used.tolist(), capacity.tolist(), strict=True)
        },
        unpinned=tuple(sorted(unpinned)),
    )
