"""Plan one window, for `anubis fleet plan`: which node runs what and when, and what another hour adds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pytest_anubis.selector.planning.fleet_coverage import ClassCoverage
from pytest_anubis.selector.planning.placing.schedule_records import PlannedRun
from pytest_anubis.selector.planning.window_ladder import HOUR, WindowLadder
from pytest_anubis.selector.planning.window_problem import NodeCase, Window, misfits
from pytest_anubis.selector.planning.window_solution import PlanningProblem, WindowSolution
from pytest_anubis.selector.selector_error import SelectorError


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedNode:
    """A node of the plan."""

    node: str
    hardware_class: str
    runs: tuple[PlannedRun, ...]  # its runs in their order; none if it is left out
    before: float  # probability of an incident within the horizon without the window
    after: float  # the same once all its runs have passed
    spared: float  # seconds of incidents that its runs spare

    @property
    def start(self) -> float:
        """When it leaves service, seconds from the window's beginning."""
        return min((run.start for run in self.runs), default=0.0)

    @property
    def end(self) -> float:
        """When it returns to service."""
        return max((run.start + run.seconds for run in self.runs), default=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowPlan:
    """A plan of validation for all nodes in one window."""

    nodes: tuple[PlannedNode, ...]  # every node, those that run something first, by start
    left_out: Mapping[str, str]  # benchmark that no node can run in this window -> why
    spared: float  # seconds of incidents spared on all nodes
    spent: float  # node seconds of validation
    value: float  # what is spared less the worth of what is spent
    bound: float  # upper bound of the value of every plan
    hour: float  # what another hour of the window adds to the value, by a plan of the longer window
    one_more: Mapping[str, float]  # resource -> what one more unit of it would add, about
    used: Mapping[str, float]  # resource -> share of its time in use
    unpinned: tuple[str, ...] = ()  # nodes whose pinned benchmarks found no room

    @property
    def gap(self) -> float:
        """Share of the bound that the plan may miss."""
        return max(0.0, 1 - self.value / self.bound) if self.bound > 0 else 0.0


def plan_window(
    cases: Sequence[NodeCase], coverage: Mapping[str, ClassCoverage], window: Window
) -> WindowPlan:
    """Plan a window for nodes, each at most once; `coverage` has what the benchmarks of their classes expose.

    Raises:
        SelectorError: The window is invalid, or there is no node.
    """
    _check(cases, window)
    problem = PlanningProblem(cases, coverage)
    ladder = WindowLadder(problem, len(cases))
    found = ladder.best(window)
    longer = ladder.own(replace(window, seconds=window.seconds + HOUR))
    left_out = {
        name: why
        for key in problem.classes
        for name, why in misfits(coverage[key].benchmarks, coverage[key].seconds, window).items()
    }
    # A plan of this window is also one of the longer window.
    more = longer.value - found.value if longer.better(found) else 0.0
    return _plan(problem.classes, found, left_out, max(0.0, more))


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


def _plan(
    classes: Sequence[str], found: WindowSolution, left_out: Mapping[str, str], hour: float
) -> WindowPlan:
    window = found.window
    prices = found.prices.tolist()
    nodes: list[PlannedNode] = []
    for key, group, spared in zip(classes, found.groups, found.spared, strict=True):
        risk = group.before / window.incident_seconds
        after = np.maximum(0.0, group.before - spared) / window.incident_seconds
        nodes += [
            PlannedNode(
                node=name,
                hardware_class=key,
                runs=tuple(found.by_node.get(name, ())),
                before=float(risk[row]),
                after=float(after[row]),
                spared=float(spared[row]),
            )
            for row, name in enumerate(group.names)
        ]
    used = sum(
        (runs @ group.use).sum(axis=0) for group, runs in zip(found.groups, found.runs, strict=True)
    )
    capacity, names = window.capacity(), window.resources
    return WindowPlan(
        nodes=tuple(
            sorted(nodes, key=lambda one: (not one.runs, one.start, -one.before, one.node))
        ),
        left_out=dict(sorted(left_out.items())),
        spared=sum(float(spared.sum()) for spared in found.spared),
        spent=sum(run.seconds for run in found.scheduled),
        value=found.value,
        bound=max(found.bound_within(window), found.value),
        hour=hour,
        one_more={n: p * window.seconds for n, p in zip(names, prices, strict=True)},
        used={
            n: u / c if c > 0 else 0.0
            for n, u, c in zip(names, np.asarray(used).tolist(), capacity.tolist(), strict=True)
        },
        unpinned=found.unpinned,
    )
