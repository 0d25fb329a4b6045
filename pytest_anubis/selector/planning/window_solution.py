"""One window solved: prices, each node's choice, the schedule, and what no plan of it can exceed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from pytest_anubis.selector.planning.fleet_coverage import Bools, ClassCoverage, Floats
from pytest_anubis.selector.planning.placing.node_fitting import Rates
from pytest_anubis.selector.planning.placing.schedule_records import Job, Slot
from pytest_anubis.selector.planning.placing.spare_work import SpareWork
from pytest_anubis.selector.planning.placing.window_schedule import schedule
from pytest_anubis.selector.planning.window_bound import node_bounds
from pytest_anubis.selector.planning.window_problem import (
    LANES,
    NodeCase,
    Population,
    Window,
    population,
)
from pytest_anubis.selector.planning.window_solver import (
    Library,
    best_prices,
    choose_all,
    extended,
    make_library,
)

_SPARE = 3
"""Nodes that wait for each lane among whom work for what is left of the lanes is sought: the worthiest."""
_FLOOR = 0.05
"""Of the price of a pool's second: the least that a second of a lane is reckoned with. Where places are
plenty a pause costs nothing, but a node that comes back sooner is better than one that comes back later."""


class Problem:
    """Nodes and what their benchmarks expose, solved for as many windows as are asked for.

    Attributes:
        classes: The hardware classes, sorted.
    """

    def __init__(self, cases: Sequence[NodeCase], coverage: Mapping[str, ClassCoverage]) -> None:
        self.classes = tuple(sorted({case.hardware_class for case in cases}))
        self._coverage = coverage
        self._cases = {
            key: [case for case in cases if case.hardware_class == key] for key in self.classes
        }
        self._libraries: dict[object, list[Library]] = {}

    def solve(self, window: Window) -> Solution:
        """Return a plan of a window that is near the best."""
        populations = [
            population(self._cases[key], self._coverage[key], window) for key in self.classes
        ]
        whole = window.capacity()
        pinned = sum((pop.pins @ pop.use).sum(axis=0) for pop in populations)
        room = np.maximum(whole - pinned, whole * 1e-9)  # what is pinned may take all, or more
        libraries = self._sets(populations, window)
        prices = _prices(libraries, room, whole > 0)
        if whole.any():
            libraries = [
                extended(pop, library, prices, window.worth)
                for pop, library in zip(populations, libraries, strict=True)
            ]
            prices = _prices(libraries, room, whole > 0)
        chosen = choose_all(populations, libraries, room, prices, window.worth)
        return Solution(
            populations=populations,
            window=window,
            prices=prices,
            chosen=chosen,
            slots=_scheduled(populations, libraries, chosen, window, prices),
        )

    def _sets(self, populations: Sequence[Population], window: Window) -> list[Library]:
        """Return each population's sets; those of one window serve another that has room for all of them."""
        loose = all(
            float(pop.seconds.sum()) <= float(pop.limit.min(initial=np.inf)) for pop in populations
        )
        key = (loose, tuple(pop.benchmarks for pop in populations), window.resources, window.worth)
        if not loose:
            return [make_library(pop, window.worth) for pop in populations]
        if key not in self._libraries:
            self._libraries[key] = [make_library(pop, window.worth) for pop in populations]
        return self._libraries[key]


def _prices(libraries: Sequence[Library], room: Floats, usable: Bools) -> Floats:
    """Return the price of a second of each resource, 0 where there is none."""
    prices = np.zeros(len(room))
    narrowed = [
        replace(lib, use=lib.use[:, usable], rebate=_only(lib, usable)) for lib in libraries
    ]
    prices[usable] = best_prices(narrowed, room[usable])
    return prices


def _only(library: Library, usable: Bools) -> Floats | None:
    return None if library.rebate is None else library.rebate[:, :, usable]


@dataclass(frozen=True, eq=False, kw_only=True)
class Solution:
    """A plan of a window.

    Attributes:
        populations: The nodes of each class.
        window: What there is.
        prices: Shape (resources,): of a second of each.
        chosen: What was chosen for the nodes, shape (n, b) of each population.
        slots: The runs that found room.
    """

    populations: Sequence[Population]
    window: Window
    prices: Floats
    chosen: Sequence[Bools]
    slots: tuple[Slot, ...]

    @cached_property
    def runs(self) -> list[Bools]:
        """What runs on the nodes, shape (n, b) of each population."""
        by_node: dict[str, list[str]] = {}
        for slot in self.slots:
            by_node.setdefault(slot.node, []).append(slot.benchmark)
        found = []
        for pop in self.populations:
            column = {name: place for place, name in enumerate(pop.benchmarks)}
            runs = np.zeros((len(pop.names), len(pop.benchmarks)), dtype=np.bool_)
            for row, name in enumerate(pop.names):
                runs[row, [column[one] for one in by_node.get(name, ())]] = True
            found.append(runs)
        return found

    @cached_property
    def gained(self) -> list[Floats]:
        """Seconds of incidents that the runs spare, shape (n,) of each population."""
        return [
            pop.spared(runs, self.window.worth)
            for pop, runs in zip(self.populations, self.runs, strict=True)
        ]

    @cached_property
    def value(self) -> float:
        """Seconds of incidents that are spared, less the worth of the time that is spent."""
        return sum(
            float((gained - self.window.worth * (runs @ pop.seconds)).sum())
            for pop, runs, gained in zip(self.populations, self.runs, self.gained, strict=True)
        )

    @cached_property
    def _of_nodes(self) -> float:
        """What the nodes could have at these prices, beside what is pinned."""
        bounds = [
            node_bounds(pop, self.window.worth * pop.seconds + pop.use @ self.prices, own)
            for pop, own in zip(self.populations, self.chosen, strict=True)
        ]
        return sum(float(bound.sum()) for bound in bounds)

    @cached_property
    def unpinned(self) -> tuple[str, ...]:
        """The nodes whose pinned benchmarks found no room, sorted."""
        found: list[str] = []
        for pop, runs in zip(self.populations, self.runs, strict=True):
            lacking = np.flatnonzero((pop.pins & ~runs).any(axis=1)).tolist()
            found += [pop.names[row] for row in lacking]
        return tuple(sorted(found))

    def bound_within(self, window: Window) -> float:
        """Return what no plan of a window can exceed that has no more of anything than the own one.

        The dual value at the own prices: what nodes could have at them is no more in a smaller window. Plans
        have to run what is pinned; where the own one could not, they may leave it.
        """
        of_pins = 0.0
        for pop in self.populations:
            own = pop.pinned_worth - (pop.pins @ pop.use) @ self.prices
            of_pins += float((np.maximum(0.0, own) if self.unpinned else own).sum())
        return float(self.prices @ window.capacity()) + self._of_nodes + of_pins

    def within(self, larger: Solution) -> Solution:
        """Return the same runs as a plan of a window that has no less of anything."""
        return replace(larger, slots=self.slots)

    def better(self, other: Solution) -> bool:
        """Say whether it is worth more than another: what is pinned comes first, as it has to run."""
        return (-len(self.unpinned), self.value) > (-len(other.unpinned), other.value)


def _scheduled(
    populations: Sequence[Population],
    libraries: Sequence[Library],
    chosen: Sequence[Bools],
    window: Window,
    prices: Floats,
) -> tuple[Slot, ...]:
    """Return when and where what was chosen for nodes runs.

    Args:
        populations: The nodes.
        libraries: Their sets, for what is left of lanes.
        chosen: Of each population, shape (n, b): what was chosen next to the pinned benchmarks.
        window: What there is.
        prices: Shape (resources,): of a second of each.
    """
    jobs: list[Job] = []
    idle: list[tuple[float, int, int]] = []
    busy: list[tuple[float, int, int]] = []
    for place, (pop, own) in enumerate(zip(populations, chosen, strict=True)):
        full = own | pop.pins
        losses = pop.losses(own) - window.worth * pop.seconds
        needing = [b for b, name in enumerate(pop.benchmarks) if window.needs.get(name)]
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
                    Job(
                        node=pop.names[row],
                        rank=rank,
                        runs=runs,
                        needs=window.needs,
                        pins=pins,
                        losses={
                            pop.benchmarks[b]: float(losses[row, b]) for b in needing if own[row, b]
                        },
                    )
                )
            if not pins:
                (busy if runs else idle).append((-rank, place, row))
    lanes = len(jobs) if window.at_once is None else min(window.at_once, len(jobs))
    # Without a limit everybody who is worth it has a lane: idle ones are worth nothing.
    waiting = sorted(idle)[: _SPARE * (window.at_once or 0)]
    more = SpareWork(populations, libraries, waiting, busy, window)
    return schedule(
        jobs,
        lanes=lanes,
        seconds=window.seconds,
        pools=window.pools,
        filler=more,
        rates=_rates(window, prices),
    )


def _rates(window: Window, prices: Floats) -> Rates:
    of_each = dict(zip(window.resources, prices.tolist(), strict=True))
    lane = of_each.pop(LANES, 0.0)
    dearest = max(of_each.values(), default=0.0)
    return Rates(
        lane=max(lane, _FLOOR * dearest, _FLOOR * window.worth, 1e-9), pause=lane, pools=of_each
    )
