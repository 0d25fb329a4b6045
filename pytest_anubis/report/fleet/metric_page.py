"""The page of one metric: its distribution by class, over time, what separates nodes by it, who is slow."""

from __future__ import annotations

import html

from pytest_anubis.core.metric import found_from
from pytest_anubis.core.verdict import Outcome
from pytest_anubis.report.fleet.fleet_style import FLEET
from pytest_anubis.report.fleet.fleet_tables import table
from pytest_anubis.report.fleet.fleet_view import ClassMetric, FleetMetric, FleetView
from pytest_anubis.report.fleet.glance import STEADY, drift_text, shift_name
from pytest_anubis.report.fleet.heat_map import columns_of
from pytest_anubis.report.pages import html_blocks as blocks
from pytest_anubis.report.pages.style_sheets import BLOCKS, LARGE_PLOTS, PAGE
from pytest_anubis.report.plots.fleet_plots import drift_plot, units_plot
from pytest_anubis.report.text.numbers import count_text, value_text

ROWS = 200
"""Nodes in the table of the slow ones, the worst first."""
HOME = "../index.html"
"""The page of the fleet, seen from that of a metric or a node."""


def metric_page(view: FleetView, number: int) -> str:
    """Return the page of one metric, named by its number in the view."""
    one = view.metrics[number]
    metric = one.metric
    direction = "must be exact" if metric.better == "equal" else f"{metric.better} is better"
    facts = "; ".join(
        filter(
            None, (one.benchmark, f"component {one.component}" if one.component else "", direction)
        )
    )
    counted = f"{count_text(one.failed, 'node')} FAIL, {one.marginal} MARGINAL"
    body = [
        f"<nav aria-label='fleet'><a href='{HOME}'>the whole fleet</a></nav>",
        f"<header class='banner'><h1>{html.escape(metric.name)}</h1><p>{counted}</p>"
        f"{blocks.paragraph(facts, 'faint')}</header>",
        blocks.paragraph(metric.question),
        "<h2>Distribution</h2><div class='fans'>"
        + "".join(_class(one, part) for part in one.classes)
        + "</div>",
        _shifts(view, one),
        _drifts(view, one),
        _slow(view, number),
    ]
    title = f"{one.label} in the fleet"
    return blocks.document(title, BLOCKS + PAGE + FLEET + LARGE_PLOTS, "".join(body))


def _class(one: FleetMetric, part: ClassMetric) -> str:
    criterion = part.criterion
    name = part.hardware_class or "no class"
    name += f", {part.group}" if part.group else ""
    lines = ["no criterion: it is not judged by the fleet"]
    if criterion is not None:
        lines = [f"criterion from {count_text(criterion.nodes, 'node')}"]
        if criterion.detectable is not None:
            coarse = ", and is coarse: it carries no acceptance" if criterion.coarse else ""
            found = found_from(criterion.detectable, one.metric.better)
            lines.append(f"finds a loss of {found}{coarse}")
    if part.limit is not None:
        lines.append(f"rejects beyond a median of {value_text(part.limit, one.metric.unit)}")
    plot = units_plot(
        part.healthy,
        part.bad,
        unit=one.metric.unit,
        better=one.metric.better,
        expected=criterion.typical if criterion is not None and criterion.centre else None,
        limit=part.limit,
        label=f"{one.metric.name} in {name}: medians of all units, {len(part.bad)} of them bad",
    )
    return (
        f"<figure class='case'><figcaption><b>{html.escape(name)}</b>: {html.escape('; '.join(lines))}"
        f"</figcaption>{plot}</figure>"
    )


def _shifts(view: FleetView, one: FleetMetric) -> str:
    lines = []
    for shift in view.shifts:
        for found in shift.metrics:
            if (found.benchmark, found.metric.name) == (one.benchmark, one.metric.name):
                how = found.size if found.worse else f"better: the others are {found.size}"
                lines.append(
                    f"{shift_name(shift)} in {shift.hardware_class or 'no class'}: {how} "
                    f"({count_text(len(shift.nodes), 'node')} against {shift.others})"
                )
    return blocks.titled("What separates nodes", blocks.lines_block("traits", lines, open_=True))


def _drifts(view: FleetView, one: FleetMetric) -> str:
    parts = []
    for drift in view.drifts:
        same = (drift.benchmark, drift.metric.name) == (one.benchmark, one.metric.name)
        if not same or len(drift.moments) < 2:
            continue
        words = drift_text(drift) if drift.drifts else STEADY
        plot = drift_plot(drift.moments, label=f"{drift.metric.name} over time: {words}")
        parts.append(
            f"<figure class='case'><figcaption><b>{html.escape(drift.hardware_class or 'no class')}</b>: "
            f"{html.escape(words)}</figcaption>{plot}</figure>"
        )
    return f"<h2>Over time</h2><div class='fans'>{''.join(parts)}</div>" if parts else ""


def _slow(view: FleetView, number: int) -> str:
    bad = (Outcome.FAIL.value, Outcome.MARGINAL.value)
    found = [
        (view.cells[n][number], node)
        for n, node in enumerate(view.nodes)
        if view.cells[n][number] >= 0 and view.kinds[view.cells[n][number]].outcome in bad
    ]
    found.sort(key=lambda pair: pair[0])
    if not found:
        return ""
    shown = list(columns_of(view))
    rows = []
    for code, node in found[:ROWS]:
        kind, anchor = view.kinds[code], node.anchors.get(number, "")
        place = f"../{node.link}{'#' + anchor if anchor else ''}" if node.link else ""
        traits = (node.traits.get(name, "") for name in shown)
        rows.append(
            f"<tr><th scope='row'>{blocks.linked(node.name, place)}</th>"
            f"<td>{blocks.badge(kind.outcome)}</td>"
            f"{blocks.cells(kind.text.partition(', ')[2], *traits)}</tr>"
        )
    left = len(found) - ROWS
    more = f"<p>and {left} more in the heat map</p>" if left > 0 else ""
    heads = ("node", "verdict", "loss", *shown)
    return f"<h2>Bad nodes</h2>{table(heads, rows, numbers=(), label='bad nodes')}{more}"
