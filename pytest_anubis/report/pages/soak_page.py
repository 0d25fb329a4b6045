"""The page of a soak: what moved over the cycles, one row per cycle, and the course of every metric."""

from __future__ import annotations

import html
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

from pytest_anubis.core.measurement import Measurement
from pytest_anubis.core.metric import metric_name
from pytest_anubis.report.pages import html_blocks as blocks
from pytest_anubis.report.pages.metric_sections import short
from pytest_anubis.report.pages.style_sheets import BLOCKS, PAGE
from pytest_anubis.report.plots.time_strip import series_text, spark
from pytest_anubis.report.text.numbers import count_text, moment_text, value_text

COURSES = 500
"""Metrics whose course is drawn."""

_WORDS = {0: "ACCEPTED", 1: "REJECTED", 2: "interrupted", 4: "usage error", 20: "UNDECIDED"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cycle:
    """One cycle of a soak.

    Attributes:
        started: ISO 8601, UTC; empty if its journal could not be read.
        page: Path of its own page relative to this one; empty if none was kept.
    """

    number: int
    run: str
    started: str = ""
    exit_code: int = 0
    headline: str = ""
    measurements: tuple[Measurement, ...] = field(default=(), repr=False)
    page: str = ""


def soak_page(
    node: str, hardware_class: str, cycles: Sequence[Cycle], trends: Sequence[str], ended: str
) -> str:
    """Return the page."""
    judged = "; ".join(trends[:3]) if trends else "no metric became worse over the campaign"
    body = [
        f"<header class='banner'><h1>{html.escape(node)}: soak</h1>"
        f"<p class='headline'><b>{html.escape(ended)}</b></p>"
        f"{blocks.paragraph(hardware_class)}</header>",
        "<h2>Trend</h2>",
        blocks.lines_block("became worse", trends, open_=True) or blocks.paragraph(judged),
        f"<h2>{count_text(len(cycles), 'cycle')}</h2>",
        _cycles(cycles),
        "<h2>Course of every metric</h2>",
        _courses(cycles),
        "<p class='faint'>Every cycle is a run of its own: <code>anubis report RUN --html FILE</code> "
        "rebuilds its page.</p>",
    ]
    return blocks.document(f"{node}: soak", BLOCKS + PAGE, "".join(body))


def _cycles(cycles: Sequence[Cycle]) -> str:
    head = blocks.headings("cycle", number=True) + blocks.headings("begun", "decision", "", "run")
    rows = []
    for cycle in cycles:
        word = _WORDS.get(cycle.exit_code, f"exit code {cycle.exit_code}")
        rows.append(
            blocks.number(str(cycle.number))
            + blocks.cells(moment_text(cycle.started))
            + f"<td>{blocks.badge(word)}</td>"
            + blocks.cells(cycle.headline)
            + f"<td>{blocks.linked(cycle.run, cycle.page)}</td>"
        )
    return blocks.table(head, rows)


def _courses(cycles: Sequence[Cycle]) -> str:
    """Draw the medians of every metric over the cycles."""
    series: dict[tuple[str, str, str, str], list[float]] = {}
    for cycle in cycles:
        for one in cycle.measurements:
            if one.values:
                key = (one.benchmark, one.metric.name, one.device, one.metric.unit)
                series.setdefault(key, []).append(statistics.median(one.values))
    head = (
        blocks.headings("metric", "device")
        + blocks.headings("last median", number=True)
        + blocks.headings("medians", "")
    )
    rows = []
    for (benchmark, metric, device, unit), medians in list(series.items())[:COURSES]:
        name = metric_name(short(benchmark), metric)
        rows.append(
            blocks.cells(name, device)
            + blocks.number(value_text(medians[-1], unit))
            + blocks.cells(series_text(medians))
            + f"<td>{spark(medians, label=name)}</td>"
        )
    if len(series) > COURSES:
        rows.append(blocks.cells(f"and {len(series) - COURSES} more"))
    return blocks.table(head, rows)
