from __future__ import annotations

import pytest

from pytest_anubis.core.verdict import Decision, NodeVerdict
from pytest_anubis.report.pages.inventory_block import inventory_block
from pytest_anubis.report.text.headlines import after_decision, inventory_line
from pytest_anubis.report.text.summary_text import summary_lines


@pytest.mark.parametrize(
    ("taken", "said"),
    [
        ("2026-01-31T12:00:00+00:00", "of n1 recorded 2026-01-31 12:00 UTC, out of n1.json and not"),
        ("", "at an unknown time, out of n1.json"),
        ("soon", "'soon', which is no date"),
        (7, "at an unknown time, out of n1.json"),
    ],
)  # fmt: skip
def test_when_an_inventory_was_recorded_is_said(taken: object, said: str) -> None:
    assert said in inventory_line({"node": "n1", "taken": taken}, "n1.json")


def test_pages_say_when_the_inventory_was_recorded() -> None:
    page = inventory_block({"node": "n1", "taken": "2026-01-31T12:00:00+00:00", "os": "x"})
    assert "recorded 2026-01-31 12:00 UTC" in page


@pytest.mark.parametrize(
    ("decision", "headline", "said"),
    [
        (Decision.REJECTED, "node n1 rejected: disk. slow", "node n1: disk. slow"),
        (Decision.ACCEPTED, "node n1 accepted at risk 1 %: fine", "node n1 at risk 1 %: fine"),
        (Decision.UNDECIDED, "node n1 is neither accepted nor rejected: why", "node n1: why"),
        (Decision.REJECTED, "node n12 rejected: of another", "node n12 rejected: of another"),
    ],
)
def test_what_stands_behind_a_decision_does_not_say_it_again(
    decision: Decision, headline: str, said: str
) -> None:
    verdict = NodeVerdict(decision=decision, headline=headline, node="n1")
    assert after_decision(verdict) == said
    assert summary_lines(verdict, [])[0][0] == f"{decision.value}: {said}"
