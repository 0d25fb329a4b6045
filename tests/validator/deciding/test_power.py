"""What an acceptance says it would have found, and what it cannot be given for."""

from __future__ import annotations

from dataclasses import replace

from pytest_anubis.core.baseline import HOST_PACE, Baseline, Criterion, SelfCheck, Unjudged
from pytest_anubis.core.metric import Direction, Metric
from pytest_anubis.core.verdict import Decision, MetricVerdict, Outcome, Reason, Reference
from pytest_anubis.validator.deciding.ledger import uncovered
from pytest_anubis.validator.deciding.node_decision import judge_node
from pytest_anubis.validator.limits.promises import blind


def criterion(name: str, detectable: float, better: Direction = "higher") -> Criterion:
    metric = Metric(name=name, unit="GB/s" if better == "higher" else "ms", better=better)
    return Criterion(
        benchmark="b",
        metric=metric,
        component=f"part.{name}",
        centre=(1.0,),
        detectable=detectable,
        nodes=9,
    )


def verdict(name: str) -> MetricVerdict:
    return MetricVerdict(
        outcome=Outcome.PASS,
        reason=Reason.WITHIN,
        text="so",
        benchmark="b",
        metric=name,
        device="node",
        reference=Reference.FLEET,
    )


CRITERIA = (
    criterion("quiet", 0.04),
    criterion(
        "usual", 0.1 / 0.9, "lower"
    ),  # a tenth of the speed is lost when it takes a ninth longer
    criterion("noisy", 0.4),
)


def decided(baseline: Baseline, *names: str) -> tuple[Decision, str, tuple[str, ...]]:
    told = judge_node([verdict(name) for name in names], baseline=baseline)
    return told.decision, told.headline, told.blocking


def learned(**more: object) -> Baseline:
    return Baseline(hardware_class="c", criteria=CRITERIA, created="2026-01-01", **more)  # type: ignore[arg-type]


def test_an_acceptance_says_which_losses_would_have_shown() -> None:
    decision, headline, _ = decided(learned(), "quiet", "usual", "noisy")
    assert decision is Decision.ACCEPTED
    assert (
        "it would have shown a loss of 10 % in 2 of 3 metrics, of 25 % in 2, of 50 % in all"
        in headline
    )


def test_a_component_without_a_criterion_blocks_and_a_metric_is_told() -> None:
    noisy = Unjudged(benchmark="b", metric="more", component="part.noisy", reason="too noisy")
    decision, headline, _ = decided(learned(unjudged=(noisy,)), "quiet", "usual", "noisy")
    assert decision is Decision.ACCEPTED
    assert "; 1 could not be judged here" in headline
    found = replace(verdict("more"), outcome=Outcome.NOT_TESTED, reason=Reason.NO_CRITERION)
    run = [*map(verdict, ("quiet", "usual", "noisy")), found]
    said = judge_node(run, baseline=learned(unjudged=(noisy,))).headline
    assert said.count("could not be judged") == 1  # the same gap once
    assert "1 metric has no criterion and could not be judged" in said
    pace = Unjudged(benchmark=HOST_PACE, metric="memory_pace", component="host.memory", reason="")
    decision, _, _ = decided(learned(unjudged=(pace,)), "quiet", "usual", "noisy")
    assert decision is Decision.ACCEPTED  # it is no test of a component
    alone = Unjudged(benchmark="b", metric="disk", component="storage.disk", reason="too noisy")
    decision, _, blocking = decided(learned(unjudged=(alone,)), "quiet", "usual", "noisy")
    assert decision is Decision.UNDECIDED
    assert blocking == (
        "NOT_TESTED storage.disk: none of its metrics can be judged here: disk: too noisy; learn again with "
        "more or longer rounds, or on a quieter machine",
    )


def test_metrics_of_one_name_that_cannot_be_judged_are_told_apart() -> None:
    lost = [
        Unjudged(benchmark=f"t.py::test_x[{level}]", metric="slow", component="storage", reason=why)
        for level, why in (("l1", "too noisy"), ("l2", "too noisy"), ("l3", "1 unit"))
    ]
    (line,) = uncovered(learned(unjudged=tuple(lost)))
    assert ": slow[l1], slow[l2]: too noisy; slow[l3]: 1 unit; learn again" in line


def test_that_results_are_right_covers_no_component_whose_rates_have_no_criterion() -> None:
    right = Criterion(
        benchmark="b",
        metric=Metric(name="wrong", unit="1", better="equal"),
        component="storage.small",
        centre=(0.0,),
    )
    noisy = Unjudged(benchmark="b", metric="slow", component="storage.small", reason="too noisy")
    baseline = learned(unjudged=(noisy,))
    baseline = replace(baseline, criteria=(*baseline.criteria, right))
    assert uncovered(baseline)[0].startswith(
        "NOT_TESTED storage.small: none of its metrics can be judged here: exact values aside, slow: "
    )
    quick = replace(right, metric=replace(right.metric, name="quick", better="higher"))
    assert not uncovered(replace(baseline, criteria=(*baseline.criteria, quick)))


def test_a_blind_criterion_of_a_rate_says_which_share_must_be_lost() -> None:
    assert "(it finds losses from 91 % on)" in blind(criterion("rate", 0.91))
    assert "(it finds losses from 2.3 times on)" in blind(criterion("time", 1.3, "lower"))


def test_components_without_a_criterion_come_before_what_measuring_again_helps_against() -> None:
    why = "it is too noisy here to show that performance has halved (it finds losses from 60 % on)"
    bare = tuple(
        Unjudged(benchmark="b", metric=f"m{n}", component=f"c{n}", reason=why) for n in range(5)
    )
    unclear = replace(
        verdict("usual"),
        outcome=Outcome.INCONCLUSIVE,
        reason=Reason.DISTURBED,
        text="usual is slow; but the machine was disturbed (cpu): measure again",
    )
    verdicts = [verdict("quiet"), verdict("noisy"), unclear]
    found = judge_node(verdicts, baseline=learned(unjudged=bare), node="n1")
    assert found.headline == (
        "node n1 is neither accepted nor rejected: 5 components have no criterion (c0, c1, c2 and 2 more), "
        "as this machine was too noisy when it was learned, and measuring again does not help; besides "
        "1 INCONCLUSIVE"
    )
    fewer = judge_node(verdicts, baseline=learned(unjudged=bare[:1]), node="n1")
    assert "rejected: INCONCLUSIVE b usual node: usual is slow" in fewer.headline
    broken = judge_node(
        verdicts, baseline=learned(unjudged=bare), node="n1", broken_off="it was stopped"
    )
    assert "rejected: nothing is decided: it was stopped" in broken.headline


def test_a_baseline_that_does_not_hold_its_rate_says_so_in_every_decision() -> None:
    check = SelfCheck(nodes=40, rejected=24, sick=24, rate=0.1, upper=0.3, holds=False)
    baseline = learned(nodes=("n0", "n1"), self_check=check)
    _, headline, _ = decided(baseline, "quiet", "usual", "noisy")
    told = "stated error rate does not hold: 60 % of its own nodes are rejected"
    assert f"learned from 2 nodes, whose {told})" in headline
    slow = replace(verdict("usual"), outcome=Outcome.FAIL, reason=Reason.BEYOND)
    rejected = judge_node([verdict("quiet"), slow], baseline=baseline)
    assert f" The baseline's {told}." in rejected.headline
    left = judge_node([verdict("quiet")], baseline=baseline)  # the others were not measured
    assert f"; the baseline's {told}" in left.headline
    dead = replace(slow, reason=Reason.TEST_FAILED, reference=Reference.NONE)  # no matter of a rate
    assert told not in judge_node([dead], baseline=baseline).headline
