"""A baseline of one machine accepts that machine, whatever it is called, and no other one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pytest_anubis.core.baseline import Baseline, Criterion
from pytest_anubis.core.inventory import REDACTED
from pytest_anubis.core.machine_marks import identity_marks, machine_marks, machine_mismatch
from pytest_anubis.core.metric import Metric
from pytest_anubis.core.run import RunEvidence, RunRecord
from pytest_anubis.core.verdict import Decision, MetricVerdict, Outcome, Reason, Reference
from pytest_anubis.validator.deciding.node_decision import judge_node
from pytest_anubis.validator.deciding.run_decision import evidence_of

CRITERION = Criterion(
    benchmark="b", metric=Metric(name="m", unit="s", better="lower"), centre=(1.0,), nodes=1
)
LEARNED = Baseline(
    hardware_class="c", criteria=(CRITERION,), created="-", nodes=("n1",), one_machine=True
)
PASS = MetricVerdict(
    outcome=Outcome.PASS,
    reason=Reason.WITHIN,
    text="fine",
    benchmark="b",
    metric="m",
    reference=Reference.FLEET,
)


def machine(
    *, chassis: str = "", card: str = "", port: str = "", system: str = ""
) -> dict[str, Any]:
    return {
        "machine": system,
        "system": {"serial": chassis},
        "accelerators": [{"uuid": card, "serial": REDACTED}],
        "nics": [{"address": port}],
    }


def test_a_baseline_of_one_machine_accepts_no_other_one() -> None:
    assert judge_node([PASS], baseline=LEARNED, node="n1").decision is Decision.ACCEPTED
    other = judge_node([PASS], baseline=LEARNED, node="n2")
    assert other.decision.exit_code == 20
    assert "the baseline knows n1 alone" in other.headline
    cards = replace(LEARNED, one_machine=False)  # one table of its cards: units, but one node
    assert judge_node([PASS], baseline=cards, node="n1").decision is Decision.ACCEPTED
    assert judge_node([PASS], baseline=cards, node="n2").decision is Decision.UNDECIDED
    evidence = RunEvidence(other_machine=True)
    for every in (False, True):
        asked = judge_node(
            [PASS], baseline=LEARNED, node="n2", evidence=evidence, require_all=every
        )
        assert asked.decision is Decision.ACCEPTED
        assert "(learned on one other machine, n1)" in asked.headline
        assert "was to be used here all the same" in asked.noted[0]
    fleet = replace(LEARNED, one_machine=False, nodes=("n1", "n3", "n4"))
    assert judge_node([PASS], baseline=fleet, node="n2").decision is Decision.ACCEPTED


@pytest.mark.parametrize(
    ("learned", "now", "name", "same"),
    [
        ({"chassis": "CZ123"}, {"chassis": "CZ123"}, "renamed", True),
        ({"chassis": "CZ123", "card": "GPU-77"}, {"chassis": "CZ124", "card": "GPU-77"}, "n1", False),
        ({"card": "GPU-77"}, {"card": "GPU-77"}, "renamed", True),
        ({"card": "GPU-77"}, {"card": "GPU-78"}, "n1", False),
        ({"card": "GPU-77", "port": "00:0d:3a:01"}, {"card": "GPU-78", "port": "00:0d:3a:01"}, "n1", True),
        ({"port": "52:54:00:12:34:56"}, {"port": "52:54:00:12:34:56"}, "n2", False),  # made up by QEMU
        ({"chassis": "00000000"}, {"chassis": "00000000"}, "n2", False),  # no number at all
        ({"chassis": "CZ123"}, {"card": "GPU-77"}, "n1", True),  # nothing to compare: the name
        ({}, {}, "n1", True),
        ({}, {}, "n2", False),
        ({}, {}, "n1.cluster", True),
        ({}, {}, "n10", False),
        ({"system": "b01dface01"}, {"system": "b01dface02"}, "n1", False),  # two of one name
        ({"system": "b01dface01"}, {"system": "b01dface01"}, "n1", True),
        ({"system": "b01dface01"}, {"system": "b01dface01"}, "n2", False),  # as clones have it
        ({"card": "GPU-77", "system": "b01dface01"}, {"card": "GPU-77", "system": "b01dface02"}, "n2", True),
        ({"system": REDACTED}, {"system": "b01dface02"}, "n1", True),
    ],
)  # fmt: skip
def test_a_machine_is_known_by_its_parts_and_else_by_its_name(
    learned: dict[str, str], now: dict[str, str], name: str, same: bool
) -> None:
    marks = identity_marks(machine(**learned))
    assert not any("CZ" in mark or "GPU" in mark for mark in marks)  # a baseline tells no serial
    baseline = replace(LEARNED, machine=tuple(sorted(marks)))
    assert (machine_mismatch(baseline, name, identity_marks(machine(**now))) == "") is same


def test_marks_of_odd_inventories_are_none() -> None:
    for odd in ({}, {"system": 3}, {"nics": [None, {"address": 7}, {"address": "zz:1"}]}):
        assert machine_marks(odd) == frozenset()


def test_a_run_tells_which_machine_it_was_on_and_what_it_was_asked() -> None:
    inventory = machine(chassis="CZ123", system="b01dface01")
    settings = {"other_machine": True}
    evidence = evidence_of(RunRecord(run="r", node="n2", inventory=inventory, settings=settings))
    assert evidence.other_machine
    assert len(*evidence.machines) == 2
