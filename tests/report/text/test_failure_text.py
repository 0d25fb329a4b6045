"""What a test says when it is not passed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_anubis.core.metric import Direction
from pytest_anubis.core.onset import Onset, SensorMove
from pytest_anubis.core.verdict import (
    Decision,
    MetricVerdict,
    NodeVerdict,
    Outcome,
    Reason,
    Reference,
)
from pytest_anubis.report.export.drain_reason import drain_reason
from pytest_anubis.report.pages.html_blocks import verdict_rows
from pytest_anubis.report.text.failure_text import (
    failure_rows,
    failure_text,
    fitted_failure,
    inconclusive_text,
    short_lines,
    summary_sentence,
    verdict_table,
    worst_text,
)
from pytest_anubis.report.text.numbers import lost_text, value_text
from pytest_anubis.report.text.text_table import width_of

SLOW = MetricVerdict(
    outcome=Outcome.FAIL,
    reason=Reason.BEYOND,
    text="gemm_rate is 6.1 TFLOP/s, expected 6.9 TFLOP/s: 12 % slower",
    benchmark="suites/compute/test_gemm.py::test_gemm",
    metric="gemm_rate",
    unit="TFLOP/s",
    better="higher",
    component="accelerator.compute",
    node="node7",
    device="cuda:3",
    count=40,
    value=6.1,
    expected=6.9,
    limit=6.555,
    similarity=0.884,
    threshold=0.95,
    practical=0.95,
    percentile=0.4,
    reference=Reference.FLEET,
    baseline="sha256:0123456789ab",
    population="312 nodes",
    evidence=("GPU 3: thermal slowdown in 80 % of the time",),
    action="clean the heat sink of GPU 3",
)
GOOD = replace(
    SLOW,
    outcome=Outcome.PASS,
    reason=Reason.WITHIN,
    text="fine",
    metric="gemm_latency",
    unit="us",
    better="lower",
    value=10.01,
    expected=10.0,
    similarity=0.999,
)


def test_the_first_line_makes_sense_alone() -> None:
    first, blank, *_ = failure_text([GOOD, SLOW]).split("\n")
    assert first == (
        "gemm_rate 12 % slower: 6.1 TFLOP/s, expected 6.9 (similarity .88 < .95): "
        "accelerator.compute on cuda:3"
    )
    assert blank == ""


WRONG = replace(
    SLOW, metric="errors", unit="count", better="equal", count=1,
    value=2.0, expected=0.0, similarity=0.0,
)  # fmt: skip
TAIL = replace(SLOW, value=6.89, similarity=0.8)
PART = replace(TAIL, part="12 of 40 values are 70 % slower")
SLOW_TIME = replace(
    SLOW, metric="latency", unit="us", better="lower", value=12.0, expected=10.0, similarity=10 / 12
)
UNSET = MetricVerdict(
    outcome=Outcome.FAIL,
    reason=Reason.UNSET,
    text="rate is declared\nbut was never recorded",
    benchmark="t::b",
    metric="rate",
    component="disk",
)
CHANGED = replace(
    SLOW,
    outcome=Outcome.MARGINAL,
    reason=Reason.CHANGE_POINT,
    similarity=0.99,
    text="gemm_rate passes as a whole, but fell after 4 s",
)


@pytest.mark.parametrize(
    ("verdict", "sentence"),
    [
        (SLOW_TIME, "latency 20 % longer: 12 us, expected 10 ("),
        (TAIL, "gemm_rate worse in its distribution: median 6.89 TFLOP/s, expected 6.9 ("),
        (PART, "gemm_rate: 12 of 40 values are 70 % slower; median 6.89 TFLOP/s, expected 6.9 ("),
        (UNSET, "rate is declared but was never recorded: disk"),
        (CHANGED, "gemm_rate passes as a whole, but fell after 4 s: accelerator.compute"),
        (WRONG, "errors 2, must be 0: accelerator.compute"),
        (replace(WRONG, count=4, similarity=0.25), "errors 2, must be 0 (3 of 4 values differ): "),
        (
            replace(WRONG, value=0.0, count=4, similarity=0.75),
            "errors must be 0, but 1 of 4 values differ: ",
        ),
        (
            replace(WRONG, metric="size", unit="B", value=4095.0, expected=4096.0),
            "size 4095 B, must be 4096 B: ",
        ),
        (
            replace(WRONG, metric="gemm_rate", unit="TFLOP/s", better="lower"),
            "gemm_rate above zero: 2 TFLOP/s, expected 0 (",
        ),
    ],
)
def test_a_bad_verdict_has_a_sentence(verdict: MetricVerdict, sentence: str) -> None:
    assert summary_sentence(verdict).startswith(sentence)
    assert failure_text([verdict]).startswith(sentence)


def test_a_hidden_loss_is_in_part() -> None:
    assert [row[5] for row in failure_rows([TAIL, PART])] == ["loss", "in part", "in part"]


def test_pooled_verdicts_name_all_devices() -> None:
    pooled = replace(SLOW, scope="node", device="node")
    node = NodeVerdict(node="n", decision=Decision.REJECTED, headline="")
    texts = (
        failure_text([pooled, SLOW]),
        verdict_table([pooled]),
        worst_text(pooled, {}),
        drain_reason(node, [pooled], "r"),
        verdict_rows([pooled]),
    )
    for text in texts:
        assert "all devices" in text, text
        assert "of the node" not in text
        assert "whole node" not in text


@pytest.mark.parametrize(
    ("better", "value", "similarity", "lost"),
    [
        ("higher", 60.2, 0.76, "40 % slower"),  # half of the values or more: the median shows it
        ("higher", 60.2, 0.61, "40 % slower"),
        ("higher", 60.2, 0.45, "40 % slower"),
        ("lower", 300.0, 0.45, "3 times as long"),
    ],
)
def test_a_shown_loss_is_the_quotient_of_its_values(
    better: Direction, value: float, similarity: float, lost: str
) -> None:
    unit = "GB/s" if better == "higher" else "ms"
    slow = replace(SLOW, unit=unit, better=better, similarity=similarity)
    slow = replace(slow, value=value, expected=100.0)
    said = f"{lost}: {value_text(value, unit)}, expected 100"
    assert said in summary_sentence(slow)
    assert said in worst_text(slow, {})
    short = lost.removesuffix(" slower").removesuffix(" as long")
    assert failure_rows([slow])[1][5] == lost_text(slow) == short


def test_several_bad_metrics_are_counted_and_named() -> None:
    other = replace(SLOW, metric="hbm_rate", outcome=Outcome.MARGINAL)
    first = failure_text([GOOD, SLOW, other]).split("\n", 1)[0]
    assert first.startswith("gemm_rate 12 % slower: ")
    assert first.endswith("; 2 of 3 metrics are bad, also hbm_rate")


def test_a_card_has_slot_and_serial_number() -> None:
    cards = {SLOW.device: "slot 0000:5d:00.0, serial number 1654321"}
    first, *others = failure_text([SLOW], cards).split("\n")
    assert first.endswith("on cuda:3 (slot 0000:5d:00.0, serial number 1654321)")
    assert any(line.startswith("component: ") and "serial number" in line for line in others)


def test_the_table_explains_the_verdict() -> None:
    header, bad, good = failure_text([GOOD, SLOW]).split("\n")[2:5]
    assert "fleet percentile" in header
    needed = {"gemm_rate", "TFLOP/s", "6.1", "6.9", "6.555", "reject", SLOW.baseline, "FAIL"}
    assert needed <= set(bad.split())
    assert "PASS" in good


@pytest.mark.parametrize("width", [60, 80, 100, 140, 200])
def test_the_text_fits_the_terminal(width: int) -> None:
    verdicts = [GOOD, SLOW]
    whole = failure_text(verdicts).split("\n")
    lines = fitted_failure(whole, failure_rows(verdicts), width)
    assert max(map(width_of, lines)) <= width
    assert set(" ".join(lines).split()) <= set(" ".join(whole).split())
    for needed in ("6.1", "6.9", "12 %", "FAIL"):
        assert (
            needed
            in lines[next(n for n, line in enumerate(lines) if line.startswith("gemm_rate  "))]
        )
    if width == 200:
        assert lines == whole
    for column, least in (("limit", 80), ("certainty", 100), ("fleet percentile", 140)):
        assert any(column in line for line in lines if "verdict" in line) is (width >= least), (
            column
        )


def test_a_text_with_another_table_is_left_as_it_is() -> None:
    """A text that was too long has lost its end."""
    whole = failure_text([GOOD, SLOW]).split("\n")[:4]
    assert fitted_failure(whole, failure_rows([GOOD, SLOW]), 40) == whole


def test_short_forms_keep_the_loss() -> None:
    cards = {SLOW.device: "slot 0000:5d:00.0, serial number 1654321"}
    assert short_lines([GOOD, SLOW], cards) == [
        failure_text([GOOD, SLOW], cards).split("\n")[0],
        "gemm_rate 12 % slower: 6.1 TFLOP/s, expected 6.9: accelerator.compute on cuda:3",
        "gemm_rate 12 % slower: 6.1 vs 6.9 TFLOP/s: accelerator.compute",
        "gemm_rate 12 % slower: 6.1 TFLOP/s, expected 6.9",
        "gemm_rate 12 % slower: 6.1 vs 6.9 TFLOP/s",
        "gemm_rate 12 % slower",
    ]
    assert short_lines([WRONG])[-2:] == [
        "errors 2, must be 0: accelerator.compute",
        "errors 2, must be 0",
    ]
    short = "gemm_rate worse in its distribution: median 6.89 vs 6.9 TFLOP/s"
    assert short in short_lines([TAIL])
    assert short_lines([replace(SLOW, text="it is\nbad", similarity=None)])[-1] == "it is bad"


def test_the_line_says_since_when_where_it_fits() -> None:
    fallen = SensorMove(part="GPU 3", quantity="SM clock", unit="MHz", before=1980.0, after=1410.0)
    onset = Onset(number=22, count=42, size=0.12, compared=7, sensor=fallen)
    since = "; since value 22 of 42: SM clock fell"
    late = replace(SLOW, onset=onset)
    first, *shorter = short_lines([late])
    assert first == short_lines([SLOW])[0] + since
    assert [line for line in shorter if line.endswith(since)] == [
        f"gemm_rate 12 % slower: 6.1 TFLOP/s, expected 6.9: accelerator.compute on cuda:3{since}",
        f"gemm_rate 12 % slower: 6.1 vs 6.9 TFLOP/s{since}",
    ]
    assert all("12 % slower" in line for line in shorter)
    assert short_lines([replace(late, metric="x"), SLOW])[0].endswith("also gemm_rate")


def test_component_evidence_and_step_follow_once() -> None:
    lines = failure_text([SLOW, replace(SLOW, metric="hbm_rate")]).split("\n")
    assert lines.count("component: accelerator.compute (node7 cuda:3)") == 1
    assert lines.count("learned from: 312 nodes") == 1
    assert lines.count("evidence: GPU 3: thermal slowdown in 80 % of the time") == 1
    assert lines.count("next step: clean the heat sink of GPU 3") == 1


def test_an_undecided_test_says_so_in_one_line() -> None:
    disturbed = replace(SLOW, outcome=Outcome.INCONCLUSIVE, text="steal of 12 %\nof the time")
    missing = replace(SLOW, outcome=Outcome.NOT_TESTED, text="no criterion")
    assert inconclusive_text([GOOD, disturbed, missing]) == (
        "INCONCLUSIVE: steal of 12 % of the time; no criterion"
    )
    assert inconclusive_text([missing]) == "NOT_TESTED: no criterion"
