"""One page of each kind in a real Chromium: axe-core finds nothing serious, nothing is wider than a phone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_anubis.core.verdict import Decision
from pytest_anubis.report.fleet.fleet_index import fleet_index
from pytest_anubis.report.fleet.metric_page import metric_page
from pytest_anubis.report.pages.dossier import run_page
from pytest_anubis.report.pages.judged_nodes import judged_nodes_page
from pytest_anubis.report.pages.learned_page import learn_page
from tests.report import chromium as browsing
from tests.report import sample_run
from tests.report.fleet.test_fleet_index import view
from tests.report.text.test_node_text import SLOW, row
from tests.report.text.test_part_lines import PART

SUITE = """
import pytest

@pytest.mark.anubis(component="cpu.compute", goal="g", question="q", action="check the cooler")
def test_speed(anubis_metric):
    anubis_metric.record("speed", [5.0 + i for i in range(9)], unit="GFLOP/s", better="higher")

def test_bad():
    assert 1 == 2
"""
PHONE, SHEET = 390, 794
"""Pixels."""
_OPEN = """[...document.querySelectorAll('#results-table>tbody')].filter(body=>
body.querySelector('.extras-row').getBoundingClientRect().height)
.map(body=>body.querySelector('.col-testId').textContent.trim())"""
"""Names of the tests whose details are seen."""
BROKEN = "<!doctype html><title>x</title><p style='color:#ccc'>pale</p><img src='data:,'>"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if browsing.chromium() is None:
        pytest.skip("no Chromium here")
    if browsing.axe_source() is None:
        pytest.skip("no axe-core here: pip install --no-deps axe-playwright-python")
    with browsing.Browser() as found:
        yield found


def serious(browser: Any, page: Path) -> list[str]:
    """Return serious findings on a sheet and a dark phone: broken rules of axe-core, and too wide a page."""
    axe = browsing.axe_source()
    assert axe is not None
    bad = []
    for width in (SHEET, PHONE):
        browser.size(width, browsing.HEIGHT, dark=width == PHONE)
        browser.open(page)
        found = browsing.audited(browser, axe, page)
        bad += [str(one) for one in found if one[0] in browsing.SERIOUS]
        wide = browser.value("document.documentElement.scrollWidth")
        bad += [f"{wide} pixels wide"] if wide > width else []
    return bad


def test_what_is_wrong_is_found(browser: Any, tmp_path: Path) -> None:
    page = tmp_path / "broken.html"
    page.write_text(BROKEN)
    found = " ".join(serious(browser, page))
    assert "color-contrast" in found
    assert "image-alt" in found


def test_our_own_pages_can_be_used_by_everybody(browser: Any, tmp_path: Path) -> None:
    learned = sample_run.baseline(5)
    some = view()
    shared = sample_run.record(learned)
    assert shared.node_verdict is not None
    shared = replace(shared, node_verdict=replace(shared.node_verdict, shared=(PART,)))
    pages = {
        "shared part": run_page(shared, learned),
        "dossier": run_page(sample_run.record(learned), learned),
        "learned": learn_page(learned, sample_run.populations(5)),
        "judged": judged_nodes_page([row("bad", Decision.REJECTED, SLOW)], ["a note"]),
        "fleet": fleet_index(some),
        "metric": metric_page(some, 0),
    }
    wrong = {}
    for name, text in pages.items():
        page = tmp_path / f"{name}.html"
        page.write_text(text, encoding="utf-8")
        wrong[name] = serious(browser, page)
    assert not any(wrong.values()), wrong


def test_pytest_htmls_page_begins_with_the_decision(
    browser: Any, pytester: pytest.Pytester
) -> None:
    pytester.makepyfile(test_x=SUITE)
    options = ("-p", "no:xdist", "--html=report.html", "--self-contained-html")
    pytester.runpytest_inprocess("--anubis", "--anubis-in-process", *options, "test_x.py")
    assert serious(browser, pytester.path / "report.html") == []
    tops = browser.value(
        "['.headline','#results-table','#environment','#anubis-inventory']"
        ".map(one=>document.querySelector(one).getBoundingClientRect().top)"
    )
    assert tops == sorted(tops)
    # The page is read aloud and printed in the order of the document.
    parts = "h1,.headline,#results-table,#environment-header,#environment,#anubis-inventory,main>p"
    order = browser.value(
        f"[...document.querySelectorAll('{parts}')].map(one=>one.id||one.className||one.tagName)"
    )
    assert order == [
        *("title", "headline", "results-table", "environment-header", "environment"),
        *("anubis-inventory", "P"),
    ]
    # What is folded stays so on a phone: the failed test is the only one that is open.
    assert browser.value(_OPEN) == ["test_x.py::test_bad"]
