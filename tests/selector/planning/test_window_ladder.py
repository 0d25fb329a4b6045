"""More of anything is never worth less: over random small fleets, windows and pools."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_anubis.selector.planning.window_ladder import neighbours
from pytest_anubis.selector.planning.window_plan import plan_window
from pytest_anubis.selector.planning.window_problem import Window
from tests.selector.planning.plan_check import plan_violations
from tests.selector.planning.small_fleets import cases, coverage, planned, window

HOUR = 3600.0


windows = st.builds(
    window,
    seconds=st.sampled_from([0.5, 1.0, 1.7, 2.0, 3.0]).map(lambda hours: hours * HOUR),
    at_once=st.sampled_from([1, 2, 3, 5, None]),
    pools=st.fixed_dictionaries({"rig": st.integers(0, 3), "partner": st.integers(0, 2)}),
    time_worth=st.sampled_from([0.0, 1.0]),
)


@given(windows, st.integers(0, 1000), st.integers(4, 16))
@settings(max_examples=5, deadline=None)
def test_no_window_is_worth_less_than_a_smaller_one(within: Window, seed: int, count: int) -> None:
    own = cases(count, seed=seed)
    plan = planned(own, within)
    assert plan.hour >= 0
    for smaller in neighbours(within):
        less = planned(own, smaller)
        assert less.value <= plan.value * (1 + 1e-9) + 1e-9
        assert less.bound <= plan.bound * (1 + 1e-3)


@pytest.mark.parametrize("hours", [1, 2])
def test_another_hour_is_worth_what_its_own_plan_is(hours: int) -> None:
    own = cases(60)
    plan = planned(own, window(seconds=hours * HOUR, at_once=2))
    longer = planned(own, window(seconds=(hours + 1) * HOUR, at_once=2))
    assert plan.hour > 0
    assert longer.value == pytest.approx(plan.value + plan.hour, rel=1e-3)


def test_neighbours_are_one_step_down_each_ladder() -> None:
    within = window(seconds=2.5 * HOUR, at_once=100, pools={"rig": 4, "partner": 0}, needs={})
    found = [(one.seconds / HOUR, one.at_once, one.pools["rig"]) for one in neighbours(within)]
    assert found == [(2.0, 100, 4), (2.5, 96, 4), (2.5, 100, 3)]
    least = replace(within, seconds=HOUR, at_once=1, pools={"rig": 1})
    assert [dict(one.pools) for one in neighbours(least)] == [{"rig": 0}]


def test_the_check_finds_wrong_figures() -> None:
    own, known, within = cases(12), {"c": coverage()}, window()
    plan = plan_window(own, known, within)
    first = plan.nodes[0]
    run = first.runs[0]

    def wrong(**more: object) -> list[str]:
        return plan_violations(replace(plan, **more), own, known, within)  # type: ignore[arg-type]

    def with_first(**more: object) -> tuple[object, ...]:
        return (replace(first, **more), *plan.nodes[1:])  # type: ignore[arg-type]

    assert wrong() == []
    assert any("its value is" in one for one in wrong(value=plan.value * 1.01))
    assert any("beyond its bound" in one for one in wrong(bound=plan.value * 0.9))
    assert any("what is spent" in one for one in wrong(spent=plan.spent + 60))
    assert any("it spares" in one for one in wrong(nodes=with_first(spared=first.spared * 2)))
    assert any("runs twice" in one for one in wrong(nodes=with_first(runs=(*first.runs, run))))
    short = replace(run, seconds=run.seconds / 2)
    assert any("takes" in one for one in wrong(nodes=with_first(runs=(short, *first.runs[1:]))))
    assert any("found no room" in one for one in wrong(unpinned=("n001",)))
    assert "its nodes are not those that could be validated" in wrong(nodes=plan.nodes[1:])
