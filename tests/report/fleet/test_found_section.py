"""The fleet's page as one file: what was found stands on it, and everything leads there."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from pytest_anubis.core.verdict import Decision
from pytest_anubis.report.fleet.fleet_index import fleet_index, on_one_page
from pytest_anubis.report.fleet.fleet_view import FleetView
from tests.report.fleet.page_rules import Rules
from tests.report.fleet.test_fleet_index import data_of, view
from tests.report.sample_run import EVIL


def of(page: FleetView) -> list[str]:
    """Return where the nodes lead to."""
    return [one[3] for one in data_of(fleet_index(page))["nodes"]]


def test_nodes_lead_to_what_was_found_on_them_on_the_same_page() -> None:
    some = on_one_page(view(EVIL))
    page = fleet_index(some)
    assert Rules(page).wrong == []
    assert EVIL not in page
    assert of(some) == [
        "#n0",
        "#n1",
        "#n2",
        "#n3",
        "",
        "",
        "",
        "",
    ]  # of the others there is no more
    found = page[page.index("id='found'") :]
    assert found.count("<details class='case' id='n") == 4
    assert found.count("class='card FAIL'") == 4
    assert "what was found</a>" in page[: page.index("id='map'")]
    assert "A cell leads to what was found on the node." in page
    assert not re.search(r"href='[^#]", page)  # no other file is needed
    assert re.search(r"<li>g0</li>", page)  # in the list of all names


def test_a_folder_of_pages_has_no_such_section() -> None:
    page = fleet_index(view())
    assert "id='found'" not in page
    assert "A cell leads to the node's dossier, a heading to the metric's distribution." in page


def test_what_the_page_leaves_out_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_anubis.report.fleet.fleet_index.MAX_DETAILS", 1)
    some = on_one_page(view())
    assert of(some)[:2] == ["#n0", ""]
    assert "and 3 nodes more; --json FILE writes all" in fleet_index(some)


def test_a_page_of_accepted_nodes_and_one_of_none_are_pages() -> None:
    some = view()
    fine = replace(some, nodes=some.nodes[4:], cells=some.cells[4:], shifts=())
    assert all(n.row.verdict.decision is Decision.ACCEPTED for n in fine.nodes)
    assert Rules(fleet_index(on_one_page(fine))).wrong == []
    empty = replace(fine, nodes=(), cells=[], metrics=(), kinds=(), traits=())
    assert Rules(fleet_index(on_one_page(empty))).wrong == []
