"""What an acceptance says it would have found, and what it cannot be given for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_anubis.core.baseline import Baseline, Criterion, SelfCheck, Unjudged
from pytest_anubis.core.blocker import Blocker, Hindrance
from pytest_anubis.core.metric import Direction, Metric
from pytest_anubis.core.run import RunEvidence
from pytest_anubis.core.verdict import Decision, MetricVerdict, Outcome, Reason, Reference
from pytest_anubis.validator.deciding.ledger import uncovered, uncovered_components
from pytest_anubis.validator.deciding.node_decision import judge_node


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
    criterion("usual", 0.1 / 0.9, "lower"),  # a ninth longer: a tenth of the speed is lost
    criterion("noisy", 0.4),
)


def decided(baseline: Baseline, *names: str) -> tuple[Decision, str, tuple[Blocker, ...]]:
    result = judge_node([verdict(name) for name in names], baseline=baseline)
    return result.decision, result.headline, result.blocking


def learned(**more: object) -> Baseline:
    return Baseline(hardware_class="c", criteria=CRITERIA, created="2026-01-01", **more)  # type: ignore[arg-type]


def test_an_acceptance_says_which_losses_would_have_shown() -> None:
    decision, headline, _ = decided(learned(), "quiet", "usual", "noisy")
    assert decision is Decision.ACCEPTED
    shown = "it would have shown a loss of 10 % in 2 of 3 metrics, of 25 % in 2, of 50 % in all"
    assert shown in headline


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
    alone = Unjudged(benchmark="b", metric="disk", component="storage.disk", reason="too noisy")
    decision, _, blocking = decided(learned(unjudged=(alone,)), "quiet", "usual", "noisy")
    assert decision is Decision.UNDECIDED
    (blocker,) = blocking
    assert (blocker.kind, blocker.benchmark) == (Hindrance.UNCOVERED, "storage.disk")
    assert blocker.cause.endswith(": disk: too noisy")


def test_metrics_of_one_name_that_cannot_be_judged_have_their_parameters() -> None:
    lost = [
        Unjudged(benchmark=f"t.py::test_x[{level}]", metric="slow", component="storage", reason=why)
        for level, why in (("l1", "too noisy"), ("l2", "too noisy"), ("l3", "1 unit"))
    ]
    (found,) = uncovered(learned(unjudged=tuple(lost)))
    assert found.cause.endswith(": slow[l1], slow[l2]: too noisy; slow[l3]: 1 unit")


def test_that_results_are_right_covers_no_component_whose_rates_have_no_criterion() -> None:
    wrong = Metric(name="wrong", unit="1", better="equal")
    right = Criterion(benchmark="b", metric=wrong, component="storage.small", centre=(0.0,))
    noisy = Unjudged(benchmark="b", metric="slow", component="storage.small", reason="too noisy")
    baseline = learned(unjudged=(noisy,))
    baseline = replace(baseline, criteria=(*baseline.criteria, right))
    assert ": exact values aside, slow: " in uncovered(baseline)[0].cause
    quick = replace(right, metric=replace(right.metric, name="quick", better="higher"))
    assert not uncovered(replace(baseline, criteria=(*baseline.criteria, quick)))


@pytest.mark.parametrize(
    ("detectable", "better", "thresholds", "coarse"),
    [
        (0.5, "higher", {"learned": 0.6}, False),
        (0.51, "higher", {"learned": 0.6}, True),
        (1.0, "lower", {"learned": 0.6}, False),
        (1.1, "lower", {"learned": 0.6}, True),
        (0.55, "higher", {"alpha": 0.6, "learned": 0.5}, True),  # its noise decides
        (0.55, "higher", {"alpha": 0.6, "learned": 0.9, "unconfirmed": 0.5}, True),
        (0.55, "higher", {"alpha": 0.6, "learned": 0.9}, False),  # somebody chose it
        (0.62, "higher", {"alpha": 0.4, "learned": 0.4}, False),
        (0.62, "higher", {"alpha": 0.4}, False),
        (0.62, "higher", {}, True),
    ],
)
def test_what_is_coarse(
    detectable: float, better: Direction, thresholds: dict[str, float], coarse: bool
) -> None:
    one = replace(criterion("m", detectable, better), **thresholds)  # type: ignore[arg-type]
    assert one.coarse is coarse
    shared = replace(one, shared=True)  # of storage that others use unseen two thirds are enough
    assert shared.coarse == (coarse and (one.shown_loss or 0.0) > 2 / 3)


def test_a_component_whose_rates_are_coarse_is_accepted_by_whoever_names_it_alone() -> None:
    both = criterion("read", 0.91), criterion("ping", 1.3, "lower")
    coarse = tuple(replace(one, component="storage.disk") for one in both)
    few = Unjudged(benchmark="b", metric="write", component="storage.disk", reason="1 unit")
    baseline = replace(learned(unjudged=(few,)), criteria=(*CRITERIA, *coarse))
    run = [verdict(name) for name in ("quiet", "usual", "noisy", "read", "ping")]
    (found,) = uncovered_components(baseline)
    assert [one.metric.name for one in found.coarse] == ["ping", "read"]  # the finest first
    assert found.shown_loss == coarse[1].shown_loss
    said = judge_node(run, baseline=baseline)
    assert said.decision is Decision.UNDECIDED
    noisy = "it is too noisy here to show that performance has halved (it shows losses from {} on)"
    (blocker,) = said.blocking
    assert blocker.cause.endswith(
        f": ping: {noisy.format('2.3 times')}; read: {noisy.format('91 %')}; write: 1 unit"
    )
    assert "--anubis-require NAME ('anubis judge': --require NAME)" in blocker.act
    for names in (("storage.disk",), ("read",), ("any",), ("part.quiet",)):
        result = judge_node(run, baseline=baseline, evidence=RunEvidence(required=names))
        assert result.decision is Decision.ACCEPTED, names
    slow = replace(run[-2], outcome=Outcome.FAIL, reason=Reason.BEYOND)
    assert judge_node([*run, slow], baseline=baseline).decision is Decision.REJECTED
    fine = replace(criterion("seek", 0.3), component="storage.disk")
    assert not uncovered(replace(baseline, criteria=(*baseline.criteria, fine)))
    bare = replace(baseline, criteria=CRITERIA)  # to name what cannot be judged at all is no answer
    named = RunEvidence(required=("storage.disk",))
    assert judge_node(run, baseline=bare, evidence=named).decision is Decision.UNDECIDED


def test_uncovered_components_come_before_what_measuring_again_helps_against() -> None:
    def noisy(count: int) -> Baseline:
        bare = (
            replace(criterion("quiet", 0.6), component=f"c{n}", group=f"{n}", nodes=1)
            for n in range(count)
        )
        return replace(learned(one_machine=True), criteria=(*CRITERIA, *bare))

    unclear = replace(
        verdict("usual"),
        outcome=Outcome.INCONCLUSIVE,
        reason=Reason.DISTURBED,
        text="usual is slow; but the machine was disturbed (cpu): measure again",
    )
    verdicts = [verdict("quiet"), verdict("noisy"), unclear]
    found = judge_node(verdicts, baseline=noisy(5), node="n1")
    assert found.headline == (
        "node n1 is neither accepted nor rejected: 5 components have no metric that shows a loss of a half "
        "(c0, c1, c2 and 2 more), as this machine was too noisy when it was learned, and measuring again "
        "does not help; besides 1 INCONCLUSIVE"
    )
    fewer = judge_node(verdicts, baseline=noisy(1), node="n1")
    assert "rejected: INCONCLUSIVE b usual node: usual is slow" in fewer.headline
    broken = judge_node(verdicts, baseline=noisy(5), node="n1", broken_off="it was stopped")
    assert "rejected: nothing is decided: it was stopped" in broken.headline


def test_a_baseline_that_does_not_hold_its_rate_says_so_in_every_decision() -> None:
    check = SelfCheck(nodes=40, rejected=24, sick=24, rate=0.1, upper=0.3, holds=False)
    baseline = learned(nodes=("n0", "n1"), self_check=check)
    _, headline, _ = decided(baseline, "quiet", "usual", "noisy")
    result = "stated error rate does not hold: 60 % of its own nodes are rejected"
    assert f"learned from 2 nodes, whose {result})" in headline
    slow = replace(verdict("usual"), outcome=Outcome.FAIL, reason=Reason.BEYOND)
    rejected = judge_node([verdict("quiet"), slow], baseline=baseline)
    assert f" The baseline's {result}." in rejected.headline
    left = judge_node([verdict("quiet")], baseline=baseline)  # the others were not measured
    assert f"; the baseline's {result}" in left.headline
    dead = replace(slow, reason=Reason.TEST_FAILED, reference=Reference.NONE)  # no matter of a rate
    assert result not in judge_node([dead], baseline=baseline).headline
