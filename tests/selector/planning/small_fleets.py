"""A class of eight benchmarks and some nodes, with one rig and one partner: planned in no time."""

from __future__ import annotations

import numpy as np

from pytest_anubis.selector.planning.fleet_coverage import ClassCoverage
from pytest_anubis.selector.planning.window_plan import WindowPlan, plan_window
from pytest_anubis.selector.planning.window_problem import NodeCase, Window
from tests.selector.planning.plan_check import plan_violations

NAMES = tuple(f"b{number}" for number in range(8))
SECONDS = np.array([60.0, 120.0, 300.0, 600.0, 90.0, 240.0, 900.0, 30.0])
NEEDS = {"b1": {"rig": 1}, "b6": {"rig": 1, "partner": 1}}
HOURS = 2 * 3600.0


def coverage() -> ClassCoverage:
    """Twenty patterns of one to three benchmarks."""
    chance = np.random.default_rng(7)
    hits = np.zeros((20, len(NAMES)), dtype=np.bool_)
    for row in hits:
        row[chance.choice(len(NAMES), size=chance.integers(1, 4), replace=False)] = True
    shares = chance.random(20)
    other = chance.random(20)
    both = {(): 0.9 * shares / shares.sum(), (("gpu", 1.0),): 0.9 * other / other.sum()}
    return ClassCoverage(NAMES, SECONDS, hits, both)


def cases(count: int, *, seed: int = 1) -> list[NodeCase]:
    """Nodes of risks that differ by twentyfold, some of them validated lately."""
    chance = np.random.default_rng(seed)
    return [
        NodeCase(
            node=f"n{number:03}",
            hardware_class="c",
            risk=float(chance.uniform(0.005, 0.1)),
            mix=(("gpu", 1.0),) if number % 3 == 0 else (),
            credit=0.5 if number % 4 == 0 else 0.0,
            passed=frozenset(NAMES[:3]) if number % 4 == 0 else frozenset(),
        )
        for number in range(count)
    ]


def window(**more: object) -> Window:
    """Two hours with four lanes, one rig and one partner, by default."""
    known = {"seconds": HOURS, "at_once": 4, "pools": {"rig": 1, "partner": 1}, "needs": NEEDS}
    return Window(**{**known, **more})  # type: ignore[arg-type]


def planned(of: list[NodeCase], within: Window) -> WindowPlan:
    """Plan, and check the plan independently."""
    known = {"c": coverage()}
    plan = plan_window(of, known, within)
    assert not plan_violations(plan, of, known, within)
    return plan
