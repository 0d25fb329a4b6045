"""What a bad verdict asks people to do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pytest_anubis.core.asking.next_step import (
    ABSENT,
    AGAIN,
    MAX_STEP,
    SCATTERED,
    first_act,
    look_act,
    next_step,
    next_steps,
    open_act,
)
from pytest_anubis.core.blocker import Blocker, Hindrance
from pytest_anubis.core.verdict import NOISY, MetricVerdict, Outcome, Reason, Reference

UNUSUAL = MetricVerdict(
    outcome=Outcome.MARGINAL,
    reason=Reason.UNUSUAL,
    text="gemm_rate is 7.1 TFLOP/s, expected 6.9 TFLOP/s: its distribution is 4 % worse",
    benchmark="t::b",
    metric="gemm_rate",
    better="higher",
    value=7.1,
    expected=6.9,
    similarity=0.96,
    reference=Reference.SELF,
    action="clean the heat sink",
)
SLOW = replace(UNUSUAL, outcome=Outcome.FAIL, reason=Reason.BEYOND, value=5.0, similarity=0.7)


@pytest.mark.parametrize(
    ("changes", "step"),
    [
        ({}, SCATTERED),
        ({"reference": Reference.PEERS}, SCATTERED),
        ({"better": "lower", "value": 6.8}, SCATTERED),
        ({"value": 6.8}, "clean the heat sink"),
        ({"better": "lower"}, "clean the heat sink"),
        ({"reference": Reference.FLEET}, "clean the heat sink"),
        ({"part": "a fifth of the values"}, f"{AGAIN}; if that stays: clean the heat sink"),
        ({"part": "a fifth of the values", "action": ""}, SCATTERED),
        ({"reason": Reason.CHANGE_POINT}, "clean the heat sink"),
        ({"outcome": Outcome.FAIL, "reason": Reason.BEYOND}, "clean the heat sink"),
        ({"expected": None}, "clean the heat sink"),
    ],
)
def test_scattered_values_need_no_repair(changes: dict[str, Any], step: str) -> None:
    assert next_step(replace(UNUSUAL, **changes)) == step


def test_a_failed_check_blames_its_component() -> None:
    shown = replace(SLOW, reason=Reason.TEST_FAILED, component="memory", action="")
    assert "memory" in next_step(shown)
    assert next_step(replace(shown, action="swap it")) == "swap it"
    assert "memory" not in next_step(replace(shown, reason=Reason.UNSET))


def test_the_surest_failure_words_a_shared_step() -> None:
    again = replace(SLOW, device="cuda:1", retest=NOISY)
    other = replace(again, device="cuda:2", action="swap the cable")
    assert next_steps([SLOW, again, other, UNUSUAL]) == {
        "clean the heat sink": [SLOW, again],
        "measure again; if the loss stays: swap the cable": [other],
        SCATTERED: [UNUSUAL],
    }
    near = replace(UNUSUAL, value=6.7, device="cuda:4")  # unusual, and no failure
    assert next_steps([near, again]) == {
        "measure again; if the loss stays: clean the heat sink": [near, again]
    }
    assert list(next_steps([again])) == ["measure again; if the loss stays: clean the heat sink"]
    assert next_steps([replace(SLOW, action="")]) == {}


@pytest.mark.parametrize(
    ("component", "word"),
    [
        ("accelerator.memory", "remapped"),
        ("gpu_memory", "remapped"),
        ("memory.bandwidth", "edac"),
        ("accelerator.pcie", "lspci"),
        ("storage.disk", "smartctl"),
        ("network.ib", "cable"),
        ("compute.vector", "governor"),
        ("accelerator.compute", "clock"),
    ],
)
def test_components_have_usual_first_steps(component: str, word: str) -> None:
    assert word in first_act(replace(SLOW, action="", component=component))
    assert word in next_step(replace(SLOW, action="", component=component))


@pytest.mark.parametrize(
    ("component", "test", "device", "word"),
    [
        ("memory", "hbm", "cuda:5", "remapped"),
        ("compute", "gemm", "cuda:0", "swap the card"),
        ("compute", "gemm", "cpu", "governor"),
        ("interconnect", "pcie", "cuda:6", "lspci"),
        ("interconnect", "nvlink", "cuda:6", "link states"),
        ("coffee", "brew", "cuda:1", "swap the card"),
    ],
)
def test_steps_follow_device_and_benchmark(
    component: str, test: str, device: str, word: str
) -> None:
    slow = replace(SLOW, action="", component=component, benchmark=test, device=device)
    assert word in first_act(slow)


def test_the_first_act_is_short_and_the_marks_own() -> None:
    assert first_act(SLOW) == "clean the heat sink"
    assert first_act(replace(SLOW, retest="a single value")) == "measure again first"
    long = "compare " + "everything " * 20
    assert len(first_act(replace(SLOW, action=long))) <= MAX_STEP
    assert first_act(replace(SLOW, action="Reseat it. Then swap it.")) == "reseat it"
    assert first_act(replace(SLOW, action="", component="coffee")) != ""


def test_an_accepted_node_worth_a_look_has_a_step() -> None:
    card = replace(UNUSUAL, value=5.0, device="cuda:1", component="accelerator.memory", action="")
    assert look_act(UNUSUAL) == AGAIN
    assert look_act(replace(card, action="swap it")) == "measure again; if it stays: swap it"
    assert look_act(card).startswith("measure again; if it stays: read its memory errors")
    shifted = replace(card, reason=Reason.CLASS_SHIFT)
    assert look_act(shifted).startswith("find what all nodes of the class share")
    unknown = replace(card, device="", component="", benchmark="t", metric="x")
    assert look_act(unknown).endswith("compare it with a healthy node")


def test_open_blockers_have_a_step_by_reason() -> None:
    unclear = Blocker(kind=Hindrance.OPEN, word="INCONCLUSIVE", cause="", reason=Reason.WRONG_UNIT)
    assert "unit" in open_act(unclear)
    assert open_act(replace(unclear, word="NOT_TESTED")) == ABSENT
    assert all(open_act(replace(unclear, reason=reason)) for reason in Reason)
    assert all(open_act(Blocker(kind=kind, cause="")) for kind in Hindrance)
    assert open_act(replace(unclear, act="look")) == "look"


@pytest.mark.parametrize(
    ("better", "unit", "corrupt"),
    [("lower", "packets", False), ("lower", "errors", True), ("equal", "crc", True)],
)
def test_only_counted_faults_are_corruption(better: Any, unit: str, corrupt: bool) -> None:
    counted = replace(
        SLOW, metric="seen", better=better, unit=unit, value=1.0, similarity=0.0, action=""
    )
    assert ("corruption" in first_act(counted)) == corrupt
    assert ("counts" in first_act(counted)) == (not corrupt)
