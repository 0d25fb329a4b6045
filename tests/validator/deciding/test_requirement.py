"""A node that ran only some of the benchmarks: one line, and an explicit way out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_anubis.core.baseline import Baseline, Criterion, PlainCheck, Unjudged
from pytest_anubis.core.metric import Metric
from pytest_anubis.core.run import RunEvidence
from pytest_anubis.core.verdict import (
    Decision,
    MetricVerdict,
    NodeVerdict,
    Outcome,
    Reason,
    Reference,
)
from pytest_anubis.report.text.node_row import NodeRow
from pytest_anubis.report.text.node_text import fleet_lines
from pytest_anubis.validator import judge_node

PARTS = {"gemm": "gpu.compute", "hbm": "gpu.memory", "ib": "network.ib", "fio": "disk"}
METRIC = Metric(name="rate", unit="GB/s", better="higher")
BASELINE = Baseline(
    hardware_class="c",
    criteria=tuple(
        Criterion(benchmark=name, metric=METRIC, centre=(1.0,), component=part)
        for name, part in PARTS.items()
    ),
    created="-",
    nodes=("x", "y", "z"),
)


def verdict(
    benchmark: str, outcome: Outcome = Outcome.PASS, reason: Reason = Reason.WITHIN
) -> MetricVerdict:
    return MetricVerdict(
        outcome=outcome,
        reason=reason,
        benchmark=benchmark,
        metric="rate",
        component=PARTS[benchmark],
        text="rate says why",
        reference=Reference.FLEET,
    )


def node(*verdicts: MetricVerdict, require: tuple[str, ...] = (), name: str = "n1") -> NodeVerdict:
    evidence = RunEvidence(required=require)
    return judge_node(verdicts, baseline=BASELINE, node=name, evidence=evidence)


GONE = verdict("ib", Outcome.NOT_TESTED, Reason.NOT_REPORTED)  # as imports mark it


def test_what_never_ran_is_one_line_with_its_parts_and_the_way_out() -> None:
    for found in (
        node(verdict("gemm"), verdict("hbm")),
        node(verdict("gemm"), verdict("hbm"), GONE),
    ):
        assert found.decision is Decision.UNDECIDED
        assert found.absent == ("fio", "ib")
        line = "2 of 4 benchmarks did not run in this run, or left no result (disk, network.ib)"
        line += "; earlier runs do not count"
        assert [one.fact for one in found.hindrances] == [line]
        assert len(found.blocking) == 3  # each of them is told as well
        assert f"neither accepted nor rejected: {line}. Next step: run them, or" in found.headline
        assert "--anubis-require NAME" in found.headline


def test_runs_that_are_judged_together_and_another_blocker_are_told_as_such() -> None:
    runs = [replace(verdict(name), run="r1") for name in ("gemm", "hbm")]
    assert "benchmarks did not run in these runs" in node(*runs).headline
    wrong = verdict("gemm", Outcome.INCONCLUSIVE, Reason.INVALID)
    found = node(wrong, verdict("hbm"))
    assert found.hindrances[1].fact.startswith("2 of 4 benchmarks did not run")
    assert "Next step" not in found.headline  # nobody would know what "them" are


def test_one_benchmark_that_never_ran_has_the_way_out_too() -> None:
    found = node(verdict("gemm"), verdict("hbm"), verdict("fio"))
    assert found.absent == ("ib",)
    assert "Next step: run ib, or say what is required: --anubis-require NAME" in found.headline
    lines = fleet_lines([NodeRow(verdict=found)])
    assert "1 node undecided only for benchmarks that did not run there" in lines[-1]
    assert "--require NAME" in lines[-1]


def test_what_is_required_accepts_and_the_headline_names_what_did_not_run() -> None:
    for require in (("gpu",), ("gemm", "hbm rate"), ("any",)):
        found = node(verdict("gemm"), verdict("hbm"), GONE, require=require)
        assert found.decision is Decision.ACCEPTED
        assert f"only {', '.join(require)} w" in found.headline
        assert "required (--require, --anubis-require); 2 did not run: fio, ib" in found.headline
        assert len(found.listed) == 2


def test_what_is_required_and_did_not_run_blocks_and_what_ran_rejects_all_the_same() -> None:
    short = node(verdict("gemm"), verdict("hbm"), GONE, require=("gpu", "disk"))
    assert short.decision is Decision.UNDECIDED
    assert short.hindrances[0].fact.startswith("1 of 4 benchmarks did not run in this run")
    bad = verdict("hbm", Outcome.FAIL, Reason.BEYOND)
    assert node(verdict("gemm"), bad, require=("gemm",)).decision is Decision.REJECTED
    unclear = verdict("hbm", Outcome.INCONCLUSIVE, Reason.DISTURBED)
    assert node(verdict("gemm"), unclear, require=("gemm",)).decision is Decision.UNDECIDED


def test_nothing_is_accepted_for_a_typo_or_for_nothing_that_ran() -> None:
    typo = node(*map(verdict, PARTS), require=("gpux",))
    assert typo.decision is Decision.UNDECIDED
    assert typo.blocking[0].fact == (
        "required gpux: the baseline has no such component, benchmark or metric; its components: "
        "disk, gpu.compute, gpu.memory, network.ib"
    )
    assert node(GONE, require=("any",)).decision is Decision.UNDECIDED


def test_a_crash_or_a_test_that_was_cut_short_is_no_benchmark_that_never_ran() -> None:
    evidence = RunEvidence(required=("gpu",), planned=frozenset({("ib", "node")}))
    verdicts = [verdict("gemm"), verdict("hbm"), verdict("fio"), GONE]
    found = judge_node(verdicts, baseline=BASELINE, node="n1", evidence=evidence)
    assert found.decision is Decision.UNDECIDED
    assert found.absent == ()
    assert "Next step" not in found.headline


def test_many_nodes_with_different_gaps_are_one_line_in_the_fleet() -> None:
    rows = [
        NodeRow(verdict=node(*map(verdict, ran), name=f"n{number}"))
        for number, ran in enumerate((("gemm",), ("hbm", "ib"), ("fio", "gemm")))
    ]
    lines = fleet_lines(rows)
    assert len(lines) == 3
    assert lines[0].startswith(
        "UNDECIDED missing 3 nodes (n0, n1, n2): 2 to 3 benchmarks of the baseline did not run on each"
    )
    assert "hbm on 2" in lines[0]
    assert "3 nodes undecided only for benchmarks that did not run there" in lines[2]
    assert "--require any" in lines[2]


CARDS = tuple(f"cuda:{number}" for number in range(8))
EQUAL = Metric(name="checksum", unit="1", better="equal")
OF_CARDS = replace(
    BASELINE,
    criteria=tuple(
        Criterion(
            benchmark=name, metric=metric, centre=(1.0,), component="gpu", devices=CARDS, nodes=3
        )
        for name in ("gemm", "hbm")
        for metric in (METRIC, EQUAL)
    ),
)


def on_cards(*cards: str, metrics: tuple[Metric, ...] = (METRIC, EQUAL)) -> list[MetricVerdict]:
    good = replace(verdict("gemm"), component="gpu")
    return [replace(good, metric=m.name, device=card) for m in metrics for card in cards]


SKIPPED = replace(
    verdict("gemm", Outcome.NOT_TESTED, Reason.NOT_RUN), metric="", device=CARDS[7], text="no card"
)


@pytest.mark.parametrize("require", [("any",), ("hbm",)])
@pytest.mark.parametrize(
    ("verdicts", "planned", "said"),
    [
        (on_cards(*CARDS[:7]), False, "gemm rate on cuda:7"),
        (on_cards(*CARDS[:7]), True, "gemm rate on cuda:7"),
        ([*on_cards(*CARDS[:7]), SKIPPED], True, "gemm cuda:7: no card"),
        (on_cards(*CARDS, metrics=(METRIC,)), True, "gemm checksum: the baseline has a criterion"),
    ],
)
def test_what_ran_anywhere_must_be_complete_whatever_is_required(
    verdicts: list[MetricVerdict], planned: bool, said: str, require: tuple[str, ...]
) -> None:
    places = frozenset(("gemm", card) for card in CARDS) if planned else frozenset()
    evidence = RunEvidence(required=require, planned=places)
    if require == ("hbm",):
        verdicts = [*verdicts, *(replace(v, benchmark="hbm") for v in on_cards(*CARDS))]
    found = judge_node(verdicts, baseline=OF_CARDS, node="n1", evidence=evidence)
    assert found.decision is Decision.UNDECIDED
    assert any(one.fact.startswith(f"NOT_TESTED {said}") for one in found.blocking)
    assert f"only {require[0]} was required" in found.headline
    assert (" did not run: hbm" in found.headline) == (require == ("any",))


def test_a_benchmark_that_every_card_skipped_is_spared_and_named_once() -> None:
    skips = [replace(SKIPPED, benchmark="hbm", device=card) for card in CARDS]
    places = frozenset((name, card) for name in ("gemm", "hbm") for card in CARDS)
    evidence = RunEvidence(required=("any",), planned=places)
    found = judge_node([*on_cards(*CARDS), *skips], baseline=OF_CARDS, node="n1", evidence=evidence)
    assert found.decision is Decision.ACCEPTED
    assert found.headline.endswith(
        "only any was required (--require, --anubis-require); 1 did not run: hbm"
    )
    part = replace(skips[0], reason=Reason.PARTLY_RUN, text="a part of it was left out")
    for first in ([], [part]):  # nothing, or too little, says what became of it on cuda:0
        verdicts = [*on_cards(*CARDS), *first, *skips[1:]]
        found = judge_node(verdicts, baseline=OF_CARDS, evidence=evidence)
        assert found.decision is Decision.UNDECIDED


@pytest.mark.parametrize(
    ("component", "require", "due"),
    [
        ("gpu.health", ("gpu",), True),
        ("gpu.health", ("disk",), False),
        ("", ("disk",), True),  # nobody knows what it is about
        ("gpu.health", ("test_health",), True),
        ("", ("any",), False),
    ],
)
@pytest.mark.parametrize("skipped", [False, True])
def test_a_required_component_has_its_checks_too(
    component: str, require: tuple[str, ...], due: bool, skipped: bool
) -> None:
    name = "suites/gpu/test_health.py::test_health"
    check = PlainCheck(test=name, devices=("cuda:0",), component=component)
    baseline = replace(BASELINE, checks=(check,))
    skip = replace(SKIPPED, benchmark=name, device="cuda:0", component=component)
    places = frozenset({(name, "cuda:0")}) if skipped else frozenset()
    found = judge_node(
        [*map(verdict, PARTS), *([skip] if skipped else [])],
        baseline=baseline,
        node="n1",
        evidence=RunEvidence(required=require, planned=places),
    )
    assert found.decision is (Decision.UNDECIDED if due else Decision.ACCEPTED)
    assert any("test_health" in str(one) for one in (found.blocking if due else found.listed))
    assert due or "1 did not run: test_health.py::test_health" in found.headline


@pytest.mark.parametrize("parts", [PARTS, ()])
def test_misspelt_requirement_is_the_first_blocker(parts: tuple[str, ...]) -> None:
    """A check without a component answers no name."""
    baseline = replace(BASELINE, checks=(PlainCheck(test="t"),))
    evidence = RunEvidence(required=("gpux",))
    found = judge_node(list(map(verdict, parts)), baseline=baseline, evidence=evidence)
    assert found.blocking[0].fact.startswith("required gpux: the baseline has no such")


@pytest.mark.parametrize("required", ["disk.io", "odd", "lustre"])
def test_a_required_metric_without_a_criterion_blocks(required: str) -> None:
    odd = Unjudged(benchmark="disk.io", metric="odd", component="lustre", reason="no majority")
    baseline = replace(BASELINE, unjudged=(odd,))
    evidence = RunEvidence(required=(required,))
    found = judge_node([*map(verdict, PARTS)], baseline=baseline, evidence=evidence)
    assert found.decision is Decision.UNDECIDED
    assert found.blocking[0].fact.startswith(f"required {required}: no criterion")
