"""Check a plan independently of the planner: its schedule by the window, its figures by its runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from pytest_anubis.selector.planning.fleet_coverage import ClassCoverage
from pytest_anubis.selector.planning.placing.schedule_records import PlannedRun
from pytest_anubis.selector.planning.window_plan import WindowPlan
from pytest_anubis.selector.planning.window_problem import NodeCase, Window

_EPS = 1e-6
"""Seconds by which a sum of durations may be off."""
_OFF = 1e-6
"""Relative difference of two figures that are the same: sums of ten thousand terms in another order."""


def plan_violations(
    plan: WindowPlan,
    cases: Sequence[NodeCase],
    coverage: Mapping[str, ClassCoverage],
    window: Window,
) -> list[str]:
    """Return what is wrong with a plan for some nodes, one line each."""
    runs = [run for one in plan.nodes for run in one.runs]
    wrong = violations(runs, window)
    known = {case.node: case for case in cases}
    if sorted(one.node for one in plan.nodes) != sorted(known):
        return [*wrong, "its nodes are not those that could be validated"]
    spared = 0.0
    unpinned = []
    for one in plan.nodes:
        case = known[one.node]
        own = coverage[case.hardware_class]
        names = [run.benchmark for run in one.runs]
        if any(run.node != one.node for run in one.runs) or len(set(names)) < len(names):
            wrong.append(f"{one.node}: its runs are another's, or one benchmark runs twice")
        lengths = dict(zip(own.benchmarks, own.seconds.tolist(), strict=True))
        wrong += [
            f"{one.node}: {run.benchmark} takes {lengths.get(run.benchmark)} s, not {run.seconds}"
            for run in one.runs
            if lengths.get(run.benchmark) != run.seconds
        ]
        # A pin that fits into no schedule of the window need not run.
        pins = frozenset(
            name
            for name in case.pins & set(lengths)
            if lengths[name] <= window.seconds
            and all(window.pools[p] >= n for p, n in window.needs.get(name, {}).items())
        )
        if not pins <= set(names):
            unpinned.append(one.node)
        gained = _gained(case, own, names, pins) * window.incident_seconds
        if not _same(gained, one.spared):
            wrong.append(f"{one.node}: it spares {gained} s, not {one.spared}")
        spared += gained
    spent = sum(run.seconds for run in runs)
    wrong += [
        f"{what} is {found}, not {said}"
        for what, found, said in (
            ("what is spared", spared, plan.spared),
            ("what is spent", spent, plan.spent),
            ("its value", spared - window.time_worth * spent, plan.value),
        )
        if not _same(found, said, spared + window.time_worth * spent)
    ]
    if plan.value > plan.bound and not _same(plan.value, plan.bound):
        wrong.append(f"its value {plan.value} is beyond its bound {plan.bound}")
    if sorted(unpinned) != list(plan.unpinned):
        wrong.append("the nodes whose pinned benchmarks found no room are others")
    return wrong


def _gained(
    case: NodeCase, own: ClassCoverage, names: Sequence[str], pins: frozenset[str]
) -> float:
    """Return the incidents that runs spare on a node: patterns of pins count once all pins have run."""
    weights = own.shares[case.mix] * (1 - case.credit * own.exposed(case.passed)) * case.risk
    exposed = own.exposed(names)
    if not pins <= set(names):
        exposed = own.exposed([name for name in names if name not in pins]) & ~own.exposed(pins)
    return float(np.sum(weights[exposed]))


def _same(found: float, said: float, scale: float = 1.0) -> bool:
    return abs(found - said) <= _OFF * max(abs(found), abs(said), abs(scale))


def violations(runs: Sequence[PlannedRun], window: Window) -> list[str]:
    """Return what is wrong with a schedule, one line each, from its runs alone."""
    wrong = [
        f"{one.node}: {one.benchmark} is outside of the window"
        for one in runs
        if one.start < -_EPS or one.start + one.seconds > window.seconds + 2 * _EPS
    ]
    spans: dict[str, tuple[float, float]] = {}
    busy: dict[tuple[str, str], list[tuple[float, int]]] = {}
    for one in runs:
        begin, end = spans.get(one.node, (one.start, one.start))
        spans[one.node] = (min(begin, one.start), max(end, one.start + one.seconds))
        events = [(one.start + 2 * _EPS, 1), (one.start + one.seconds - _EPS, -1)]
        busy.setdefault(("node", one.node), []).extend(events)
        for pool, count in window.needs.get(one.benchmark, {}).items():
            if len(set(one.units.get(pool, ()))) != count:
                wrong.append(f"{one.node}: {one.benchmark} lacks its {pool}")
            for unit in one.units.get(pool, ()):
                if not 0 <= unit < window.pools[pool]:
                    wrong.append(f"{one.node}: there is no {pool} {unit}")
                busy.setdefault((pool, str(unit)), []).extend(events)
    for (kind, name), events in busy.items():
        if _peak(events) > 1:
            wrong.append(f"{kind} {name} does two things at once")
    out = [(b + 2 * _EPS, 1) for b, _ in spans.values()] + [
        (e - _EPS, -1) for _, e in spans.values()
    ]
    if window.at_once is not None and _peak(out) > window.at_once:
        wrong.append(f"{_peak(out)} nodes are out of service at once, {window.at_once} may be")
    return wrong


def _peak(events: Iterable[tuple[float, int]]) -> int:
    now = most = 0
    for _, change in sorted(events):
        now += change
        most = max(most, now)
    return most
