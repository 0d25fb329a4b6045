"""A window is planned as one choice over all nodes: near its bound, within what there is, and sensibly."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from pytest_anubis.selector.planning.fleet_coverage import LastPass, residual_risks
from pytest_anubis.selector.planning.placing.schedule_records import PlannedRun
from pytest_anubis.selector.planning.window_plan import plan_window
from pytest_anubis.selector.selector_error import SelectorError
from tests.selector.planning.plan_check import violations
from tests.selector.planning.small_fleets import (
    HOURS,
    NAMES,
    SECONDS,
    cases,
    coverage,
    planned,
    window,
)


@pytest.mark.parametrize("worth", [0.0, 1.0])
def test_a_plan_is_near_its_bound(worth: float) -> None:
    plan = planned(cases(150), window(time_worth=worth))
    assert plan.gap < 0.02
    assert plan.used["nodes at once"] > 0.95
    assert plan.hour > 0


def test_free_resources_give_nodes_their_best_choice() -> None:
    known, own = coverage(), cases(4)
    plan = planned(own, window(at_once=None, pools={"rig": 4, "partner": 4}, seconds=2 * HOURS))
    best = 0.0
    for case in own:
        weights = known.shares[case.mix] * case.risk * 86400.0
        weights = weights * (1 - case.credit * known.exposed(case.passed))
        best += max(
            float(weights[known.hits[:, list(some)].any(axis=1)].sum())
            - float(SECONDS[list(some)].sum())
            for count in range(len(NAMES) + 1)
            for some in itertools.combinations(range(len(NAMES)), count)
        )
    assert plan.value == pytest.approx(best)
    assert plan.bound == pytest.approx(best, rel=0.02)


def test_spare_capacity_is_filled_up() -> None:
    within = window(seconds=1.7 * 3600, at_once=2, pools={"rig": 0, "partner": 0}, time_worth=0.0)
    assert planned(cases(16), within).gap < 0.05  # at one price for all, capacity is left


def test_more_time_than_needed_adds_nothing() -> None:
    few = cases(20)
    room = window(at_once=None, pools={"rig": 2, "partner": 2}, seconds=1.5 * HOURS)
    whole = planned(few, room)
    assert planned(few, replace(room, seconds=3 * HOURS)).value == pytest.approx(whole.value)


def test_a_node_of_twice_the_risk_is_not_chosen_later() -> None:
    half = [replace(case, mix=(), credit=0.0, passed=frozenset()) for case in cases(40)]
    twice = [replace(case, node=f"{case.node}x", risk=2 * case.risk) for case in half]
    plan = planned([*half, *twice], window(at_once=1, seconds=1800.0, pools={}, needs={}))
    found = {node.node: node for node in plan.nodes}
    left_out = 0
    for case in half:
        one, riskier = found[case.node], found[f"{case.node}x"]
        left_out += not one.runs
        assert not one.runs or (riskier.runs and riskier.start <= one.start + 1e-6)
    assert left_out > 5


def test_benchmarks_of_an_empty_pool_are_left_out() -> None:
    plan = planned(cases(20), window(pools={"rig": 0, "partner": 1}))
    assert plan.left_out == {
        "b1": "needs 1 of rig, and there are none",
        "b6": "needs 1 of rig, and there are none",
    }
    ran = {run.benchmark for node in plan.nodes for run in node.runs}
    assert ran
    assert not ran & set(plan.left_out)
    short = planned(cases(20), window(seconds=500.0))
    assert short.left_out == {
        "b3": "takes longer than the window",
        "b6": "takes longer than the window",
    }


def test_what_is_pinned_runs_and_goes_first() -> None:
    own = cases(60)
    own[5] = replace(own[5], risk=1e-6, pins=frozenset({"b1", "b3"}))
    plan = planned(own, window(at_once=2))
    first = next(node for node in plan.nodes if node.node == "n005")
    assert {run.benchmark for run in first.runs} == {"b1", "b3"}
    assert first.start == 0
    assert not plan.unpinned
    crowd = [replace(case, pins=frozenset({"b6"})) for case in cases(20)]
    assert len(planned(crowd, window()).unpinned) in (
        12,
        13,
    )  # one rig, eight runs of a quarter of an hour


def test_the_check_finds_wrong_schedules() -> None:
    def run(node: str, start: float, *units: int, benchmark: str = "b1") -> PlannedRun:
        of = {"rig": units} if units else {}
        return PlannedRun(node=node, benchmark=benchmark, start=start, seconds=60, lane=0, units=of)

    def wrong(*runs: PlannedRun) -> list[str]:
        return violations(runs, window(at_once=1, pools={"rig": 1}, needs={"b1": {"rig": 1}}))

    assert not wrong(run("n1", 0, 0), run("n2", 60, 0))
    assert wrong(run("n1", 0, 0), run("n2", 30, 0)) == [
        "rig 0 does two things at once", "2 nodes are out of service at once, 1 may be",
    ]  # fmt: skip
    assert wrong(run("n1", 0)) == ["n1: b1 lacks its rig"]
    assert wrong(run("n1", 0, 1)) == ["n1: there is no rig 1"]
    assert wrong(run("n1", HOURS, 0)) == ["n1: b1 is outside of the window"]
    twice = (run("n1", 0, benchmark="b0"), run("n1", 30, benchmark="b0"))
    assert wrong(*twice) == ["node n1 does two things at once"]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"seconds": 0.0}, "give a positive length"),
        ({"at_once": 0}, "at least one node"),
        ({"pools": {"rig": 1}}, "'partner', which is no pool"),
        ({"pools": {"rig": -1, "partner": 1}}, "negative amount"),
        ({"needs": {"b1": {"rig": 0}}}, "give 1 or more"),
    ],
)
def test_a_window_that_makes_no_sense_is_refused(more: dict[str, object], said: str) -> None:
    with pytest.raises(SelectorError, match=said):
        plan_window(cases(2), {"c": coverage()}, window(**more))


def test_passing_covers_the_rest_of_its_horizon() -> None:
    known = coverage()
    exposed = float(known.shares[()][known.exposed(NAMES[:3])].sum())
    passed = {
        name: LastPass(age=age, benchmarks=frozenset(NAMES[:3]))
        for name, age in (("now", 0.0), ("half", 50.0), ("long ago", 200.0))
    }
    risks = dict.fromkeys([*passed, "never"], 0.1)
    left = residual_risks(risks, {}, known, passed, 100.0)
    assert left["now"] == pytest.approx(0.1 * (1 - exposed))
    assert left["half"] == pytest.approx(0.1 * (1 - exposed / 2))
    assert left["long ago"] == left["never"] == 0.1
