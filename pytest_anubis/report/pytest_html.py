"""Plugin for pytest-html's report: the decision on top, two columns, a table and plots in every row.

`start` uses it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from markupsafe import Markup

from pytest_anubis.core.asking.open_questions import asked_questions, unexplained
from pytest_anubis.core.baseline import Baseline
from pytest_anubis.core.end_to_end import end_to_end_losses
from pytest_anubis.core.history import Defect
from pytest_anubis.core.measurement import Measurement
from pytest_anubis.core.run_state import RunState
from pytest_anubis.core.verdict import MetricVerdict, Outcome, Reason, word_of
from pytest_anubis.report.pages import html_blocks as blocks
from pytest_anubis.report.pages.choice_report import selection_block
from pytest_anubis.report.pages.inventory_block import inventory_block
from pytest_anubis.report.pages.line_lists import without_repeated
from pytest_anubis.report.pages.rendering import block, render
from pytest_anubis.report.text.next_command import next_of
from pytest_anubis.report.text.numbers import similarity_text
from pytest_anubis.report.text.part_lines import part_lines
from pytest_anubis.report.text.shared_lines import baseline_line, questions_text
from pytest_anubis.report.text.text_table import clip, width_of

POINTS = 48
"""Points of a curve in a row: a report has hundreds of rows. The dossier shows more."""

MAX_SERIES = 4
"""Telemetry series in a row."""

COURSE_POINTS = 16
"""Points of a telemetry series."""

NO_BASELINE = "no baseline for this hardware class: see above"
"""Replaces the note about the missing baseline, which is on top of the page."""

DISTURBED = "the machine was disturbed: measure again"
"""Replaces the long reason of a skip, which says who disturbed the machine and by how much."""

MAX_SKIP_REASON = 90
"""Columns of a skip's reason in its row; a longer one is folded behind its beginning."""

MAX_PARTS = 20
"""Blamed parts on top; the table has all."""

MAX_OPEN_LINES = 12
"""Longer lists of blockers start folded."""


class HtmlReport:
    """Plugin that adds measurements and verdicts to pytest-html's report.

    Args:
        state: The state of the run, which has decided when the page is written.
        node: Name of the node.
        hardware_class: Key of its hardware class.
        inventory: The inventory as plain data.
        baseline: The baseline of the class, None without one.
        baseline_note: Why there is no baseline and what to do next.
        usage_errors: Returns one line for each error in a benchmark's code.
        closed_defects: Returns the defects of the class that operators have closed.
    """

    def __init__(
        self,
        state: RunState,
        *,
        node: str,
        hardware_class: str,
        inventory: Mapping[str, Any],
        baseline: Baseline | None,
        baseline_note: str,
        usage_errors: Callable[[], list[str]],
        closed_defects: Callable[[], Sequence[Defect]],
    ) -> None:
        self._state = state
        self._node = node
        self._inventory = inventory
        self._baseline_note = baseline_note
        held_against = baseline_line(baseline) if baseline else baseline_note
        self._facts = (f"node {node}", f"hardware class {hardware_class}", held_against)
        self._usage_errors = usage_errors
        self._closed_defects = closed_defects
        self._criteria = blocks.criteria_by_key(baseline)
        self._crashed: list[str] = []
        self._page: Any = None  # pytest-html's, from its own hook

    # Plots are made on the controller, so that workers send only numbers. pytest-html makes the row after it.
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Attach the table and the plots once, to the call's report."""
        if report.when not in ("setup", "call", "teardown"):
            # A crash has no row in pytest-html's table, so it is listed on top.
            line, *_ = str(report.longrepr or "the process died").strip().split("\n", 1)
            self._crashed.append(f"{report.nodeid}: {line}")
            return
        if report.when != "call":
            return
        verdicts = self._state.verdicts_of(report.nodeid)
        measurements = self._state.measured(report.nodeid)
        report.anubis_verdicts = verdicts  # type: ignore[attr-defined]  # of this repetition, for its row
        if not measurements and not verdicts:
            return
        from pytest_html import extras

        found = [*getattr(report, "extras", []), extras.html(self._details(verdicts, measurements))]
        report.extras = found  # type: ignore[attr-defined]  # how pytest-html takes them

    @pytest.hookimpl(tryfirst=True)  # a user's own title is set after it, and stays
    def pytest_html_report_title(self, report: Any) -> None:
        """Give the page the name of the node as its title."""
        self._page, report.title = report, self._node

    def pytest_html_results_table_html(self, report: Any, data: list[str]) -> None:
        """Remove what the row shows already: our own words of a failure, and the place of a skip."""
        shown = getattr(report, "anubis", {}).get("in_verdicts")
        if data and (report.outcome == "skipped" or shown):
            del data[0]

    def pytest_html_results_table_header(self, cells: list[str]) -> None:
        """Add two columns."""
        cells.insert(2, "<th class='sortable' data-column-type='anubis_verdict'>Verdict</th>")
        cells.insert(3, "<th class='sortable' data-column-type='anubis_similarity'>Similarity</th>")

    def pytest_html_results_table_row(self, report: Any, cells: list[str]) -> None:
        """Add the cells of the two columns to every row, or pytest-html would shift the rest."""
        verdicts = getattr(report, "anubis_verdicts", None)
        if verdicts is None:
            called = report.when == "call"
            verdicts = self._state.verdicts_of(report.nodeid) if called else []
        worst = min(verdicts, key=lambda v: v.severity, default=None)
        known = [v.similarity for v in verdicts if v.similarity is not None]
        lowest = similarity_text(min(known)) if known else ""
        skip = getattr(report, "longrepr", None)
        if getattr(report, "outcome", "") == "skipped" and isinstance(skip, tuple):
            reason = self._skip_reason(str(skip[2]).removeprefix("Skipped: "), worst)
            cells[1] = cells[1].replace("</td>", f" {reason}</td>")
        cells.insert(2, _verdict_cell(worst))
        cells.insert(3, f"<td class='col-anubis_similarity'>{lowest}</td>")

    def _skip_reason(self, text: str, worst: MetricVerdict | None) -> Markup:
        """Return why a test was skipped, without what its badge and the top of the page say."""
        if worst:
            text = text.removeprefix(f"{worst.outcome.value}: ")
        if self._baseline_note:
            text = text.replace(self._baseline_note, NO_BASELINE)
        disturbed = worst is not None and worst.reason is Reason.DISTURBED
        short = DISTURBED if disturbed else clip(text, MAX_SKIP_REASON)
        folded = len(text) > len(short) and width_of(text) > MAX_SKIP_REASON
        return block("skip_reason", text, short if folded else "")

    def pytest_html_results_summary(self, prefix: list[str]) -> None:
        """Add the decision, the blamed parts and lists of open points on top, and the inventory."""
        if not self._state.begun:  # --collect-only, or nothing was collected
            self._finish_page("not judged")
            prefix.append(
                render(
                    "pytest_html.html", verdict=None, word="", fallback="nothing was run", step=""
                )
            )
            return
        run = self._state.record()
        verdict, verdicts = run.node_verdict, run.effective_verdicts
        blocking = list(map(str, verdict.blocking)) if verdict else []
        died = without_repeated(dict.fromkeys([*run.deaths, *self._crashed]), blocking)
        word = word_of(verdict, verdicts) if verdict else "not judged"
        self._finish_page(word)
        self._update_rows(verdicts)
        bad = [v for v in verdicts if v.outcome in (Outcome.FAIL, Outcome.MARGINAL)]
        lists = (
            ("crashed", died),
            ("planned, but never reported", without_repeated(unexplained(run), blocking)),
            ("errors in benchmarks' code", self._usage_errors()),
        )
        page = render(
            "pytest_html.html",
            verdict=verdict,
            word=word,
            fallback="nothing was judged in this run",
            step=next_of(run),
            shared=part_lines(verdict),
            parts=blocks.blamed_parts(
                bad,
                run.cards,
                self._inventory,
                heading="h2",
                losses=end_to_end_losses(verdicts),
                closed=self._closed_defects() if bad else (),
            ),
            max_parts=MAX_PARTS,
            facts=self._facts,
            questions=questions_text(asked_questions(run.planned, verdicts, run.results)),
            choice=selection_block(run.choice),
            blocking=blocking,
            max_open=MAX_OPEN_LINES,
            lists=lists,
            inventory=inventory_block(self._inventory),
        )
        prefix.append(page)

    def _finish_page(self, word: str) -> None:
        """Add the node's word to the title and fold skipped tests, unless the user chose otherwise."""
        if self._page is None:
            return
        if self._page.title == self._node:
            self._page.title = f"{self._node}: {word}"
        folded = self._page.data.get("renderCollapsed")
        if folded == ["passed"]:  # pytest-html's default
            folded += ["skipped", "xfailed"]

    def _update_rows(self, verdicts: Sequence[MetricVerdict]) -> None:
        """Put verdicts that only the end of the run could reach into the rows of their tests.

        Devices, and this run and earlier ones, are compared after the last test; pytest-html makes a row
        when its test ends.
        """
        later: dict[tuple[str, str], MetricVerdict] = {}
        for verdict in sorted(verdicts, key=lambda v: v.severity):
            if not verdict.test and verdict.metric and verdict.outcome is not Outcome.PASS:
                later.setdefault((verdict.benchmark, verdict.device), verdict)
        tests = self._page.data.get("tests", {}) if self._page is not None else {}
        for test, rows in tests.items():
            plan = self._state.planned.get(test)
            found = later.get(plan.place) if plan is not None else None
            known = self._state.verdicts_of(test)
            if found is None or not rows or not known:
                continue
            if found.severity[:2] < min(v.severity for v in known)[:2]:
                rows[-1]["resultsTableRow"][2] = cell = _verdict_cell(found, found.text)
                rows[-1]["anubis_verdict"] = cell.partition(">")[2]

    def _details(self, verdicts: list[MetricVerdict], measurements: list[Measurement]) -> str:
        by_metric = {verdict.metric: verdict for verdict in verdicts}
        in_order = sorted(verdicts, key=lambda verdict: verdict.severity)
        parts = (
            [blocks.verdict_rows(verdicts), *map(blocks.explanation, in_order)] if verdicts else []
        )
        for measurement in measurements:
            name = measurement.metric.name
            criterion = blocks.criterion_of(measurement, self._criteria)
            if len(measurements) > 1 or not verdicts:
                parts.append(block("paragraph", name))
            parts.append(blocks.plots(measurement, criterion, by_metric.get(name), points=POINTS))
            parts.append(blocks.telemetry(measurement, max_series=MAX_SERIES, points=COURSE_POINTS))
        return f"<div class='anubis'>{''.join(parts)}</div>"


def _verdict_cell(verdict: MetricVerdict | None, why: str = "") -> str:
    """Return a cell on one line, because pytest-html finds what it sorts by only there."""
    return str(block("verdict_cell", verdict, why)).replace("\n", " ")
