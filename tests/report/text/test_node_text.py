"""Nodes in lines: the worst first with its cause whole, the rest counted, nodes of one cause as one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_anubis.core.alike_devices import without_repeats
from pytest_anubis.core.blocker import Blocker, Hindrance
from pytest_anubis.core.verdict import (
    Decision,
    MetricVerdict,
    NodeVerdict,
    Outcome,
    Reason,
    Reference,
    Triage,
)
from pytest_anubis.report.text.failure_text import worst_text
from pytest_anubis.report.text.node_row import NodeRow
from pytest_anubis.report.text.node_text import fleet_lines
from pytest_anubis.report.text.text_table import width_of, wrap

CARDS = {"cuda:3": "slot 0000:5d:00.0, serial number 1654"}
SLOW = MetricVerdict(
    outcome=Outcome.FAIL,
    reason=Reason.BEYOND,
    text="rate is 70 GB/s, expected 100 GB/s: 30 % slower",
    benchmark="suites/memory/test_copy.py::test_copy",
    metric="rate",
    unit="GB/s",
    better="higher",
    component="accelerator.memory",
    device="cuda:3",
    value=70.0,
    expected=100.0,
    similarity=0.7,
    threshold=0.95,
    reference=Reference.FLEET,
)
WRONG = replace(
    SLOW,
    reason=Reason.TEST_FAILED,
    metric="",
    text="the test itself failed",
    similarity=None,
    device="node",
)
OPEN = replace(SLOW, outcome=Outcome.INCONCLUSIVE, reason=Reason.DISTURBED)


def row(name: str, decision: Decision, *shown: MetricVerdict, blocking: int = 0) -> NodeRow:
    verdict = NodeVerdict(
        node=name,
        decision=decision,
        headline=f"node {name} accepted: 4 metrics judged",
        blocking=tuple(
            Blocker(
                kind=Hindrance.OPEN, word="NOT_TESTED", subject=f"t{number}", cause="fio not found"
            )
            for number in range(blocking)
        ),
        triage=min(shown, key=lambda v: v.severity).triage if shown else Triage.NONE,
        lowest=0.7 if shown else None,
    )
    return NodeRow(verdict=verdict, verdicts=shown, cards=CARDS)


def test_the_worst_metric_is_complete() -> None:
    assert worst_text(SLOW, CARDS) == (
        "test_copy rate on cuda:3 (slot 0000:5d:00.0, serial number 1654) 30 % slower: 70 GB/s, "
        "expected 100 [accelerator.memory]"
    )
    assert worst_text(WRONG, CARDS) == "test_copy: the test itself failed [accelerator.memory]"
    peers = replace(SLOW, reference=Reference.PEERS, population="7 other devices of this node")
    assert "expected 100 by 7 other devices of this node [" in worst_text(peers, {})
    pooled = replace(SLOW, scope="node", device="node")
    assert worst_text(pooled, CARDS).startswith("test_copy rate of all devices 30 % slower")


def test_other_troubles_are_counted_by_kind() -> None:
    borderline, other = replace(SLOW, retest="borderline"), replace(SLOW, device="cuda:7")
    lines = fleet_lines(
        [row("n1", Decision.REJECTED, SLOW, other, WRONG, borderline, OPEN, blocking=3)]
    )
    assert lines[0].startswith("REJECTED  failed n1: test_copy: the test itself failed")
    assert "; also 2 slow, 1 borderline, 1 unclear, 2 missing -> " in lines[0]
    assert lines[1] == "1 node: 1 REJECTED, 0 UNDECIDED, 0 ACCEPTED"


def test_what_several_runs_found_is_one_thing() -> None:
    runs = [replace(SLOW, run=name, run_words=f"in run {name}") for name in ("w1", "w2", "w3")]
    lines = fleet_lines([row("n1", Decision.REJECTED, *runs)])
    assert "; in run w3 and 2 more -> " in lines[0]


def test_only_sure_rejections_leave_service() -> None:
    again = replace(SLOW, retest="borderline")
    rows = [row(name, Decision.REJECTED, SLOW) for name in ("n1", "n2")]
    lines = fleet_lines([*rows, row("n3", Decision.REJECTED, again)])
    assert [line for line in lines if line.endswith(": n1,n2")]


@pytest.mark.parametrize(
    ("retest", "word"), [("borderline", "borderline"), ("a single value", "single value")]
)
def test_an_unsure_node_is_measured_again(retest: str, word: str) -> None:
    lines = fleet_lines([row("n1", Decision.REJECTED, replace(SLOW, retest=retest))])
    assert lines[0].startswith(f"RETEST    {word} n1: ")
    assert lines[0].endswith(" -> measure again first")
    assert "1 RETEST" in lines[1]


def test_similar_nodes_share_a_line() -> None:
    rows = [row(f"a{n}", Decision.ACCEPTED) for n in range(9)]
    rows += [row(f"u{n:03d}", Decision.UNDECIDED, blocking=2) for n in range(228)]
    rows += [row("bad", Decision.REJECTED, SLOW)]
    first, second, third, count = fleet_lines(rows)
    assert first.startswith("REJECTED  slow    bad: ")
    assert second == (
        "UNDECIDED missing 228 nodes (u000, u001, u002, u003, u004, u005, and 222 more): "
        "NOT_TESTED t0: fio not found; also 1 missing -> measure there what is missing"
    )
    assert (
        third == "ACCEPTED          9 nodes (a0, a1, a2, a3, a4, a5, and 3 more): 4 metrics judged"
    )
    assert count == "238 nodes: 1 REJECTED, 228 UNDECIDED, 9 ACCEPTED"


def test_the_trouble_column_is_narrow() -> None:
    fine = [row(f"a{n}", Decision.ACCEPTED) for n in range(2)]
    assert fleet_lines(fine)[0].startswith("ACCEPTED  a0: ")
    first, second, *_ = fleet_lines([*fine, row("bad", Decision.REJECTED, SLOW)])
    assert first.index("bad") == second.index("a0")


def test_verbose_shows_every_node_and_finding() -> None:
    rows = [row(f"u{n:03d}", Decision.UNDECIDED, blocking=2) for n in range(60)]
    rows.append(row("bad", Decision.REJECTED, replace(SLOW, action="reseat the card"), WRONG))
    lines = fleet_lines(rows, verbosity=1)
    assert sum(line.startswith("UNDECIDED") for line in lines) == 60
    assert sum("in the way of acceptance" in line for line in lines) == 120
    assert any(line.startswith("  FAIL     slow   test_copy rate on cuda:3") for line in lines)
    assert "  next step: reseat the card" in lines
    lines = fleet_lines([row("bad", Decision.REJECTED, SLOW)], verbosity=1)
    assert any(line.startswith("  next step: ") for line in lines)


def test_lines_fit_the_terminal() -> None:
    for width in (80, 120, 250):
        lines = fleet_lines([row("n1", Decision.REJECTED, SLOW)], width=width)
        assert max(map(width_of, lines)) <= width
        assert "30 % slower" in " ".join(line.strip() for line in lines[:-1])
        assert (len(lines) == 2) == (width == 250)


def test_a_wrapped_line_loses_nothing() -> None:
    text = "  REJECTED  slow " + "word " * 30 + "x" * 90
    lines = wrap(text, 40, indent="    ")
    assert " ".join(" ".join(lines).split()) == " ".join(text.split())
    assert all(width_of(line) <= 40 for line in lines[:-1])
    assert wrap(text, None) == [text]


def test_a_node_worth_a_look_has_its_own_line() -> None:
    part = replace(
        SLOW,
        outcome=Outcome.PASS,
        reason=Reason.UNDETECTABLE,
        similarity=0.78,
        threshold=0.63,
        text="rate is 98 GB/s, expected 100 GB/s; its distribution is 22 % worse, its median equal: 2 of 13 "
        "values are 70 % slower, but within what healthy runs differ by (up to 37 %)",
        part="2 of 13 values are 70 % slower",
    )
    rows = [row(f"n{number}", Decision.ACCEPTED) for number in range(9)]
    lines = fleet_lines([*rows, row("odd", Decision.ACCEPTED, part)])
    found = next(line for line in lines if "odd" in line)
    assert found.startswith("LOOK AT   odd: test_copy rate on cuda:3")
    assert "2 of 13 values are 70 % slower" in found
    assert " -> measure again" in found
    assert lines[-1].endswith("0 REJECTED, 0 UNDECIDED, 1 LOOK AT, 9 ACCEPTED")
    failed = replace(part, outcome=Outcome.FAIL, reason=Reason.BEYOND, threshold=0.95)
    assert " on cuda:3: 2 of 13 values are 70 % slower; median" in worst_text(failed, {})


def test_single_values_are_counted_in_plain_words() -> None:
    single = replace(SLOW, retest="a single value", metric="other", similarity=0.3)
    also = [replace(single, benchmark=f"t{n}::test_{n}") for n in range(8)]
    assert row("n1", Decision.REJECTED, SLOW, *also).rest == "8 of a single value"


def test_a_failed_test_is_one_failure() -> None:
    check = replace(SLOW, metric="", reason=Reason.TEST_FAILED, similarity=None, value=None)
    metrics = [replace(check, metric=name, text=f"{name}: test failed") for name in "ab"]
    other = replace(check, metric="c", benchmark="other.py::test_other")
    found = [check, *metrics, SLOW, other]
    assert without_repeats(found) == [check, SLOW, other]
    assert row("n1", Decision.REJECTED, *found).rest == "1 slow, 1 failed"
    assert without_repeats(metrics) == metrics  # nothing else says so


def test_cards_that_fail_alike_share_a_line() -> None:
    cards = tuple(replace(SLOW, device=f"cuda:{n}", similarity=0.7 + n / 100) for n in range(4))
    pooled = replace(SLOW, scope="node", device="node")
    found = row("n1", Decision.REJECTED, *cards, pooled, replace(SLOW, metric="other"))
    assert found.cause.startswith(
        "test_copy rate on all 4 cards, the worst cuda:0: 30 % slower: 70"
    )
    assert found.rest == "1 slow"
    more = replace(found, devices=frozenset({"cuda:7", "cpu"}))
    assert " on cuda:0, cuda:1 and 2 more, the worst cuda:0: 30 %" in more.cause
    two = replace(more, verdicts=(*cards[1:3], replace(SLOW, device="node", similarity=0.9)))
    assert " on cuda:1 and cuda:2, the worst cuda:1: 30 % slower" in two.cause
    assert two.rest == "1 slow"
    assert " on cuda:0 30 % slower" in replace(more, verdicts=(cards[0], OPEN)).cause


def test_waived_nodes_have_their_own_line() -> None:
    waived = replace(SLOW, outcome=Outcome.NOT_TESTED, reason=Reason.WAIVED)
    rows = [row(f"n{number}", Decision.ACCEPTED) for number in range(20)]
    lines = fleet_lines([*rows, row("n99", Decision.ACCEPTED, waived)])
    assert any(line.split(":")[0].split() == ["ACCEPTED", "n99"] for line in lines)
    assert lines[-1].endswith("21 ACCEPTED, 1 of them with failures that are waived (n99)")
