"""Solve one window: dual prices, each node's choice, the schedule, and a bound on every plan.

`window_ladder` and `window_plan` use it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from pytest_anubis.selector.planning.fleet_coverage import Bools, ClassCoverage, Floats
from pytest_anubis.selector.planning.placing.backfill import Backfill, RankedNode
from pytest_anubis.selector.planning.placing.node_fitting import SecondPrices
from pytest_anubis.selector.planning.placing.schedule_records import Job, PlannedRun
from pytest_anubis.selector.planning.placing.window_schedule import Scheduler
from pytest_anubis.selector.planning.window_bound import node_bounds
from pytest_anubis.selector.planning.window_problem import (
    LANES,
    NodeCase,
    NodeGroup,
    Window,
    node_group,
)
from pytest_anubis.selector.planning.window_solver import (
    Columns,
    add_columns,
    choose_all,
    dual_prices,
    make_columns,
)

_IDLE_PER_LANE = 3
"""Idle nodes per lane that backfilling may use, the riskiest first."""
_MIN_LANE_PRICE = 0.05
"""Minimum price of a lane, relative to the dearest pool. Where lanes are plenty a pause costs nothing, but a
node should still return to service early."""
_PINNED_RANK = 1e12
"""Added to the rank of pinned jobs, which go first: more than the seconds of all incidents of a fleet."""


class PlanningProblem:
    """Nodes and what their benchmarks expose, to be solved for several windows.

    Attributes:
        classes: The hardware classes, sorted.
    """

    def __init__(self, cases: Sequence[NodeCase], coverage: Mapping[str, ClassCoverage]) -> None:
        self.classes = tuple(sorted({case.hardware_class for case in cases}))
        self._coverage = coverage
        self._cases = {
            key: [case for case in cases if case.hardware_class == key] for key in self.classes
        }
        self._columns: dict[object, list[Columns]] = {}

    def solve(self, window: Window) -> WindowSolution:
        """Return a near-optimal plan of a window."""
        groups = [node_group(self._cases[key], self._coverage[key], window) for key in self.classes]
        capacity = window.capacity()
        pinned = sum((group.pins @ group.use).sum(axis=0) for group in groups)
        # Pinned benchmarks may take all of the capacity, or more.
        room = np.maximum(capacity - pinned, capacity * 1e-9)
        columns = self._initial_columns(groups, window)
        prices = _dual_prices(columns, room, capacity > 0)
        if capacity.any():
            columns = [
                add_columns(group, own, prices, window.time_worth)
                for group, own in zip(groups, columns, strict=True)
            ]
            prices = _dual_prices(columns, room, capacity > 0)
        chosen = choose_all(groups, columns, room, prices, window.time_worth)
        return WindowSolution(
            groups=groups,
            window=window,
            prices=prices,
            chosen=chosen,
            scheduled=_scheduled(groups, columns, chosen, window, prices),
        )

    def _initial_columns(self, groups: Sequence[NodeGroup], window: Window) -> list[Columns]:
        """Return each group's columns; windows in which every node has time for all benchmarks share them."""
        time_free = all(
            float(group.seconds.sum()) <= float(group.limit.min(initial=np.inf)) for group in groups
        )
        key = (tuple(group.benchmarks for group in groups), window.resources, window.time_worth)
        if time_free and key in self._columns:
            return self._columns[key]
        columns = [make_columns(group, window.time_worth) for group in groups]
        if time_free:
            self._columns[key] = columns
        return columns


def _dual_prices(columns: Sequence[Columns], room: Floats, usable: Bools) -> Floats:
    """Return the price of a second of each resource; 0 for one without capacity."""
    prices = np.zeros(len(room))
    narrowed = [
        replace(
            own,
            use=own.use[:, usable],
            pinned_use=None if own.pinned_use is None else own.pinned_use[:, :, usable],
        )
        for own in columns
    ]
    prices[usable] = dual_prices(narrowed, room[usable])
    return prices


@dataclass(frozen=True, eq=False, kw_only=True)
class WindowSolution:
    """A plan of a window, with the prices that bound it."""

    groups: Sequence[NodeGroup]  # the nodes of each class
    window: Window
    prices: Floats  # shape (resources,): dual price of a second of each
    chosen: Sequence[Bools]  # what was chosen for the nodes, shape (n, b) of each group
    scheduled: tuple[PlannedRun, ...]  # the runs that found room

    @cached_property
    def by_node(self) -> dict[str, list[PlannedRun]]:
        """Node -> its runs, by start; nodes without runs are left out."""
        found: dict[str, list[PlannedRun]] = {}
        for run in self.scheduled:
            found.setdefault(run.node, []).append(run)
        return found

    @cached_property
    def runs(self) -> list[Bools]:
        """What runs on the nodes, shape (n, b) of each group."""
        found = []
        for group in self.groups:
            column = {name: place for place, name in enumerate(group.benchmarks)}
            runs = np.zeros((len(group.names), len(group.benchmarks)), dtype=np.bool_)
            for row, name in enumerate(group.names):
                runs[row, [column[one.benchmark] for one in self.by_node.get(name, ())]] = True
            found.append(runs)
        return found

    @cached_property
    def spared(self) -> list[Floats]:
        """Seconds of incidents that the runs spare, shape (n,) of each group."""
        return [
            group.spared(runs, self.window.time_worth)
            for group, runs in zip(self.groups, self.runs, strict=True)
        ]

    @cached_property
    def value(self) -> float:
        """Seconds of incidents that are spared, less the worth of the time that is spent."""
        return sum(
            float((spared - self.window.time_worth * (runs @ group.seconds)).sum())
            for group, runs, spared in zip(self.groups, self.runs, self.spared, strict=True)
        )

    @cached_property
    def _unpinned_bound(self) -> float:
        """What the nodes can gain at these prices, without their pinned benchmarks."""
        time_worth = self.window.time_worth
        bounds = [
            node_bounds(group, time_worth * group.seconds + group.use @ self.prices, own)
            for group, own in zip(self.groups, self.chosen, strict=True)
        ]
        return sum(float(bound.sum()) for bound in bounds)

    @cached_property
    def unpinned(self) -> tuple[str, ...]:
        """The nodes whose pinned benchmarks found no room, sorted."""
        found: list[str] = []
        for group, runs in zip(self.groups, self.runs, strict=True):
            lacking = np.flatnonzero((group.pins & ~runs).any(axis=1)).tolist()
            found += [group.names[row] for row in lacking]
        return tuple(sorted(found))

    def bound_within(self, window: Window) -> float:
        """Return the dual value of a window with at most this one's resources: no plan of it exceeds that.

        At this solution's prices nodes gain no more in a smaller window. If all that is pinned ran here,
        every plan is taken to run it; else pinned benchmarks count only where they are worth their price.
        """
        of_pins = 0.0
        for group in self.groups:
            own = group.pinned_worth - (group.pins @ group.use) @ self.prices
            of_pins += float((np.maximum(0.0, own) if self.unpinned else own).sum())
        return float(self.prices @ window.capacity()) + self._unpinned_bound + of_pins

    def within(self, larger: WindowSolution) -> WindowSolution:
        """Return the same runs as a plan of a window with at least this one's resources."""
        return replace(larger, scheduled=self.scheduled)

    def better(self, other: WindowSolution) -> bool:
        """Return whether it runs more of what is pinned than another, or as much and is worth more."""
        return (-len(self.unpinned), self.value) > (-len(other.unpinned), other.value)


def _scheduled(
    groups: Sequence[NodeGroup],
    columns: Sequence[Columns],
    chosen: Sequence[Bools],
    window: Window,
    prices: Floats,
) -> tuple[PlannedRun, ...]:
    """Return when and where the nodes' pinned and `chosen` benchmarks, shape (n, b) of each group, run."""
    jobs: list[Job] = []
    idle: list[RankedNode] = []
    busy: list[RankedNode] = []
    for place, (group, own) in enumerate(zip(groups, chosen, strict=True)):
        losses = group.losses(own) - window.time_worth * group.seconds
        for row in range(len(group.names)):
            job = _job(group, row, own[row], losses[row], window)
            if job.runs:
                jobs.append(job)
            if not job.pins:
                (busy if job.runs else idle).append((-job.rank, place, row))
    lanes = len(jobs) if window.at_once is None else min(window.at_once, len(jobs))
    # Without a limit every node that is worth its time has a lane: the idle ones are worth nothing.
    waiting = sorted(idle)[: _IDLE_PER_LANE * (window.at_once or 0)]
    return Scheduler(
        jobs,
        lanes=lanes,
        seconds=window.seconds,
        pools=window.pools,
        backfill=Backfill(groups, columns, waiting, busy, window),
        prices=_second_prices(window, prices),
    ).run()


def _job(group: NodeGroup, row: int, chosen: Bools, losses: Floats, window: Window) -> Job:
    """Return what one node is to run, pinned benchmarks included; its runs may be empty."""

    def names(choice: Bools) -> list[str]:
        return [group.benchmarks[b] for b in np.flatnonzero(choice).tolist()]

    pins = frozenset(names(group.pins[row]))
    seconds = dict(zip(group.benchmarks, group.seconds.tolist(), strict=True))
    loss = dict(zip(group.benchmarks, losses.tolist(), strict=True))
    return Job(
        node=group.names[row],
        rank=float(group.before[row]) + (_PINNED_RANK if pins else 0.0),
        runs=tuple((name, seconds[name]) for name in names(chosen | group.pins[row])),
        needs=window.needs,
        pins=pins,
        losses={name: loss[name] for name in names(chosen) if window.needs.get(name)},
    )


def _second_prices(window: Window, prices: Floats) -> SecondPrices:
    pools = dict(zip(window.resources, prices.tolist(), strict=True))
    pause = pools.pop(LANES, 0.0)
    dearest = max(pools.values(), default=0.0)
    least = _MIN_LANE_PRICE * max(dearest, window.time_worth)
    return SecondPrices(lane=max(pause, least, 1e-9), pause=pause, pools=pools)
