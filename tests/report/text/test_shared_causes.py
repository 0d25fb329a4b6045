"""What nodes share in lines: the slower of two groups is named; nodes slow for nothing else are one line."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_anubis.core.fleet_survey import ShiftedMetric, TraitShift
from pytest_anubis.core.metric import Metric
from pytest_anubis.core.verdict import Decision, MetricVerdict, NodeVerdict, Outcome, Reason, Triage
from pytest_anubis.report.text.node_row import NodeRow
from pytest_anubis.report.text.node_text import fleet_lines
from pytest_anubis.report.text.shared_causes import MAX_CAUSES, cause_lines, cause_text

RATE = Metric(name="copy", unit="GB/s", better="higher")
SHIFTED = ShiftedMetric(
    benchmark="b",
    metric=RATE,
    component="pcie",
    similarity=0.955,
    worse=True,
    apart=1.0,
    chance=0.0,
)
BATCH = TraitShift(
    hardware_class="",
    trait="batch",
    value="C",
    nodes=tuple(f"n{n}" for n in range(8)),
    others=92,
    metrics=(SHIFTED,),
)


def slow(similarity: float, metric: str = "copy") -> MetricVerdict:
    return MetricVerdict(
        outcome=Outcome.FAIL,
        reason=Reason.BEYOND,
        text="slow",
        benchmark="b",
        metric=metric,
        unit="GB/s",
        better="higher",
        value=similarity,
        expected=1.0,
        similarity=similarity,
        threshold=0.95,
    )


def row(node: str, *shown: MetricVerdict, gone: tuple[str, ...] = ()) -> NodeRow:
    verdict = NodeVerdict(
        node=node,
        decision=Decision.REJECTED,
        headline="",
        triage=Triage.REJECT,
        lowest=min((v.similarity or 0.0 for v in shown), default=0.0),
        gone=gone,
    )
    return NodeRow(verdict=verdict, verdicts=shown)


def test_the_slower_group_is_named() -> None:
    assert cause_text(BATCH).startswith("batch C (8 nodes): b copy 4.5 % slower -> ")
    half = replace(BATCH, trait="driver", value="580", others=8, others_value="570")
    words = "driver 580 (8 nodes): b copy 4.5 % slower than 570 -> give "
    assert cause_text(half).startswith(f"{words}{half.nodes[0]} the driver of the others, 570,")
    better = replace(
        half, value="570", others_value="580", metrics=(replace(SHIFTED, worse=False),)
    )
    assert cause_text(better).startswith(f"{words}one of them the driver of the others, 570,")
    rejected = replace(BATCH, metrics=(), rejected=6, rejected_others=1)
    assert cause_text(rejected).startswith("batch C (8 nodes): 6 rejected, of the 92 others 1 -> ")


def test_a_driver_of_the_same_nodes_is_looked_at_before_cables() -> None:
    other = replace(BATCH, aliases=("rack r1", "driver 580"))
    assert "-> try n0 without driver 580, " in cause_text(other)
    assert "driver" not in cause_text(replace(BATCH, aliases=("rack r1",)))


def test_better_groups_are_no_cause() -> None:
    better = replace(BATCH, metrics=(replace(SHIFTED, worse=False),))
    assert cause_lines([better], {}) == []
    assert len(cause_lines([BATCH] * 9, {})) == MAX_CAUSES + 1
    assert len(cause_lines([BATCH] * 9, {}, verbose=True)) == 9


@pytest.mark.parametrize(
    ("shown", "explained"),
    [
        ((slow(0.93),), True),
        ((slow(0.70),), False),
        ((slow(0.93), slow(0.93, "other")), False),
        ((), False),
    ],
)
def test_a_batch_explains_its_typical_loss(
    shown: tuple[MetricVerdict, ...], explained: bool
) -> None:
    assert BATCH.explains(shown) is explained


def test_nodes_of_a_slow_batch_share_a_line() -> None:
    rows = [row(f"n{n}", slow(0.93 + n / 1000)) for n in range(5)]
    rows += [row("n6", slow(0.6)), row("x", gone=("cuda:6",)), row("y", slow(0.93))]
    lines = fleet_lines(rows, [BATCH])
    assert [line.split(": ")[0].split()[-1] for line in lines[:1]] == ["x"]
    assert lines[1].startswith(
        "batch C (8 nodes): b copy 4.5 % slower; 5 nodes rejected for nothing else"
    )
    assert ["n6" in lines[2], "5 nodes (n0" in lines[3], " y: " in lines[4]] == [True] * 3
    assert "as all of batch C" in lines[3]
    assert len(fleet_lines(rows, [BATCH], verbosity=1)) > len(lines)
