"""Waivers in the decision: what is waived rejects nothing, and nothing about waivers is silent."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pytest_anubis.core.baseline import Baseline, Criterion
from pytest_anubis.core.blocker import Hindrance
from pytest_anubis.core.metric import Metric
from pytest_anubis.core.run import RunEvidence
from pytest_anubis.core.verdict import (
    Decision,
    MetricVerdict,
    NodeVerdict,
    Outcome,
    Reason,
    Reference,
    Waiver,
)
from pytest_anubis.core.waiving import waived_verdict
from pytest_anubis.validator import judge_node
from pytest_anubis.validator.deciding.ledger import NOTHING_JUDGED

WAIVER = Waiver(owner="j.doe", reason="HW-4711", expires="2026-12-01", metric="m")
FAIL = MetricVerdict(
    outcome=Outcome.FAIL,
    reason=Reason.BEYOND,
    text="m is slow",
    benchmark="b",
    metric="m",
    better="lower",
    component="memory",
    node="n1",
    device="cpu",
    reference=Reference.FLEET,
)
PASS = replace(FAIL, outcome=Outcome.PASS, reason=Reason.WITHIN, metric="other", text="")
XID = replace(FAIL, reason=Reason.HARDWARE, benchmark="hardware", metric="XID 48", better="")


def decided(
    *verdicts: MetricVerdict, waivers: tuple[Waiver, ...] = (WAIVER,), require_all: bool = False
) -> NodeVerdict:
    criteria = tuple(
        Criterion(benchmark="b", metric=Metric(name=name, unit="s", better="lower"), centre=(1.0,))
        for name in ("m", "other")
    )
    baseline = Baseline(hardware_class="c", criteria=criteria, created="-", nodes=("x", "y", "z"))
    evidence = RunEvidence(waivers=waivers)
    return judge_node(
        verdicts, baseline=baseline, node="n1", evidence=evidence, require_all=require_all
    )


def test_a_waived_failure_rejects_nothing_and_stands_in_the_headline() -> None:
    found = decided(FAIL, PASS)
    assert found.decision is Decision.ACCEPTED
    assert found.headline == (
        "node n1 accepted: 1 metric judged (learned from 3 nodes); "
        "1 waived: b m cpu (j.doe until 2026-12-01: HW-4711)"
    )
    assert dict(found.counts) == {"PASS": 1, "NOT_TESTED": 1}
    assert found.noted == ("WAIVED b m cpu: waived by j.doe until 2026-12-01: HW-4711: m is slow",)
    assert found.listed == ()  # it was judged
    assert decided(FAIL, PASS, require_all=True).decision is Decision.UNDECIDED


def test_what_xfail_marks_cover_is_counted_in_every_headline() -> None:
    """Only an acceptance did, and the loss stood in the list of what was not judged."""
    marked = waived_verdict(FAIL)
    for verdicts in ((marked, PASS), (marked,), (marked, PASS, XID)):
        found = decided(*verdicts, waivers=())
        assert "1 waived by xfail marks: b m cpu" in found.headline
        assert found.noted == ("WAIVED b m cpu: failed as its xfail mark expects: m is slow",)
        assert found.listed == ()


def test_where_all_is_waived_nothing_was_judged() -> None:
    everything = replace(WAIVER, metric="*")
    found = decided(FAIL, replace(FAIL, metric="other"), waivers=(everything,))
    assert found.decision is Decision.UNDECIDED
    assert "2 waived: b m cpu, b other cpu (j.doe" in found.headline


def test_a_waived_failure_of_the_test_itself_replaces_none_of_its_values() -> None:
    check = replace(FAIL, reason=Reason.TEST_FAILED, metric="", reference=Reference.NONE)
    elsewhere = replace(PASS, benchmark="c", reference=Reference.SELF)
    for verdicts in ((check, PASS), (waived_verdict(check), PASS, elsewhere)):
        found = decided(*verdicts, waivers=(replace(WAIVER, metric="check"),))
        assert found.decision is Decision.UNDECIDED
        assert [one.subject for one in found.blocking] == ["b m"]
        assert found.noted[0].startswith("WAIVED b cpu")


def test_what_no_waiver_names_rejects_and_the_others_are_told() -> None:
    broad = replace(WAIVER, metric="", component="memory")
    found = decided(FAIL, PASS, XID, waivers=(broad,))
    assert found.decision is Decision.REJECTED
    assert "1 waived: b m cpu (j.doe" in found.headline
    named = decided(FAIL, PASS, XID, waivers=(broad, replace(WAIVER, metric="XID 48")))
    assert named.decision is Decision.ACCEPTED
    assert "2 waived: b m cpu, hardware XID 48 cpu (j.doe" in named.headline


def test_a_run_of_which_everything_is_waived_says_so() -> None:
    """It was advised to run the tests that it had just run."""
    found = decided(FAIL)
    assert found.decision is Decision.UNDECIDED
    (blocker,) = [one for one in found.blocking if one.kind is Hindrance.NOTHING_JUDGED]
    assert blocker.act != NOTHING_JUDGED.act


def test_an_expired_waiver_blocks_and_a_failure_that_it_covered_rejects() -> None:
    expired = replace(WAIVER, expired=True)
    good = decided(replace(PASS, metric="m"), PASS, waivers=(expired,))
    assert good.decision is Decision.UNDECIDED
    assert [one.fact for one in good.blocking] == [
        "the waiver for metric m (j.doe: HW-4711) expired on 2026-12-01"
    ]
    bad = decided(FAIL, PASS, waivers=(expired,))
    assert bad.decision is Decision.REJECTED
    assert "its waiver expired on 2026-12-01" in bad.headline


def test_waivers_that_cover_no_failure_are_told_and_block_nothing() -> None:
    waivers = (
        WAIVER,  # what it covers passed
        replace(WAIVER, metric="mm"),
        replace(WAIVER, metric="mm", expired=True),
        replace(WAIVER, node="n2", expired=True),  # another node's business
    )
    found = decided(replace(PASS, metric="m"), PASS, waivers=waivers, require_all=True)
    assert found.decision is Decision.ACCEPTED
    says = [line.partition("HW-4711)")[2].lstrip(": ") for line in found.noted]
    assert says == [
        "nothing that it covers failed; remove it if it is no longer needed",
        "matches nothing of this run, as no metric of it is 'mm' (did you mean 'm'?) -> correct or remove it",
        "matches nothing of this run and expired on 2026-12-01, as no metric of it is 'mm' (did you "
        "mean 'm'?) -> correct or remove it",
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"metric": "rat"}, "no metric of it is 'rat' (did you mean 'rate'?)"),
        ({"metric": "rat", "test": "s/a.py::test_*"}, "no metric of it is 'rat' (did you mean 'rate'?)"),
        ({"test": "s/a.py::test_sped"}, "no test of it is 's/a.py::test_sped' (did "
            "you mean 's/a.py::test_speed'?)"),
        ({"test": "test_speed"}, "no test of it is 'test_speed' (did you mean 's/a.py::test_speed'?)"),
        ({"test": "x", "metric": "y"}, "no test of it is 'x' (there are plain, s/a.py::test_speed)"),
        ({"component": "memry"}, "no component of it is 'memry' (did you mean 'memory'?)"),
        ({"metric": "rate", "device": "cuda:9"}, "no device of it is 'cuda:9' (there are cpu, node)"),
        ({"test": "plain", "metric": "check"}, ""),
    ],
)  # fmt: skip
def test_a_misspelt_waiver_is_told_with_the_names_that_there_are(
    words: dict[str, str], said: str
) -> None:
    bad = replace(FAIL, benchmark="s/a.py::test_speed", metric="rate")
    plain = replace(PASS, benchmark="plain", metric="", device="node", component="")
    result: dict[str, Any] = {"owner": "j.doe", "reason": "-", "expires": "2026-12-01", **words}
    evidence = RunEvidence(
        waivers=(Waiver(**result),),
        planned=frozenset({("s/a.py::test_speed", "cpu"), ("plain", "node")}),
    )
    found = judge_node([bad, plain], node="n1", evidence=evidence)
    (line,) = found.noted
    assert ("): nothing that it covers failed" in line) is (not said)
    assert said in line


def test_a_waiver_that_would_have_to_name_what_failed_says_so() -> None:
    wrong = replace(FAIL, better="equal")
    found = decided(wrong, PASS, waivers=(replace(WAIVER, metric="", test="b"),))
    assert found.decision is Decision.REJECTED
    assert 'it must name metric = "m" to cover the failure of b' in found.noted[-1]


def test_tests_and_devices_without_a_verdict_of_their_own_are_met() -> None:
    evidence = RunEvidence(
        waivers=(replace(WAIVER, metric="", test="plain"), replace(WAIVER, device="cuda:1")),
        planned=frozenset({("plain", "node")}),
    )
    answers = {("b", "m", ""): {"cuda:0", "cuda:1"}}
    found = judge_node(
        [replace(PASS, metric="m", device="")], (), node="n1", evidence=evidence, answers=answers
    )
    assert [line.rpartition(": ")[2] for line in found.noted] == [
        "nothing that it covers failed; remove it if it is no longer needed"
    ] * 2
