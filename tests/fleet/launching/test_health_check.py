"""A last verdict is fitness only while it says something about today."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pytest_anubis.core.standing.standing_of import JudgedRun
from pytest_anubis.core.verdict import Decision, MetricVerdict, NodeVerdict, Outcome, Reason
from pytest_anubis.core.waiving import holds_on
from pytest_anubis.fleet.launching import kubernetes_node as cluster
from pytest_anubis.fleet.launching.health_check import Health, health_of
from pytest_anubis.report.export.drain_reason import MAX_CODE, MAX_REASON, drain_reason
from pytest_anubis.store.kept_runs import KeptRun, NodeStanding

NOW = 2_000_000_000.0


def standing(
    decision: str, reason: str, ended: float = NOW - 7200, run: str = "r1", **more: Any
) -> NodeStanding:
    failed = (("t", "m", "gpu3", ""),) if decision == "REJECTED" else ()
    judged = JudgedRun(run=run, began=ended - 60, ended=ended, decision=decision, failed=failed)
    return NodeStanding(node="n1", runs=(KeptRun(judged=judged, reason=reason, **more),))


GOOD = standing("ACCEPTED", "ANB:ACCEPTED run=r1")
BAD = standing("REJECTED", "ANB:NVLINK-BW gpu3 402 GB/s, expected 439 run=r1")


def ask(standing: NodeStanding | None, max_age: float | None = 86400.0) -> tuple[Decision, str]:
    health = health_of(standing, "n1", now=NOW, max_age=max_age, boot="b2")
    return health.decision, health.text


@pytest.mark.parametrize(
    ("standing", "decision", "text"),
    [
        (GOOD, Decision.ACCEPTED, "ANB:ACCEPTED 2 h ago run=r1"),
        (BAD, Decision.REJECTED, "ANB:NVLINK-BW gpu3 402 GB/s, expected 439 run=r1"),
        (standing("REJECTED", "ANB:X", 0.0), Decision.REJECTED, "ANB:X"),  # time repairs nothing
        (None, Decision.UNDECIDED, "ANB:NO-VERDICT n1: no run"),
        (NodeStanding(node="n1"), Decision.UNDECIDED, "ANB:NO-VERDICT n1: no run here;"),  # it was refused
        (NodeStanding(node="n1", running="r0"), Decision.UNDECIDED, "ANB:NO-VERDICT n1: run r0 began"),
        (standing("ACCEPTED", "", NOW - 2e5), Decision.UNDECIDED, "ANB:OLD-VERDICT accepted 2 d ago, the"),
        (standing("ACCEPTED", "", NOW + 7200), Decision.UNDECIDED, "ANB:CLOCK accepted 2 h in the future"),
        (replace(GOOD, running="r2", since=NOW - 60, boot="b2"), Decision.ACCEPTED, "ANB:ACCEPTED 2 h ago"),
        (replace(GOOD, running="r2", since=NOW - 60, boot="b1"), Decision.UNDECIDED, "ANB:CUT-SHORT the"),
        (replace(GOOD, running="r2", since=NOW - 1e5, boot="b2"), Decision.UNDECIDED, "ANB:CUT-SHORT run"),
    ],
)  # fmt: skip
def test_answers(standing: NodeStanding | None, decision: Decision, text: str) -> None:
    found = ask(standing)
    assert found[0] is decision
    assert found[1].startswith(text), found[1]


def test_a_rejection_to_be_measured_again_says_so_until_another_run_confirms_it() -> None:
    again = standing("REJECTED", "ANB:X", retest=True)
    twice = replace(
        again, runs=(*standing("REJECTED", "ANB:X", NOW - 9000, "r0").runs, *again.runs)
    )
    for known, retest in ((BAD, False), (again, True), (twice, False)):
        found = health_of(known, "n1", now=NOW, max_age=None, boot="b2")
        assert (found.decision, found.retest) == (Decision.REJECTED, retest)


def verdict(**more: Any) -> MetricVerdict:
    given: dict[str, Any] = {
        "outcome": Outcome.FAIL, "reason": Reason.BEYOND, "text": "slow", "benchmark": "t.py::test_x",
        "metric": "nvlink_bw", "unit": "GB/s", "better": "higher", "device": "gpu3", "value": 402.1,
        "expected": 439.0, "component": "accelerator.nvlink",
    }  # fmt: skip
    return MetricVerdict(**given | more)


def test_a_reason_begins_with_a_short_code() -> None:
    rejected = NodeVerdict(node="n1", decision=Decision.REJECTED, headline="")
    text = drain_reason(rejected, [verdict()], "7c1e")
    assert text == "ANB:NVLINK-BW gpu3 402.1 GB/s, expected 439 [accelerator.nvlink] run=7c1e"
    everywhere = [
        verdict(component=f"part{n % 3}", metric=f"m{n}", similarity=0.9, threshold=0.95)
        for n in range(6)
    ]
    said = drain_reason(rejected, everywhere, "r")
    assert said.startswith("ANB:EVERYWHERE worse in 6 metrics of 3 components")
    late = verdict(metric="latency", better="lower", value=9.0, expected=5.0, unit="us")
    assert " 9 us, expected 5 [" in drain_reason(rejected, [late], "r")
    long = verdict(
        metric="a very 'long' name\nof a metric " * 9, value=None, text='"why" \u2014 so ' * 40
    )
    text = drain_reason(rejected, [long], "7c1e")
    assert len(text) <= MAX_REASON
    assert len(text.partition(" ")[0]) <= MAX_CODE
    assert text.isascii()
    assert not set("'\"\n") & set(text)
    assert text.endswith(" run=7c1e")


def test_a_reason_names_what_is_sure() -> None:
    said = "node n1 rejected: accelerator.switch. nvlink_bw is 375.7 GB/s, expected 439.4 GB/s: 14 % slower"
    rejected = NodeVerdict(node="n1", decision=Decision.REJECTED, headline=said)
    whole = verdict(
        scope="node", device="node", value=375.675, similarity=0.855, expected=None, text="T"
    )
    cards = [
        verdict(device=f"gpu{n}", value=368.1 + n, similarity=0.83 + n / 100, retest="one value")
        for n in range(8)
    ]
    text = drain_reason(rejected, [*cards, whole], "r")
    assert text == "ANB:NVLINK-BW all devices T run=r"
    assert drain_reason(rejected, cards, "r").startswith("ANB:NVLINK-BW gpu0 ")


def test_kubernetes_is_told_by_labels_and_a_condition() -> None:
    bad = standing("REJECTED", "ANB:NVLINK-BW gpu3", run="r/1" + "x" * 80, baseline="sha:ab")
    health = Health(
        Decision.REJECTED,
        "ANB:NVLINK-BW gpu3 402 GB/s, expected 439 run=r1",
        bad.kept(bad.standing(holds_on(""))),
    )
    labels = cluster.label_patch(health)["metadata"]["labels"]
    assert labels[f"{cluster.PREFIX}/verdict"] == "rejected"
    assert len(labels[f"{cluster.PREFIX}/run"]) == 63
    assert labels[f"{cluster.PREFIX}/baseline"] == "sha-ab"
    (condition,) = cluster.condition_patch(health, now=NOW)["status"]["conditions"]
    assert (condition["status"], condition["reason"]) == ("True", "NvlinkBw")
    before = {"status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    (again,) = cluster.condition_patch(health, now=NOW, before=before)["status"]["conditions"]
    assert again["lastTransitionTime"] == "2026-01-01T00:00:00Z" != again["lastHeartbeatTime"]
    fit = Health(Decision.ACCEPTED, "")
    (fine,) = cluster.condition_patch(fit, now=NOW, before=before)["status"]["conditions"]
    assert (fine["status"], fine["lastTransitionTime"]) == ("False", fine["lastHeartbeatTime"])
