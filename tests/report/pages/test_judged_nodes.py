"""The page of judged nodes: counts, the worst first with a link to what was found, accepted ones folded."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from pytest_anubis.core.verdict import Decision
from pytest_anubis.report.pages.judged_nodes import MAX_OPEN, judged_nodes_page
from tests.report.sample_run import EVIL
from tests.report.text.test_node_text import SLOW, row


def test_the_worst_nodes_come_first_and_each_has_its_card() -> None:
    second = replace(SLOW, metric="other", text="other is 80 GB/s", similarity=0.8)
    page = judged_nodes_page(
        [
            row("fine", Decision.ACCEPTED),
            row("open", Decision.UNDECIDED, blocking=1),
            row("bad", Decision.REJECTED, SLOW, second),
        ],
        [f"a note {EVIL}"],
    )
    places = [page.index(f">{name}<") for name in ("bad", "open", "fine")]
    assert places == sorted(places)
    assert page.count("class='card FAIL'") == 1  # one card, both metrics
    assert "serial number 1654" in page
    assert "href='#n0'" in page
    assert "id='n0'" in page
    assert EVIL not in page
    assert "<main>" in page
    assert "--json FILE" not in page
    assert "node bad" not in page  # name and decision stand in the heading
    assert "<p class='why'>4 metrics judged</p>" in page
    assert page.count(">also") == 1  # in the cell, not above it too


def test_the_page_counts_what_it_leaves_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pytest_anubis.report.pages.judged_nodes.MAX_ROWS", 1)
    monkeypatch.setattr("pytest_anubis.report.pages.judged_nodes.MAX_DETAILS", 1)
    page = judged_nodes_page([row(f"n{i}", Decision.REJECTED, SLOW) for i in range(3)], [])
    assert "and 2 more, none of them worse; --json FILE writes all" in page
    assert "and 2 nodes more; --json FILE writes all" in page


def test_of_many_rejected_nodes_the_first_are_unfolded() -> None:
    page = judged_nodes_page(
        [row(f"n{i}", Decision.REJECTED, SLOW) for i in range(MAX_OPEN + 5)], []
    )
    assert page.count("class='case'") == MAX_OPEN + 5
    assert len(re.findall(r"<details class='case' id='n\d+' open>", page)) == MAX_OPEN


def test_an_empty_column_is_left_out() -> None:
    bare = judged_nodes_page([row("bad", Decision.REJECTED, SLOW)], [])
    assert "besides" not in bare
    second = replace(SLOW, metric="other", text="other is 80 GB/s", similarity=0.8)
    assert "besides" in judged_nodes_page([row("bad", Decision.REJECTED, SLOW, second)], [])
