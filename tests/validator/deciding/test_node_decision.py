from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_anubis.core.asking.next_step import next_step
from pytest_anubis.core.baseline import Baseline, Criterion
from pytest_anubis.core.blocker import Blocker, Hindrance
from pytest_anubis.core.metric import Metric
from pytest_anubis.core.run import RunEvidence
from pytest_anubis.core.verdict import Decision, MetricVerdict, Outcome, Reason, Reference, Triage
from pytest_anubis.validator import judge_node
from pytest_anubis.validator.deciding.ledger import NOTHING_JUDGED


def verdict(
    outcome: Outcome,
    reason: Reason,
    metric: str = "m",
    benchmark: str = "b",
    *,
    component: str = "memory",
    similarity: float | None = None,
    action: str = "",
    reference: Reference | None = None,
    group: str = "",
) -> MetricVerdict:
    judged = outcome in (Outcome.PASS, Outcome.MARGINAL, Outcome.FAIL)
    return MetricVerdict(
        outcome=outcome,
        reason=reason,
        benchmark=benchmark,
        metric=metric,
        component=component,
        node="n1",
        group=group,
        text=f"{metric} says why",
        similarity=similarity,
        action=action,
        reference=reference or (Reference.FLEET if judged else Reference.NONE),
    )


def criterion(metric: str, group: str = "", nodes: int = 0) -> Criterion:
    rate = Metric(name=metric, unit="s", better="lower")
    return Criterion(benchmark="b", metric=rate, centre=(1.0,), group=group, nodes=nodes)


def of(*criteria: Criterion) -> Baseline:
    return Baseline(hardware_class="c", criteria=criteria, created="-", nodes=("x", "y", "z"))


def baseline(*metrics: str) -> Baseline:
    return of(*map(criterion, metrics))


PASS = verdict(Outcome.PASS, Reason.WITHIN)


def test_accepted_only_when_every_criterion_was_judged() -> None:
    accepted = judge_node([PASS], baseline=baseline("m"))
    assert accepted.decision is Decision.ACCEPTED
    assert accepted.node == "n1"
    assert "3 nodes" in accepted.headline
    missing = judge_node([PASS], baseline=baseline("m", "other"))
    assert missing.decision is Decision.UNDECIDED
    assert any(("other" in one.subject) and one.word == "NOT_TESTED" for one in missing.blocking)


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [
        (Outcome.NOT_TESTED, Reason.NOT_REPORTED),
        (Outcome.INCONCLUSIVE, Reason.INVALID),
        (Outcome.INCONCLUSIVE, Reason.DISTURBED),
    ],
)
def test_what_a_device_lacks_stands_in_the_way_once(outcome: Outcome, reason: Reason) -> None:
    """The node's values lack it too, and a missing cell of a table was two blockers."""
    card = replace(verdict(outcome, reason), device="cuda:1")
    whole = replace(card, device="node", scope="node", text=f"m: cuda:1: {card.text}")
    found = judge_node([PASS, card, whole], baseline=baseline("m"))
    assert found.decision is Decision.UNDECIDED
    assert [*map(str, found.blocking)] == [f"{outcome.value} b m cuda:1: m says why"]
    for other in (whole, replace(whole, reason=Reason.TOO_FEW)):
        known = [PASS, other] if other is whole else [PASS, card, other]
        found = judge_node(known, baseline=baseline("m"))
        assert any("b m node" in one.subject for one in found.blocking)  # its own


@pytest.mark.parametrize(
    ("outcome", "reason", "decision"),
    [
        (Outcome.MARGINAL, Reason.UNUSUAL, Decision.ACCEPTED),
        (Outcome.PASS, Reason.UNDETECTABLE, Decision.ACCEPTED),
        (Outcome.FAIL, Reason.BEYOND, Decision.REJECTED),
        (Outcome.FAIL, Reason.TEST_FAILED, Decision.REJECTED),
        (Outcome.INCONCLUSIVE, Reason.DISTURBED, Decision.UNDECIDED),
        (Outcome.INCONCLUSIVE, Reason.TOO_FEW, Decision.UNDECIDED),
        (Outcome.NOT_TESTED, Reason.NOT_REPORTED, Decision.UNDECIDED),
        (Outcome.NOT_TESTED, Reason.NOT_RUN, Decision.UNDECIDED),
        (Outcome.NOT_TESTED, Reason.PRUNED, Decision.ACCEPTED),
    ],
)
def test_what_one_criterion_says_decides(
    outcome: Outcome, reason: Reason, decision: Decision
) -> None:
    other = verdict(outcome, reason, "other")
    known = RunEvidence(residual_risk=0.1)  # what pruned benchmarks leave
    node = judge_node([PASS, other], baseline=baseline("m", "other"), evidence=known)
    assert node.decision is decision


def test_a_headline_says_which_case_of_a_test_or_which_test_itself_failed() -> None:
    port = replace(
        verdict(Outcome.FAIL, Reason.BEYOND, "rate"),
        benchmark="suites/ib.py::test_rate[port 5]",
        component="network.ib",
        device="node",
        text="rate is 3",
    )
    broken = replace(port, benchmark="suites/a.py::test_sum", metric="", text="it failed")
    step = next_step(port)
    assert (
        judge_node([port]).headline
        == f"node n1 rejected: network.ib. test_rate[port 5]: rate is 3. Next step: {step}"
    )
    failed = replace(broken, reason=Reason.TEST_FAILED)
    assert judge_node([failed]).headline == "node n1 rejected: network.ib. test_sum: it failed."
    pooled = replace(verdict(Outcome.FAIL, Reason.BEYOND), scope="node")
    assert "rejected: memory. all devices: m says why" in judge_node([pooled]).headline


def test_what_was_left_out_at_an_unknown_risk_blocks_unless_it_was_for_a_budget() -> None:
    verdicts = [PASS, verdict(Outcome.NOT_TESTED, Reason.PRUNED, "other")]
    node = judge_node(verdicts, baseline=baseline("m", "other"))
    assert node.decision is Decision.UNDECIDED
    assert "at an unknown risk" in node.headline
    within = RunEvidence(budget=(20.0, 155.0))
    found = judge_node(verdicts, baseline=baseline("m", "other"), evidence=within)
    assert found.decision is Decision.ACCEPTED
    assert found.residual_risk is None
    assert "within a budget (20 s of 155 s; the risk is unknown)" in found.headline


@pytest.mark.parametrize("reason", [Reason.NO_CRITERION, Reason.NOT_RUN])
def test_what_has_no_criterion_is_listed_and_blocks_only_when_all_is_required(
    reason: Reason,
) -> None:
    extra = verdict(Outcome.NOT_TESTED, reason, "extra", benchmark="elsewhere")
    node = judge_node([PASS, extra], baseline=baseline("m"))
    assert node.decision is Decision.ACCEPTED
    assert len(node.listed) == 1
    strict = judge_node([PASS, extra], baseline=baseline("m"), require_all=True)
    assert strict.decision is Decision.UNDECIDED


@pytest.mark.parametrize("reference", [Reference.PEERS, Reference.SELF, Reference.FLEET])
def test_a_comparison_is_no_criterion_where_all_is_required(reference: Reference) -> None:
    """A node that is slow as a whole passes beside its own devices."""
    extra = verdict(Outcome.PASS, Reason.WITHIN, "extra", reference=reference)
    assert judge_node([PASS, extra], baseline=baseline("m")).decision is Decision.ACCEPTED
    strict = judge_node([PASS, extra], baseline=baseline("m"), require_all=True)
    judged = reference is Reference.FLEET
    assert strict.decision is (Decision.ACCEPTED if judged else Decision.UNDECIDED)


def test_what_was_judged_is_not_listed_among_what_was_not() -> None:
    hidden = verdict(Outcome.PASS, Reason.UNDETECTABLE, "other")
    missing = verdict(Outcome.NOT_TESTED, Reason.NO_CRITERION, "extra", benchmark="elsewhere")
    noted = RunEvidence(notes=("an attempt was repeated",))
    node = judge_node([PASS, hidden, missing], baseline=baseline("m", "other"), evidence=noted)
    assert node.decision is Decision.ACCEPTED
    assert [line.split()[0] for line in node.listed] == ["NOT_TESTED"]
    assert [line.split()[0] for line in node.noted] == ["PASS", "an"]


def test_a_whole_benchmark_that_was_not_run_speaks_for_its_metrics() -> None:
    skipped = verdict(Outcome.NOT_TESTED, Reason.NOT_RUN, "")
    node = judge_node([skipped], baseline=baseline("m", "other"))
    assert node.decision is Decision.UNDECIDED
    assert sum(one.word == "NOT_TESTED" for one in node.blocking) == 1
    pruned = verdict(Outcome.NOT_TESTED, Reason.PRUNED, "")
    kept = verdict(Outcome.PASS, Reason.WITHIN, "k")
    for interval, said in ((None, ""), ((0.006, 0.06), " (95 % within 0.60 % to 6.0 %)")):
        risk = RunEvidence(residual_risk=0.02, residual_interval=interval)
        risky = judge_node([pruned, kept], baseline=baseline("m", "other", "k"), evidence=risk)
        assert risky.decision is Decision.ACCEPTED
        assert f"accepted at risk 2.0 %{said}:" in risky.headline
        assert risky.residual_interval == interval


def test_nothing_is_accepted_without_a_baseline_but_it_can_be_rejected() -> None:
    peers = verdict(Outcome.PASS, Reason.WITHIN, reference=Reference.PEERS)
    for known in (None, baseline(), baseline("m")):
        assert judge_node([peers], baseline=known).decision is Decision.UNDECIDED
    bad = verdict(Outcome.FAIL, Reason.BEYOND, reference=Reference.PEERS)
    assert judge_node([peers, bad]).decision is Decision.REJECTED
    assert judge_node([], baseline=baseline("m")).decision is Decision.UNDECIDED


def test_marginal_rejects_at_a_strict_gate() -> None:
    marginal = verdict(Outcome.MARGINAL, Reason.UNUSUAL)
    node = judge_node([marginal], baseline=baseline("m"), fail_on="marginal")
    assert node.decision is Decision.REJECTED


def test_the_worst_component_comes_first_and_the_headline_names_it() -> None:
    mild = verdict(Outcome.FAIL, Reason.BEYOND, "m", component="disk", similarity=0.9)
    bad = replace(mild, metric="o", component="network", similarity=0.3, action="reseat it")
    node = judge_node([mild, bad], baseline=baseline("m", "o"))
    assert node.components == ("network", "disk")
    assert "network" in node.headline
    assert "reseat it" in node.headline
    assert dict(node.counts) == {"FAIL": 2}


def test_a_blocker_from_outside_blocks() -> None:
    quota = Blocker(cause="CPU quota of half a core")
    node = judge_node([PASS], baseline=baseline("m"), evidence=RunEvidence(blockers=(quota,)))
    assert node.decision is Decision.UNDECIDED
    assert "half a core" in node.headline


def test_where_nothing_had_to_be_measured_a_baseline_is_all_that_acceptance_needs() -> None:
    pruned = verdict(Outcome.NOT_TESTED, Reason.PRUNED, "")
    why = "the risk is 0.3 %, accepted 1 %"
    risk = RunEvidence(residual_risk=0.003)
    node = judge_node([pruned], baseline=baseline("m"), evidence=risk, unneeded=why)
    assert node.decision is Decision.ACCEPTED
    said = f"accepted at risk 0.30 % without any measurement: {why}; left out by the Selector: b"
    assert node.headline.endswith(said)
    assert judge_node([pruned], baseline=baseline("m")).decision is Decision.UNDECIDED
    assert judge_node([pruned], unneeded=why).decision is Decision.UNDECIDED


@pytest.mark.parametrize(
    "instead",
    [
        verdict(Outcome.PASS, Reason.WITHIN, reference=Reference.PEERS),
        verdict(Outcome.MARGINAL, Reason.CHANGE_POINT, reference=Reference.SELF),
        verdict(Outcome.NOT_TESTED, Reason.NO_CRITERION),
    ],
)
def test_nothing_stands_in_for_the_judgement_against_a_criterion(instead: MetricVerdict) -> None:
    other = verdict(Outcome.PASS, Reason.WITHIN, "other")
    found = judge_node([other, instead], baseline=baseline("other", "m"))
    assert found.decision is Decision.UNDECIDED
    assert any(one.kind is Hindrance.UNANSWERED and one.subject == "b m" for one in found.blocking)


def test_a_group_that_most_nodes_have_must_be_judged() -> None:
    inner = verdict(Outcome.PASS, Reason.WITHIN, group="inner")
    zones = of(criterion("m", "inner", 3), criterion("m", "outer", 3))
    missing = judge_node([inner], baseline=zones)
    assert missing.decision is Decision.UNDECIDED
    assert any(one.subject == "b m (outer)" for one in missing.blocking)
    outer = verdict(Outcome.PASS, Reason.WITHIN, group="outer")
    assert judge_node([inner, outer], baseline=zones).decision is Decision.ACCEPTED


def test_a_group_that_a_node_has_no_place_in_is_not_missed() -> None:
    places = {"stage 1": 1, "stage 2": 1, "all": 3}
    stages = of(*(criterion("m", group, nodes) for group, nodes in places.items()))
    second = [verdict(Outcome.PASS, Reason.WITHIN, group=group) for group in ("stage 2", "all")]
    assert judge_node(second, baseline=stages).decision is Decision.ACCEPTED
    unknown = verdict(Outcome.NOT_TESTED, Reason.NO_CRITERION, group="stage 7")
    assert judge_node([unknown], baseline=stages).decision is Decision.UNDECIDED


def test_pooled_values_that_nobody_judged_are_missed_unless_there_is_one_device() -> None:
    both = of(criterion("m"), replace(criterion("m"), scope="node"))
    first, second = (replace(PASS, device=device) for device in ("cuda:0", "cuda:1"))
    missing = judge_node([first, second], baseline=both)
    assert missing.decision is Decision.UNDECIDED
    assert any("criterion of the node's pooled values" in one.cause for one in missing.blocking)
    pooled = replace(PASS, scope="node", device="node")
    assert judge_node([first, second, pooled], baseline=both).decision is Decision.ACCEPTED
    assert judge_node([first], baseline=both).decision is Decision.ACCEPTED


def test_the_headline_says_why_nothing_was_judged_rather_than_that_it_was_not() -> None:
    spoiled = verdict(Outcome.INCONCLUSIVE, Reason.INVALID)
    found = judge_node([spoiled], baseline=baseline("m", "other"))
    assert "m says why" in found.headline
    assert found.blocking[1] is NOTHING_JUDGED
    assert NOTHING_JUDGED.cause in judge_node([], baseline=baseline("m")).headline


def test_an_acceptance_counts_metrics_once_and_names_what_is_to_be_looked_at() -> None:
    other = replace(PASS, device="cuda:1")
    unusual = verdict(Outcome.MARGINAL, Reason.UNUSUAL, similarity=0.97)
    slower = replace(unusual, unit="GB/s", better="higher")
    changed = verdict(Outcome.MARGINAL, Reason.CHANGE_POINT)
    accepted = judge_node([slower, PASS, other, changed], baseline=baseline("m"))
    assert "accepted: 1 metric judged, none failed" in accepted.headline
    assert "; to be looked at: b m (changed within its run) and 1 more" in accepted.headline
    assert accepted.triage is Triage.INVESTIGATE
    zero = replace(slower, similarity=0.6, value=0.0, expected=5.0, count=5)
    accepted = judge_node([zero, PASS], baseline=baseline("m"))
    assert "; to be looked at: b m (nothing at all)" in accepted.headline


def test_an_acceptance_says_that_noise_was_allowed() -> None:
    option = "--anubis-quiet-limit=others=100%"
    lifted = RunEvidence(noisy={"r1": option, "r2": option})
    accepted = judge_node([PASS], baseline=baseline("m"), evidence=lifted)
    assert accepted.headline.endswith(f"; the operator allowed more noise than usual ({option})")
    assert accepted.headline.count("allowed more noise") == 1
    assert "noise" not in judge_node([PASS], baseline=baseline("m")).headline


def test_a_headline_counts_what_is_listed() -> None:
    again = (verdict(Outcome.INCONCLUSIVE, Reason.INVALID),) * 2  # one line says both
    found = judge_node([PASS, *again], baseline=baseline("m"))
    assert len(found.blocking) == 1
    assert "more)" not in found.headline


def test_what_is_not_sure_is_to_be_measured_again_before_anything_is_replaced() -> None:
    sure = verdict(Outcome.FAIL, Reason.BEYOND, similarity=0.9, action="swap it")
    once = replace(sure, similarity=0.5, retest="a single value", device="cuda:3")
    rejected = judge_node([once, PASS], baseline=baseline("m"))
    assert (rejected.decision, rejected.triage) == (Decision.REJECTED, Triage.RETEST)
    assert "memory. cuda:3: m says why" in rejected.headline
    assert rejected.headline.endswith("Next step: measure again; if the loss stays: swap it")
    both = judge_node([once, sure], baseline=baseline("m"))
    assert (both.triage, both.lowest) == (Triage.REJECT, 0.9)  # of what its line shows, not of all
    assert both.headline.endswith("Next step: swap it")
    assert sorted([rejected, both], key=lambda node: node.severity) == [both, rejected]


def test_what_broke_stands_before_the_lack_of_a_baseline() -> None:
    hung = verdict(Outcome.INCONCLUSIVE, Reason.NOT_REPORTED, "", "t::test_hang")
    near = verdict(Outcome.INCONCLUSIVE, Reason.DISTURBED, "m", "t::test_rec")
    died = RunEvidence(blockers=(Blocker(cause="worker gw0 died"),))
    node = judge_node([near, hung], evidence=died)
    said = "node n1 is neither accepted nor rejected: worker gw0 died (and"
    assert node.headline.startswith(said)
    assert [str(one).partition(":")[0] for one in node.blocking] == [
        "worker gw0 died",
        "INCONCLUSIVE t",
        "no baseline",
        "INCONCLUSIVE t",
    ]
    assert "test_hang" in node.blocking[1].subject


def test_a_reason_that_begins_with_its_metric_names_it_once() -> None:
    nan = replace(verdict(Outcome.INCONCLUSIVE, Reason.INVALID), text="m: value 2 is NaN")
    first = judge_node([nan], baseline=baseline("m")).blocking[0]
    assert str(first) == "INCONCLUSIVE b m: value 2 is NaN"


def test_a_headline_names_all_cards_that_fail_alike_and_the_worst_of_them() -> None:
    slow = verdict(Outcome.FAIL, Reason.BEYOND, similarity=0.5)
    cards = [replace(slow, device=f"cuda:{n}", similarity=0.6 - n / 100) for n in range(4)]
    pooled = replace(slow, device="node", scope="node", similarity=0.57)
    result = judge_node([*cards, pooled], baseline=baseline("m"))
    assert "rejected: memory. all 4 cards, the worst cuda:3: m says why." in f"{result.headline}."
    six = RunEvidence(devices=tuple(f"cuda:{n}" for n in range(6)))
    result = judge_node([*cards, pooled], baseline=baseline("m"), evidence=six)
    assert "cuda:0, cuda:1 and 2 more, the worst cuda:3: m says why" in result.headline
    assert "also" not in result.headline
    one = judge_node([*cards[:1], PASS], baseline=baseline("m"), evidence=six)
    assert "memory. cuda:0: m says why" in one.headline
