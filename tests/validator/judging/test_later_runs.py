"""What a later run answers, and what it does not: the rule is that of a node's standing."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from pytest_anubis.core.baseline import Baseline
from pytest_anubis.core.metric import Metric
from pytest_anubis.core.run import RunEvidence
from pytest_anubis.core.sample import Population, SampleProblem, population_of
from pytest_anubis.core.standing.standing_of import JudgedRun
from pytest_anubis.core.verdict import Decision, MetricVerdict, NodeVerdict, Outcome, Reason, Waiver
from pytest_anubis.validator import learn_baseline
from pytest_anubis.validator.deciding.fleet_judging import judge_fleet
from pytest_anubis.validator.judging.later_runs import LaterRuns

NODES, NAN = 30, float("nan")
LAST = f"n{NODES - 1}"
STARTED = {f"r{r}": f"2026-01-0{r + 1}T00:00:00+00:00" for r in range(3)}
OF_LAST = {(run, LAST): began for run, began in STARTED.items()}


def table(*last: float | None, nodes: int = NODES) -> Population:
    """Return a value a run of each node; those of the last node are multiplied, None is missing."""
    values = 100 * np.exp(np.random.default_rng(0).normal(0, 0.003, (nodes, len(last))))
    samples = [[[value] for value in node] for node in values]
    samples[-1] = [
        [] if factor is None else [factor * value[0]]
        for factor, value in zip(last, samples[-1], strict=True)
    ]
    missing = SampleProblem(kind="missing", text="no value was recorded")
    invalid = SampleProblem(kind="invalid", text="not a number")
    of_last = {r: missing if f is None else invalid for r, f in enumerate(last) if not f or f != f}
    return population_of(
        [sample for node in samples for sample in node],
        metric=Metric(name="copy", unit="GB/s", better="higher"),
        benchmark="b",
        nodes=[f"n{n}" for n in range(nodes) for _ in last],
        devices=["node"] * nodes * len(last),
        runs=[f"r{r}" for _ in range(nodes) for r in range(len(last))],
        problems={(nodes - 1) * len(last) + r: problem for r, problem in of_last.items()},
    )


@cache
def learned() -> Baseline:
    return learn_baseline([table(1, 1, 1)], hardware_class="", created="2026-01-01")


def of_last(population: Population, **more: Any) -> NodeVerdict:
    """Return what is decided of the last node, the runs of which began as in STARTED."""
    judged = judge_fleet([population], {"": learned()}, **{"started": OF_LAST} | more)
    (verdict,) = [one for one in judged.nodes if one.node == LAST]
    return verdict


def of_test(benchmark: str, outcome: Outcome, reason: Reason, run: str) -> MetricVerdict:
    return MetricVerdict(
        outcome=outcome,
        reason=reason,
        text="said of a whole test",
        benchmark=benchmark,
        metric="",
        node=LAST,
        run=run,
    )


def passes(benchmark: str, passed: str) -> list[JudgedRun]:
    """Return the last node's runs; the test passed in this one."""
    check = (benchmark, "", "", "")
    return [JudgedRun(run=r, began=0.0, passed=(check,) if r == passed else ()) for r in STARTED]


def decided(
    *last: float | None, dated: bool = True, soak: tuple[str, ...] = (), long: str = ""
) -> tuple[NodeVerdict, list[MetricVerdict]]:
    population = table(*last)
    units = zip(population.runs, population.nodes, strict=True)
    started = {unit: STARTED[unit[0]] if dated else "" for unit in units}
    cycles = [
        JudgedRun(run=run, began=float(place), campaign="s" if run in soak else "")
        for place, run in enumerate(STARTED)
    ]
    judged = judge_fleet(
        [population],
        {"": learned()},
        started=started,
        ended={(long, LAST): "2026-01-09T00:00:00+00:00"},
        checked={LAST: cycles} if soak else {},  # imports have none of their own
    )
    (found,) = [
        (verdict, detail)
        for verdict, detail in zip(judged.nodes, judged.details, strict=True)
        if verdict.node == LAST
    ]
    return found[0], [v for v in found[1].verdicts if v.text]


def test_runs_that_began_before_another_ended_do_not_answer_it() -> None:
    assert decided(0.8, 1.0, 1.0)[0].decision is Decision.ACCEPTED
    assert decided(0.8, 1.0, 1.0, long="r0")[0].decision is Decision.REJECTED
    assert decided(0.8, 1.0, 1.0, long="r1")[0].decision is Decision.ACCEPTED
    assert decided(0.8, 1.0, 1.0, long="r0", soak=("r1",))[0].decision is Decision.REJECTED
    for long in ("r0", ""):
        assert decided(0.8, 1.0, 1.0, long=long, dated=False)[0].decision is Decision.REJECTED


@pytest.mark.parametrize(
    ("last", "decision"),
    [
        ((0.8, 1.0, 1.0), Decision.ACCEPTED),
        ((0.8, 0.8, 1.0), Decision.ACCEPTED),
        ((1.0, 1.0, 0.8), Decision.REJECTED),
        ((0.8, 1.0, 0.8), Decision.REJECTED),
        ((None, 1.0, 1.0), Decision.ACCEPTED),
        ((1.0, 1.0, None), Decision.UNDECIDED),
        ((0.8, None, None), Decision.REJECTED),
        ((NAN, 1.0, 1.0), Decision.ACCEPTED),
        ((1.0, NAN, 1.0), Decision.ACCEPTED),
        ((1.0, NAN, 0.8), Decision.REJECTED),
        ((1.0, 1.0, NAN), Decision.UNDECIDED),
        ((0.8, 1.0, NAN), Decision.UNDECIDED),
        ((0.8, 1.0, None), Decision.UNDECIDED),
    ],
)
def test_what_a_later_run_passed_is_answered_and_nothing_else(
    last: tuple[float | None, ...], decision: Decision
) -> None:
    assert decided(*last)[0].decision is decision


@pytest.mark.parametrize(
    ("last", "soak", "decision"),
    [
        ((0.8, 1.0, 1.0), ("r0", "r1", "r2"), Decision.REJECTED),
        ((0.8, 1.0, 1.0), ("r0", "r1"), Decision.ACCEPTED),
        ((0.8, 0.8, 1.0), ("r1", "r2"), Decision.REJECTED),
        ((NAN, 1.0, 1.0), ("r0", "r1", "r2"), Decision.UNDECIDED),
        ((NAN, 1.0, 1.0), ("r0",), Decision.ACCEPTED),
    ],
)
def test_a_cycle_of_a_soak_answers_no_other_one_of_it(
    last: tuple[float, ...], soak: tuple[str, ...], decision: Decision
) -> None:
    assert decided(*last, soak=soak)[0].decision is decision


@pytest.mark.parametrize(
    ("before", "after", "profiles", "decision"),
    [
        ("1x-card_driver1", "1x-card_driver2", ("smoke", "smoke"), Decision.ACCEPTED),
        ("1x-card_smoke", "1x-card_standard", ("smoke", "standard"), Decision.ACCEPTED),
        ("1x-card_standard", "1x-card_smoke", ("standard", "smoke"), Decision.REJECTED),
        ("cardA_smoke", "cardB_smoke", ("smoke", "smoke"), Decision.REJECTED),
    ],
)
@pytest.mark.parametrize("later", [True, False])
def test_a_pass_in_another_class_answers_as_in_a_nodes_standing(
    before: str, after: str, profiles: tuple[str, str], decision: Decision, later: bool
) -> None:
    failed = replace(table(0.8), hardware_class=before)
    passed = replace(table(1.0), hardware_class=after, runs=["r1"] * NODES)
    runs = [
        JudgedRun(run=run, began=0.0, profile=profile)
        for run, profile in zip(STARTED, profiles, strict=False)
    ]
    days = dict(zip(("r0", "r1"), ("r1", "r2") if later else ("r1", "r0"), strict=True))
    judged = judge_fleet(
        [failed, passed],
        {
            one: learn_baseline(
                [replace(table(1, 1, 1), hardware_class=one)], hardware_class=one, created="2026"
            )
            for one in (before, after)
        },
        started={(run, f"n{n}"): STARTED[day] for run, day in days.items() for n in range(NODES)},
        checked={LAST: runs},
    )
    decisions = {
        detail.hardware_class: verdict.decision
        for verdict, detail in zip(judged.nodes, judged.details, strict=True)
        if verdict.node == LAST
    }
    assert decisions[before] is (decision if later else Decision.REJECTED)
    assert decisions[after] is Decision.ACCEPTED


def test_what_was_unclear_is_answered_by_a_later_failure_which_counts_alone() -> None:
    """A failure that a waiver covers left the node undecided for what the run before had not measured."""
    _, verdicts = decided(1.0, NAN, 0.8)
    outcomes = {one.run: (one.outcome, one.reason) for one in verdicts}
    assert outcomes["r1"] == (Outcome.PASS, Reason.ANSWERED)
    assert outcomes["r2"][0] is Outcome.FAIL


def test_an_answered_failure_is_told_as_such_and_rejects_nothing() -> None:
    node, result = decided(0.8, 1.0, 1.0)
    (answered,) = [v for v in result if v.reason is Reason.ANSWERED]
    assert (answered.outcome, answered.run) == (Outcome.PASS, "r0")
    assert "r2" in answered.text
    assert len(node.noted) == 1


def test_a_test_that_failed_and_passes_in_a_later_run_is_answered() -> None:
    failed = of_test("check", Outcome.FAIL, Reason.TEST_FAILED, "r0")
    evidence = {("", LAST): RunEvidence(verdicts=(failed,))}
    for passed, decision in (("r1", Decision.ACCEPTED), ("", Decision.REJECTED)):
        found = of_last(table(1, 1, 1), evidence=evidence, checked={LAST: passes("check", passed)})
        assert found.decision is decision


def test_a_clock_that_went_back_makes_no_earlier_run_the_answer() -> None:
    """The bad run r2 is dated before r1, which it came after, as its store knew."""
    started = OF_LAST | {("r2", LAST): "2000-01-01T00:00:00+00:00"}
    known = [JudgedRun(run=run, began=0.0, after="r1" if run == "r2" else "") for run in STARTED]
    for checked, decision in (({}, Decision.ACCEPTED), ({LAST: known}, Decision.REJECTED)):
        found = of_last(table(1.0, 1.0, 0.8), started=started, checked=checked)
        assert found.decision is decision


@pytest.mark.parametrize(
    ("last", "broken", "decision"),
    [
        ((0.8, 1.0, 1.0), {"r0"}, Decision.ACCEPTED),
        ((1.0, 1.0, 1.0), {"r0"}, Decision.ACCEPTED),
        ((1.0, 1.0, 0.8), {"r2"}, Decision.UNDECIDED),
        ((1.0, 1.0, 1.0), {"r2"}, Decision.UNDECIDED),
        ((1.0, 0.8, None), {"r1"}, Decision.UNDECIDED),
        ((0.8, 0.8, None), {"r1"}, Decision.REJECTED),
        ((1.0, 0.8, 0.8), {"r1"}, Decision.REJECTED),
        ((0.8, 1.0, None), {"r1"}, Decision.ACCEPTED),
        ((0.8, 1.0, 0.8), {"r2"}, Decision.UNDECIDED),
        ((0.8, 0.8, 0.8), {"r0", "r1", "r2"}, Decision.UNDECIDED),
    ],
)
def test_what_failed_in_a_broken_off_run_rejects_nothing_and_is_to_be_judged_again(
    last: tuple[float | None, ...], broken: set[str], decision: Decision
) -> None:
    """None is a run without that metric; the last node alone has journals."""
    kept = [r for r, factor in enumerate(last) if factor is not None]
    population = table(*(factor for factor in last if factor is not None))
    population = replace(population, runs=tuple(f"r{kept[int(r[1])]}" for r in population.runs))
    evidence = {("", LAST): RunEvidence(broken_off=dict.fromkeys(broken, "never finished"))}
    assert of_last(population, evidence=evidence).decision is decision


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [
        (Outcome.NOT_TESTED, Reason.NOT_REPORTED),
        (Outcome.NOT_TESTED, Reason.NOT_RUN),
        (Outcome.INCONCLUSIVE, Reason.NOT_REPORTED),
    ],
)
def test_a_test_that_came_to_nothing_is_answered_by_a_later_run(
    outcome: Outcome, reason: Reason
) -> None:
    silent = of_test("b", outcome, reason, "r1")
    said = RunEvidence(verdicts=(silent,), broken_off={"r1": "never finished"})
    for passed, decision in (("r2", Decision.ACCEPTED), ("r0", Decision.UNDECIDED)):
        checked = {LAST: passes("b", passed)}
        found = of_last(table(1, 1, 1), evidence={("", LAST): said}, checked=checked)
        assert found.decision is decision


def cards(last: list[list[float]]) -> Population:
    """Return values of four cards a node in two runs; those of the last node are multiplied."""
    draw = np.random.default_rng(0)
    units = [(node, run, card) for node in range(NODES) for run in range(2) for card in range(4)]
    factors = [last[run][card] if node == NODES - 1 else 1.0 for node, run, card in units]
    invalid = SampleProblem(kind="invalid", text="not a number")
    return population_of(
        [[100 * factor * np.exp(draw.normal(0, 0.003))] for factor in factors],
        metric=Metric(name="copy", unit="GB/s", better="higher"),
        benchmark="b",
        nodes=[f"n{node}" for node, _, _ in units],
        devices=[f"cuda:{card}" for _, _, card in units],
        runs=[f"r{run}" for _, run, _ in units],
        problems={row: invalid for row, factor in enumerate(factors) if factor != factor},
    )


@pytest.mark.parametrize(
    ("later", "decision"),
    [
        ([1.0, 1.0, 1.0, 1.0], Decision.ACCEPTED),
        ([1.0, 1.0, NAN, 1.0], Decision.UNDECIDED),
        ([NAN, 1.0, 1.0, 1.0], Decision.REJECTED),
        ([1.0, 0.6, 1.0, 1.0], Decision.REJECTED),
    ],
)
def test_the_mean_of_all_cards_is_answered_with_the_card_that_was_bad(
    later: list[float], decision: Decision
) -> None:
    learned = learn_baseline([cards([[1.0] * 4] * 2)], hardware_class="", created="2026-01-01")
    population = cards([[0.6, 1.0, 1.0, 1.0], later])
    units = zip(population.runs, population.nodes, strict=True)
    judged = judge_fleet(
        [population], {"": learned}, started={unit: STARTED[unit[0]] for unit in units}
    )
    (node,) = [one for one in judged.nodes if one.node == LAST]
    assert node.decision is decision


def test_the_mean_of_all_cards_follows_a_card_whose_failure_is_waived() -> None:
    learned = learn_baseline([cards([[1.0] * 4] * 2)], hardware_class="", created="2026-01-01")
    covered: Any = {"metric": "copy", "node": LAST, "device": "cuda:0"}
    waiver = Waiver(owner="j", reason="r", expires="2999-01-01", **covered)
    population = cards([[0.6, 1.0, 1.0, 1.0]] * 2)
    decisions = [
        {one.decision for one in judge_fleet([population], {"": learned}, waivers=waivers).nodes}
        for waivers in ([waiver], [])
    ]
    assert decisions[0] == {Decision.ACCEPTED}
    assert Decision.REJECTED in decisions[1]


def test_runs_of_years_are_compared_with_what_overlaps_them_alone() -> None:
    """Each run looks at the few that began while it went on; one that names itself ends like any other."""
    started = {(f"r{n}", "n1"): f"2026-01-01T{n:06d}" for n in range(20_000)}
    ended = {unit: f"{began}5" for unit, began in started.items()}
    ended["r7", "n1"] = "2026-01-01T000009"
    loop = JudgedRun(run="r0", began=0.0, after="r0")
    later = LaterRuns(started=started, ended=ended, checked={"n1": [loop]})
    assert later.ends["r7", "n1"] == later.order["r8", "n1"] + 0.5
    assert later.ends["r8", "n1"] == later.order["r8", "n1"] + 0.5
    assert later.ends["r0", "n1"] >= later.order["r0", "n1"]
