"""What a test says never changes what is decided: each of our own sentences, in the mouth of a test."""

from __future__ import annotations

import ast
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

import pytest_anubis
from pytest_anubis.core.baseline import Baseline, PlainCheck
from pytest_anubis.core.measurement import PlannedTest, TestResult
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.verdict import NodeVerdict
from pytest_anubis.validator.deciding.run_decision import decide_run

TEST, OTHER = "test_a.py::test_link", "test_a.py::test_other"
BASELINE = Baseline(
    hardware_class="c",
    criteria=(),
    created="-",
    nodes=("x", "y", "z"),
    checks=(PlainCheck(test=TEST), PlainCheck(test=OTHER)),
)


@cache
def our_words() -> list[str]:
    """Return every text of the rooms that decide: constants, and the fixed parts of what they format."""
    found = set()
    root = Path(pytest_anubis.__file__).parent
    for path in (
        path for room in ("core", "validator", "session") for path in root.glob(f"{room}/**/*.py")
    ):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(node.value)
    return sorted(text for text in found if 3 < len(text) < 90 and text.isprintable())


def decided(result: TestResult) -> tuple[object, ...]:
    """Return what is decided about a run with this result, without its words."""
    run = RunRecord(
        run="r",
        node="n",
        planned=tuple(PlannedTest(test=test, benchmark=test) for test in (TEST, OTHER)),
        results=(result, TestResult(test=OTHER, benchmark=OTHER, outcome="passed")),
    )
    verdict: NodeVerdict = decide_run(run, BASELINE).node_verdict
    counts = verdict.counts, len(verdict.blocking), len(verdict.listed), len(verdict.noted)
    return verdict.decision, verdict.components, verdict.triage, *counts


@pytest.mark.parametrize("outcome", ["skipped", "failed", "error", "xfailed", "crashed", "passed"])
def test_our_own_words_in_a_tests_mouth_change_no_decision(outcome: str) -> None:
    plain = TestResult(test=TEST, benchmark=TEST, outcome=outcome, text="some words")
    if outcome == "passed":
        plain = replace(plain, text="", left_out="some words")
    expected = decided(plain)
    for words in our_words():
        text = f"{words}some words{words}"
        changed = (
            replace(plain, left_out=text) if outcome == "passed" else replace(plain, text=text)
        )
        assert decided(changed) == expected, text
