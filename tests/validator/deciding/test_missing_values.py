"""A device that is gone rejects its node; single missing values do not keep it from being accepted."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from pytest_anubis.core.baseline import Baseline
from pytest_anubis.core.gather import Gather
from pytest_anubis.core.metric import Metric
from pytest_anubis.core.run import RunEvidence
from pytest_anubis.core.sample import ABSENT, Population, SampleProblem, population_of
from pytest_anubis.core.verdict import Decision, NodeVerdict, Reason, Waiver
from pytest_anubis.validator import learn_baseline
from pytest_anubis.validator.deciding.fleet_judging import JudgedFleet, NodeDetail, judge_fleet

NODES, CARDS = 12, 8
ALL, HALF = range(CARDS), range(CARDS // 2)
STARTED = {
    (f"r{day}", f"n{number:02d}"): f"2026-01-0{1 + day}"
    for day in range(4)
    for number in range(NODES)
}
METRICS = {name: name.partition("_")[0] for name in ("gemm_a", "gemm_b", "hbm_a", "hbm_b")}
"""Metric -> its component."""
MISSING = SampleProblem(kind="missing", text="no value was recorded")
Cell = tuple[str, str, str]


def fleet(
    missing: Collection[Cell] = (),
    *,
    run: str = "r0",
    nodes: int = NODES,
    left_out: Collection[Cell] = (),
) -> list[Population]:
    """Return one value a metric and card; those named by node, metric and card are missing, or no rows."""
    rng = np.random.default_rng(0)
    found = []
    for name, component in METRICS.items():
        units = [(f"n{n:02d}", f"cuda:{c}") for n in range(nodes) for c in range(CARDS)]
        units = [unit for unit in units if (unit[0], name, unit[1]) not in left_out]
        lost = {row for row, (node, card) in enumerate(units) if (node, name, card) in missing}
        values = 100 * np.exp(rng.normal(0, 0.003, len(units)))
        found.append(
            population_of(
                [[] if row in lost else [value] for row, value in enumerate(values.tolist())],
                metric=Metric(name=name, unit="GB/s", better="higher"),
                benchmark=component,
                component=f"accelerator.{component}",
                nodes=[node for node, _ in units],
                devices=[card for _, card in units],
                runs=[run] * len(units),
                problems=dict.fromkeys(lost, MISSING),
            )
        )
    return found


@cache
def learned() -> Baseline:
    return learn_baseline(fleet(), hardware_class="", created="2026-01-01")


def judged(missing: Collection[Cell], allowed: float = 0.05, **more: RunEvidence) -> JudgedFleet:
    evidence = {("", node): said for node, said in more.items()}
    return judge_fleet(fleet(missing), {"": learned()}, evidence=evidence, allow_missing=allowed)


def node(found: JudgedFleet, name: str = "n03") -> NodeVerdict:
    return next(verdict for verdict in found.nodes if verdict.node == name)


def detail(found: JudgedFleet, name: str = "n03") -> NodeDetail:
    return next(d for v, d in zip(found.nodes, found.details, strict=True) if v.node == name)


def gone(*cards: int) -> set[Cell]:
    return {("n03", name, f"cuda:{card}") for name in METRICS for card in cards}


def all_but(cards: Collection[int]) -> set[Cell]:
    return gone(*set(ALL).difference(cards))


def gathered(*several: Sequence[Population]) -> tuple[Population, ...]:
    gather = Gather()
    for population in (one for populations in several for one in populations):
        gather.add_population(population)
    return gather.populations()


def slowed(population: Population, cards: Collection[int]) -> Population:
    """Return a fleet in which these cards of n03 are slow."""
    values = population.values.copy()
    slow = {("n03", f"cuda:{card}") for card in cards}
    for row, unit in enumerate(zip(population.nodes, population.devices, strict=True)):
        if unit in slow:
            values[population.offsets[row] : population.offsets[row + 1]] *= 0.8
    return replace(population, values=values)


def slow_fleet(cards: Collection[int]) -> list[Population]:
    return [slowed(one, cards) for one in fleet()]


def of_n03(populations: Sequence[Population]) -> list[Population]:
    return [
        one.only([row for row, name in enumerate(one.nodes) if name == "n03"])
        for one in populations
    ]


def decided(*runs: Sequence[Population]) -> NodeVerdict:
    """Return what is decided of n03 after these runs, of r0, r1, r2 and r3."""
    return node(judge_fleet(gathered(*runs), {"": learned()}, started=STARTED))


def test_a_card_without_any_value_is_gone_and_its_node_comes_first() -> None:
    found = judged(gone(6))
    worst = min(found.nodes, key=lambda verdict: verdict.severity)
    assert (worst.node, worst.decision, worst.gone) == ("n03", Decision.REJECTED, ("cuda:6",))
    assert "cuda:6 is gone: 4 of 4 metrics have no value" in worst.headline
    assert worst.blocking == ()  # nothing else is said of it
    assert {verdict.decision for verdict in found.nodes} == {Decision.REJECTED, Decision.ACCEPTED}


@pytest.mark.parametrize(
    "name", ["nvme{}n1", "enp{}s0f0", "mlx5_{}", "sd{letter}", "DIMM_{letter}1", "gpu-{letter}"]
)
def test_a_device_of_any_name_is_gone(name: str) -> None:
    names = {f"cuda:{card}": name.format(card, letter="abcdefgh"[card]) for card in range(CARDS)}

    def called(populations: Sequence[Population]) -> list[Population]:
        return [
            replace(one, devices=tuple(names[device] for device in one.devices))
            for one in populations
        ]

    of_names = learn_baseline(called(fleet()), hardware_class="", created="2026-01-01")
    found = judge_fleet(called(fleet(gone(6))), {"": of_names}, allow_missing=0.2)
    assert node(found).gone == (names["cuda:6"],)


def test_a_device_under_another_name_is_not_gone() -> None:
    renamed = [
        replace(
            one,
            devices=tuple(
                "cuda:11" if (node, device) == ("n03", "cuda:6") else device
                for node, device in zip(one.nodes, one.devices, strict=True)
            ),
        )
        for one in fleet()
    ]
    found = node(judge_fleet(renamed, {"": learned()}, allow_missing=1.0))
    assert (found.gone, found.decision) == ((), Decision.UNDECIDED)


def test_no_share_of_missing_values_covers_cards_without_any() -> None:
    assert node(judged(gone(*range(4)), allowed=1.0)).decision is Decision.UNDECIDED


def test_a_node_of_which_a_few_cards_were_measured_has_lost_none() -> None:
    assert node(judged(gone(*range(5)))).decision is Decision.UNDECIDED


def test_of_a_node_with_a_run_of_ours_the_inventory_decides() -> None:
    assert node(judged(gone(6), n03=RunEvidence())).decision is Decision.UNDECIDED


def test_a_card_that_a_later_run_has_is_not_gone() -> None:
    for first, then, lost in ((gone(6), (), ()), ((), gone(6), ("cuda:6",))):
        runs = [*fleet(first), *(replace(one, runs=("r1",) * len(one)) for one in fleet(then))]
        found = judge_fleet(runs, {"": learned()}, started=STARTED)
        assert node(found).gone == lost


@pytest.mark.parametrize(
    ("measured", "decision"),
    [
        ((ALL, ALL), Decision.ACCEPTED),
        ((ALL, range(CARDS - 1)), Decision.REJECTED),
        ((ALL, HALF), Decision.UNDECIDED),
        ((ALL, range(2)), Decision.UNDECIDED),
        ((ALL, HALF, range(CARDS // 2, CARDS)), Decision.ACCEPTED),
        ((HALF, range(CARDS // 2, CARDS)), Decision.ACCEPTED),
        ((HALF, ALL), Decision.ACCEPTED),
    ],
)
def test_half_of_the_cards_without_a_value_in_the_latest_run_are_no_acceptance(
    measured: tuple[range, ...], decision: Decision
) -> None:
    several = [
        population
        for number, cards in enumerate(measured)
        for population in fleet(run=f"r{number}", left_out=all_but(cards))
    ]
    verdict = node(judge_fleet(several, {"": learned()}, started=STARTED))
    assert verdict.decision is decision
    assert len(verdict.blocking) == (decision is Decision.UNDECIDED)


@pytest.mark.parametrize(
    ("lacking", "before", "decision"),
    [
        (NODES, True, Decision.UNDECIDED),
        (NODES - 4, True, Decision.UNDECIDED),
        (NODES - 8, True, Decision.REJECTED),
        (NODES, False, Decision.REJECTED),  # no run has ever had them
    ],
)
def test_a_table_of_some_cards_of_most_nodes_loses_none_that_an_earlier_one_has(
    lacking: int, before: bool, decision: Decision
) -> None:
    cells = {
        (f"n{number:02d}", name, f"cuda:{card}")
        for number in range(lacking)
        for name in METRICS
        for card in (5, 6, 7)
    }
    names = [f"n{number:02d}" for number in range(NODES)]
    runs = gathered(*([fleet()] if before else []), fleet(run="r1", left_out=cells))
    found = judge_fleet(runs, {"": learned()}, started=STARTED, allow_missing=0.5)
    assert {node(found, name).decision for name in names[:lacking]} == {decision}
    assert {node(found, name).decision for name in names[lacking:]} <= {Decision.ACCEPTED}


@pytest.mark.parametrize(
    ("allowed", "decision"), [(0.0, Decision.UNDECIDED), (0.05, Decision.ACCEPTED)]
)
def test_few_empty_cells_of_a_later_run_are_as_allowed_as_those_of_the_only_one(
    allowed: float, decision: Decision
) -> None:
    runs = gathered(fleet(), fleet(run="r1", left_out={("n03", "gemm_a", "cuda:2")}))
    found = judge_fleet(runs, {"": learned()}, started=STARTED, allow_missing=allowed)
    assert node(found).decision is decision


@pytest.mark.parametrize(
    ("failed", "again", "decision"),
    [
        ((), ALL, Decision.ACCEPTED),
        ((), (1, 2), Decision.UNDECIDED),
        ((1,), (1, 2), Decision.UNDECIDED),
        ((1,), (1,), Decision.ACCEPTED),
        ((1, 2), (1, 2), Decision.ACCEPTED),
    ],
)
def test_a_metric_that_is_measured_again_on_some_cards_lacks_the_others_unless_these_had_failed(
    failed: tuple[int, ...], again: Collection[int], decision: Decision
) -> None:
    gemm_a, *others = fleet()
    late = of_n03(fleet(run="r1", left_out=all_but(again))[:1])
    assert decided([slowed(gemm_a, failed), *others], late).decision is decision


@pytest.mark.parametrize(
    ("again", "decision"),
    [((5,), Decision.ACCEPTED), ((2,), Decision.REJECTED), ((2, 5), Decision.UNDECIDED)],
)
def test_a_retest_of_the_failed_card_alone_clears_it(
    again: tuple[int, ...], decision: Decision
) -> None:
    """Cards that had not failed say nothing of the one that had; beside them the others are missing."""
    first, retest = slow_fleet({5}), of_n03(fleet(run="r1", left_out=all_but(again)))
    assert decided(first).decision is Decision.REJECTED
    assert decided(first, retest).decision is decision


def test_a_mean_has_the_earlier_value_of_a_card_without_one() -> None:
    late = of_n03(fleet({("n03", "gemm_a", "cuda:2")}, run="r1"))
    found = decided(slow_fleet({4, 5, 6}), late)
    assert found.decision is Decision.UNDECIDED  # of the card without a value


FEW = (*range(CARDS - 2),)


@pytest.mark.parametrize(
    ("between", "again", "decision"),
    [
        ((), FEW, Decision.ACCEPTED),  # a retest of what had failed
        ((ALL,), FEW, Decision.REJECTED),  # that had passed already, so two cards are gone
        ((FEW,), FEW, Decision.ACCEPTED),  # the retest once more
        ((ALL,), ALL, Decision.ACCEPTED),
    ],
)
def test_a_retest_is_of_what_was_bad_when_it_began(
    between: tuple[Sequence[int], ...], again: Sequence[int], decision: Decision
) -> None:
    later = [
        of_n03(fleet(run=f"r{number}", left_out=all_but(cards)))
        for number, cards in enumerate((*between, again), 1)
    ]
    assert decided(slow_fleet(FEW), *later).decision is decision


def test_a_retest_of_two_cards_answers_no_loss_of_all_cards() -> None:
    first = slow_fleet(ALL)
    for cards, answers in (({4, 5}, False), (ALL, True)):
        retest = of_n03(fleet(run="r1", left_out=all_but(cards)))
        found = judge_fleet(gathered(first, retest), {"": learned()}, started=STARTED)
        whole = [v for v in detail(found).verdicts if v.scope == "node"]
        assert whole
        assert all((v.reason is Reason.ANSWERED) == answers for v in whole)


@pytest.mark.parametrize(
    ("missing", "allowed", "decision"),
    [
        ({("n03", "gemm_a", "cuda:1")}, 0.05, Decision.ACCEPTED),
        ({("n03", "gemm_a", "cuda:1")}, 0.0, Decision.UNDECIDED),
        ({("n03", "gemm_a", "cuda:1"), ("n03", "gemm_b", "cuda:2")}, 0.05, Decision.UNDECIDED),
        ({("n03", "gemm_a", "cuda:1"), ("n03", "gemm_b", "cuda:2")}, 0.07, Decision.ACCEPTED),
    ],
)
def test_few_values_that_are_missing_block_nothing_where_the_component_answered(
    missing: set[Cell], allowed: float, decision: Decision
) -> None:
    found = judged(missing, allowed)
    verdict = node(found)
    assert verdict.decision is decision
    assert {(cell.metric, cell.device) for cell in detail(found).missing} == {
        cell[1:] for cell in missing
    }
    words = f"{len(missing)} of 32 values"
    blocking = [*map(str, verdict.blocking)]
    where = blocking if decision is Decision.UNDECIDED else verdict.noted
    assert [words in line for line in where] == [True]
    assert (words in verdict.headline) == (decision is Decision.ACCEPTED or len(where) == 1)


def test_a_benchmark_without_any_value_is_no_matter_of_single_ones() -> None:
    missing = {("n03", name, f"cuda:{c}") for name in ("gemm_a", "gemm_b") for c in range(CARDS)}
    assert node(judged(missing, 0.9)).decision is Decision.UNDECIDED


def test_a_waiver_that_names_it_covers_a_device_that_is_gone() -> None:
    waiver = Waiver(owner="me", reason="sent in", expires="2027-01-01", metric="gone", node="n03")
    found = judge_fleet(fleet(gone(6)), {"": learned()}, waivers=(waiver,))
    assert node(found).decision is Decision.ACCEPTED
    verdicts = detail(found).verdicts
    assert [v.reason for v in verdicts if v.benchmark == "inventory"] == [Reason.WAIVED]


@pytest.mark.parametrize(
    ("kept", "decision"),
    [
        (("gemm_a",), Decision.ACCEPTED),
        (("gemm_a", "gemm_b"), Decision.ACCEPTED),
        ((), Decision.UNDECIDED),  # a run that measured nothing
    ],
)
def test_a_run_that_measures_some_metrics_again_leaves_the_others_as_they_were(
    kept: tuple[str, ...], decision: Decision
) -> None:
    """A table in which most nodes have all metrics says of this one that it lacks the rest."""
    cells = {("n03", name, f"cuda:{c}") for name in METRICS if name not in kept for c in ALL}
    absent = SampleProblem(kind=ABSENT, text="not in the results")
    late = [
        replace(one, problems=dict.fromkeys(one.problems, absent)) for one in fleet(cells, run="r1")
    ]
    found = judge_fleet(gathered(fleet(), late), {"": learned()}, started=STARTED)
    assert node(found).decision is decision
    open_ones = {v.reason for one in found.columns for v in one.verdicts() if v.text}
    assert (Reason.NOT_REPORTED in open_ones) is (decision is Decision.UNDECIDED)
    assert bool(dict(node(found).counts).get("NOT_TESTED")) is (decision is Decision.UNDECIDED)


def test_some_values_of_all_metrics_that_are_measured_again_lose_no_card() -> None:
    for kept, lost in ((2, ()), (CARDS - 1, (f"cuda:{CARDS - 1}",))):
        some = {  # other cards for each metric, and the last one for none
            ("n03", name, f"cuda:{(2 * place + one) % (CARDS - 1)}")
            for place, name in enumerate(METRICS)
            for one in range(kept)
        }
        late = of_n03(fleet(run="r1", left_out=gone(*ALL) - some))
        assert decided(fleet(), late).gone == lost
