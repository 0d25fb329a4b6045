"""Tiny windows solved exactly by a mixed-integer program: no plan claims more, and no bound is below it."""

from __future__ import annotations

import itertools

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp

from pytest_anubis.selector.planning.fleet_coverage import ClassCoverage
from pytest_anubis.selector.planning.window_plan import plan_window
from pytest_anubis.selector.planning.window_problem import NodeCase, Window
from tests.selector.planning.plan_check import plan_violations

STEP = 60.0
NAMES = ("b0", "b1", "b2", "b3")
NEEDS = {"b1": {"rig": 1}, "b3": {"rig": 1, "partner": 1}}


def tiny(seed: int) -> tuple[list[NodeCase], ClassCoverage, Window]:
    """Four nodes, four benchmarks of one to three steps, a window of four to seven."""
    chance = np.random.default_rng(seed)
    hits = chance.random((6, len(NAMES))) < 0.4
    hits[np.arange(len(NAMES)), np.arange(len(NAMES))] = True
    shares = chance.random(6)
    seconds = STEP * chance.integers(1, 4, len(NAMES))
    known = ClassCoverage(NAMES, seconds.astype(np.float64), hits, {(): shares / shares.sum()})
    nodes = [
        NodeCase(node=f"n{n}", hardware_class="c", risk=float(chance.uniform(0.001, 0.05)))
        for n in range(4)
    ]
    within = Window(
        seconds=STEP * float(chance.integers(4, 8)),
        at_once=(1, 2, None)[seed % 3],
        pools={"rig": 1, "partner": 1},
        needs=NEEDS,
        time_worth=float(seed % 2),
    )
    return nodes, known, within


def exact(nodes: list[NodeCase], known: ClassCoverage, within: Window) -> float:
    """Return the best value, by a binary variable for each start of a run in whole steps."""
    steps = round(within.seconds / STEP)
    lengths = [round(s / STEP) for s in known.seconds.tolist()]
    starts = [
        (i, b, t)
        for i in range(len(nodes))
        for b, length in enumerate(lengths)
        for t in range(steps - length + 1)
    ]
    first_hit = len(starts)
    patterns = len(known.hits)
    first_out = first_hit + len(nodes) * patterns
    count = first_out + len(nodes) * steps
    rows: list[np.ndarray] = []
    tops: list[float] = []

    def limit(row: np.ndarray, top: float) -> None:
        rows.append(row)
        tops.append(top)

    def running(i: int, at: int, of: dict[int, int]) -> np.ndarray:
        row = np.zeros(count)
        for place, (node, b, t) in enumerate(starts):
            if node == i and b in of and t <= at < t + lengths[b]:
                row[place] = of[b]
        return row

    every = dict.fromkeys(range(len(NAMES)), 1)
    for i in range(len(nodes)):
        for b in range(len(NAMES)):
            row = np.zeros(count)
            row[[p for p, (n, c, _) in enumerate(starts) if (n, c) == (i, b)]] = 1
            limit(row, 1)
        for p in range(patterns):
            row = np.zeros(count)
            row[first_hit + i * patterns + p] = 1
            row[[q for q, (n, b, _) in enumerate(starts) if n == i and known.hits[p, b]]] = -1
            limit(row, 0)
        busy = [running(i, at, every) for at in range(steps)]
        for at in range(steps):
            row = busy[at].copy()
            row[first_out + i * steps + at] = -1
            limit(row, 0)  # a node is out of service while it runs, and between its runs
            for before, after in itertools.product(range(at), range(at + 1, steps)):
                between = busy[before] + busy[after]
                between[first_out + i * steps + at] = -1
                limit(between, 1)
    for at in range(steps):
        for pool, there in within.pools.items():
            of = {b: NEEDS.get(name, {}).get(pool, 0) for b, name in enumerate(NAMES)}
            limit(sum((running(i, at, of) for i in range(len(nodes))), np.zeros(count)), there)
        if within.at_once is not None:
            row = np.zeros(count)
            row[[first_out + i * steps + at for i in range(len(nodes))]] = 1
            limit(row, within.at_once)
    gain = np.zeros(count)
    for i, case in enumerate(nodes):
        own = slice(first_hit + i * patterns, first_hit + (i + 1) * patterns)
        gain[own] = known.shares[()] * case.risk * within.incident_seconds
    for place, (_, b, _) in enumerate(starts):
        gain[place] = -within.time_worth * known.seconds[b]
    whole = np.ones(count)
    whole[first_hit:first_out] = 0
    found = milp(
        -gain,
        constraints=LinearConstraint(np.array(rows), -np.inf, np.array(tops)),
        bounds=Bounds(0, 1),
        integrality=whole,
    )
    assert found.success
    return -float(found.fun)


def test_the_optimum_is_between_value_and_bound() -> None:
    found = total = 0.0
    for seed in range(12):
        nodes, known, within = tiny(seed)
        plan = plan_window(nodes, {"c": known}, within)
        best = exact(nodes, known, within)
        assert not plan_violations(plan, nodes, {"c": known}, within)
        assert plan.value <= best * (1 + 1e-6) + 1e-6
        assert best <= plan.bound * (1 + 1e-6) + 1e-6
        assert plan.value > 0.7 * best
        found += plan.value
        total += best
    assert found > 0.93 * total
