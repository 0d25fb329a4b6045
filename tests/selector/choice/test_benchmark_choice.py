"""The choice of benchmarks: optimal, explained, the same whatever the order."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_anubis.core.history import Defect
from pytest_anubis.core.metric import percent_text
from pytest_anubis.selector.choice.benchmark_choice import joint_risk, make_plan
from pytest_anubis.selector.choice.choice_plan import Plan
from pytest_anubis.selector.choice.choice_reasons import duration_words
from pytest_anubis.selector.choice.cover_problem import (
    WEIGHT,
    CoverProblem,
    drop_superfluous,
    greedy,
    make_problem,
)
from pytest_anubis.selector.choice.coverage import Candidate, Coverage, learn_coverage, ordered
from pytest_anubis.selector.risk.survival_rows import NodeRisk
from pytest_anubis.selector.selector_error import SelectorError

NAMES = tuple("abcdefgh")

patterns = st.lists(
    st.sets(st.sampled_from(NAMES), min_size=1, max_size=4), min_size=1, max_size=14
)
costs = st.lists(st.integers(0, 50), min_size=len(NAMES), max_size=len(NAMES))


def known(sets: list[set[str]]) -> list[Defect]:
    return [
        Defect(number=i, node="n", found=0.0, benchmarks=tuple(sorted(s)))
        for i, s in enumerate(sets)
    ]


def options(seconds: list[int], pinned: str = "") -> list[Candidate]:
    return [
        Candidate(benchmark=name, cost_seconds=float(cost), pinned=name in pinned)
        for name, cost in zip(NAMES, seconds, strict=True)
    ]


def nodes(*risks: float) -> list[NodeRisk]:
    return [NodeRisk(node=str(i), probability=p) for i, p in enumerate(risks)]


def planned(
    candidates: list[Candidate], sets: list[set[str]], *risks: float, **more: Any
) -> tuple[Plan, Coverage]:
    """Plan without exploration, from the bare shares of defects."""
    coverage = learn_coverage(known(sets), candidates, smoothing=0)
    return make_plan(candidates, coverage, nodes(*risks), **({"explore": 0} | more)), coverage


def every_choice(candidates: list[Candidate]) -> list[tuple[tuple[str, ...], float]]:
    """All choices with their seconds."""
    some = (
        [one for one, on in zip(candidates, bits, strict=True) if on]
        for bits in product((False, True), repeat=len(candidates))
    )
    return [(tuple(c.benchmark for c in own), sum(c.cost_seconds for c in own)) for own in some]


def left(risks: list[float], covered: float) -> float:
    return 1 - math.prod(1 - p * (1 - covered) for p in risks)


@settings(max_examples=60, deadline=None)
@given(
    patterns,
    costs,
    st.floats(0.02, 0.9),
    st.lists(st.floats(1e-6, 0.5), min_size=1, max_size=4),  # below, 1 - prod(1 - p) is rounding
)
def test_cheapest_set_is_that_of_brute_force(
    sets: list[set[str]], seconds: list[int], part: float, risks: list[float]
) -> None:
    candidates = options(seconds)
    p0 = joint_risk(risks) * part
    plan, coverage = planned(candidates, sets, *risks, p0=p0)
    slack = 1e-6  # the choice is made in parts of ten million
    residual = [(left(risks, coverage.of(chosen)), c) for chosen, c in every_choice(candidates)]
    strict = [c for risk, c in residual if risk <= p0]
    loose = [c for risk, c in residual if risk <= p0 + slack]
    assert left(risks, coverage.of(plan.chosen)) <= p0 + slack
    assert plan.optimal
    assert min(loose) <= plan.cost <= min(strict, default=math.inf) + 1e-9
    assert (plan.greedy_cost is None) == (plan.method == "nothing")
    assert plan.greedy_cost is None or plan.greedy_cost >= plan.cost - 1e-9


@settings(max_examples=60, deadline=None)
@given(patterns, costs, st.integers(0, 200))
def test_budget_buys_what_brute_force_buys(
    sets: list[set[str]], seconds: list[int], budget: int
) -> None:
    candidates = options(seconds)
    plan, coverage = planned(candidates, sets, 0.3, mode="budget", budget_seconds=budget, p0=None)
    best = max(coverage.of(chosen) for chosen, c in every_choice(candidates) if c <= budget)
    assert plan.cost <= budget
    assert coverage.of(plan.chosen) == pytest.approx(best, abs=1e-5)


@settings(max_examples=60, deadline=None)
@given(patterns, costs, st.floats(0.001, 0.9), st.integers(0, 2000))
def test_least_cost_is_that_of_brute_force(
    sets: list[set[str]], seconds: list[int], p: float, incident: int
) -> None:
    candidates = options(seconds)
    coverage = learn_coverage(known(sets), candidates)
    plan = make_plan(
        candidates, coverage, nodes(p), mode="cost", incident_seconds=incident, p0=None, explore=0
    )

    def total(chosen: tuple[str, ...], cost: float) -> float:
        return cost + incident * p * (1 - coverage.of(chosen))

    best = min(total(chosen, cost) for chosen, cost in every_choice(candidates))
    assert total(plan.chosen, plan.cost) == pytest.approx(best, abs=0.01)


@given(patterns, costs, st.permutations(range(len(NAMES))), st.floats(0.001, 0.2))
@settings(max_examples=40, deadline=None)
def test_order_of_input_does_not_matter(
    sets: list[set[str]], seconds: list[int], order: list[int], p0: float
) -> None:
    candidates = options(seconds)
    turned = [candidates[i] for i in order]
    one, other = (
        make_plan(own, learn_coverage(known(defects), own), nodes(0.2), p0=p0, seed=3)
        for own, defects in ((candidates, sets), (turned, sets[::-1]))
    )
    assert one == other


def test_equal_costs_fall_to_the_smaller_id() -> None:
    sets = [{"c", "g"}, {"b", "d"}, {"e", "f"}]
    plan, _ = planned(options([5] * len(NAMES)), sets, 0.5, p0=0.0)
    assert plan.chosen == ("b", "c", "e")


def test_small_risk_runs_only_what_was_named() -> None:
    plan, _ = planned(options([5] * len(NAMES), pinned="d"), [{"a"}], 0.001, p0=0.01)
    assert (plan.chosen, plan.method) == (("d",), "nothing")
    assert len(plan.pruned) == len(NAMES) - 1
    assert all("within the accepted" in item.reason for item in plan.pruned)


def test_coverage_of_pinned_benchmarks_is_used() -> None:
    candidates = options([1, 100, 1, 1, 1, 1, 1, 1], pinned="b")
    plan, _ = planned(candidates, [{"a", "b"}], 0.5, p0=0.0)
    assert plan.chosen == ("b",)


def test_no_history_means_everything() -> None:
    candidates = options([5] * len(NAMES))
    plan = make_plan(candidates, learn_coverage([], candidates), nodes(0.001))
    assert (plan.chosen, plan.method) == (NAMES, "everything")


def test_unreachable_risk_runs_all_that_helps() -> None:
    candidates = options([5] * len(NAMES))
    coverage = learn_coverage(known([{"a"}, {"b"}, {"a", "b"}]), candidates)
    plan = make_plan(candidates, coverage, nodes(0.5), p0=1e-6, explore=0)
    assert not plan.reached
    assert plan.residual_risk == pytest.approx(plan.full_risk)
    assert plan.residual_risk > 1e-6


def test_every_pruned_test_has_a_reason_that_fits() -> None:
    sets = [{"a", "b"}] * 9 + [{"c"}]
    plan, _ = planned(options([1, 1, 50, 1, 1, 1, 1, 1]), sets, 0.1, p0=0.02)
    reasons = {item.benchmark: item.reason for item in plan.pruned}
    assert plan.chosen == ("a",)
    assert "exposed by what was chosen as well" in reasons["b"]
    assert reasons["c"].startswith("would lower the risk from 1.0")
    assert " % to 0 % in 50 s" in reasons["c"]
    assert "no known defect" in reasons["d"]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.2, "<1 s"), (50, "50 s"), (59.7, "1 min 00 s"), (245, "4 min 05 s"), (7900, "2 h 11 min")],
)
def test_durations_in_reasons(seconds: float, words: str) -> None:
    assert duration_words(seconds) == words


def test_risks_in_reasons() -> None:
    risks = (0, 1e-6, 0.007, 0.0953, 0.5, 1)
    words = ["0 %", "<0.01 %", "0.70 %", "9.5 %", "50 %", "100 %"]
    assert [percent_text(risk) for risk in risks] == words


def test_exploration_is_drawn_from_its_seed_and_rare() -> None:
    candidates = [Candidate(benchmark=f"t{i:04}", cost_seconds=1) for i in range(1000)]

    def plan(seed: int, **more: Any) -> Plan:
        return planned(
            candidates, [{"t0000"}] * 50, 0.5, **{"explore": 0.05, "seed": seed, **more}
        )[0]

    first = plan(1)
    assert first == plan(1)
    assert first.explored != plan(2).explored
    assert 20 < len(first.explored) < 100
    assert set(first.explored) < set(first.chosen)
    budget = plan(1, mode="budget", budget_seconds=100, explore=0.1)
    assert budget.cost <= 100
    assert budget.explored


def test_several_nodes_with_their_own_pasts() -> None:
    candidates = options([1] * len(NAMES))
    by_node = {
        node: learn_coverage(known([{name}] * 5), candidates, smoothing=0)
        for node, name in (("0", "a"), ("1", "b"))
    }
    plan = make_plan(candidates, by_node, nodes(0.3, 0.001), p0=0.01, explore=0)
    assert plan.chosen == ("a",)
    exact = 1 - (1 - 0.3 * (1 - by_node["0"].of("a"))) * (1 - 0.001 * (1 - by_node["1"].of("a")))
    assert exact - 1e-6 <= plan.residual_risk <= exact * 1.01  # in parts of ten million


@given(st.lists(st.floats(0, 0.999), max_size=50))
def test_joint_risk_is_a_probability_and_grows(risks: list[float]) -> None:
    joint = joint_risk(risks)
    assert max(risks, default=0) - 1e-12 <= joint <= 1
    assert joint <= sum(risks) + 1e-12


def test_joint_risk_of_a_certain_incident() -> None:
    assert joint_risk([0.5, 1.0]) == pytest.approx(joint_risk([1.0])) == pytest.approx(1.0)


ONE = options([1] * len(NAMES))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"mode": "luck"}, "none of risk, budget, cost, all"),
        ({"p0": 1.5}, "accepted risk"),
        ({"p0": None}, "needs the accepted risk"),
        ({"mode": "budget"}, "needs seconds"),
        ({"explore": 2}, "explored share"),
        ({"incident_seconds": -1}, "incident costs"),
        ({"risks": []}, "no node"),
        ({"candidates": []}, "no benchmark"),
        ({"risks": nodes(math.nan)}, "incident probability nan"),
        ({"candidates": ONE * 2}, "twice"),
    ],
)
def test_invalid_arguments_are_named(change: dict[str, Any], words: str) -> None:
    arguments: dict[str, Any] = {
        "candidates": ONE,
        "coverage": learn_coverage(known([{"a"}]), ONE),
        "risks": nodes(0.1),
    }
    with pytest.raises(SelectorError, match=words):
        make_plan(**(arguments | change))


def naive_greedy(problem: CoverProblem, need: int, budget: int | None, price: float) -> list[int]:
    """The paper's loop, word by word: of all that fits, take what gains most per millisecond."""
    chosen: list[int] = [int(run) for run in np.flatnonzero(problem.pinned)]
    while True:
        mask = np.zeros(len(problem.names), dtype=np.bool_)
        mask[chosen] = True
        gains = problem.gains(problem.patterns_of(mask)).tolist()
        rest = [
            run
            for run in range(len(problem.names))
            if run not in chosen
            and gains[run] > 0
            and (budget is None or problem.costs[run] <= budget - problem.cost(mask))
        ]
        if problem.covered(mask) >= need or not rest:
            return sorted(chosen)
        keys = [
            (-gains[r] / max(int(problem.costs[r]), 1e-3), int(problem.costs[r]), r) for r in rest
        ]
        rate, _, best = min(keys)
        if -rate < price:
            return sorted(chosen)
        chosen.append(best)


@given(patterns, costs, st.sampled_from(["", "a", "bh"]), st.floats(0, 1), st.data())
@settings(deadline=None)
def test_the_quick_greedy_is_the_papers(
    sets: list[set[str]], seconds: list[int], pinned: str, share: float, data: st.DataObject
) -> None:
    candidates = options(seconds, pinned=pinned)
    problem = make_problem(ordered(candidates), learn_coverage(known(sets), candidates))
    need = int(share * WEIGHT)
    budget = data.draw(st.none() | st.integers(0, 200_000))
    price = data.draw(st.sampled_from([0.0, 1.0, 1e3]))
    found = greedy(problem, need=need, budget=budget, price=price)
    assert np.flatnonzero(found).tolist() == naive_greedy(problem, need, budget, price)


@given(patterns, costs, st.floats(0, 1))
@settings(deadline=None)
def test_no_run_is_left_that_could_be_dropped(
    sets: list[set[str]], seconds: list[int], share: float
) -> None:
    candidates = options(seconds)
    problem = make_problem(ordered(candidates), learn_coverage(known(sets), candidates))
    everything = np.ones(len(problem.names), dtype=np.bool_)
    need = int(share * problem.covered(everything))
    kept = drop_superfluous(problem, everything, need)
    assert problem.covered(kept) >= need
    for run in np.flatnonzero(kept):
        less = kept.copy()
        less[run] = False
        assert problem.covered(less) < need
