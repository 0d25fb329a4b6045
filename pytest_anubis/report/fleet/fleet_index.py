"""The main page of a fleet, put together from the sections that the other modules of this folder make.

It is the index of a folder with a page for each node and metric (`anubis report --fleet`), or a single file
that has the findings on the nodes as well (`on_one_page`, for `anubis judge --html`). `site_writing` uses it.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import replace

from pytest_anubis.report.fleet.fleet_picture import SHADES
from pytest_anubis.report.fleet.fleet_tables import (
    components_table,
    drift_figures,
    metrics_table,
    shifts_table,
    times_table,
    yield_tables,
)
from pytest_anubis.report.fleet.fleet_view import FleetView
from pytest_anubis.report.fleet.glance import NO_DATES, glance
from pytest_anubis.report.fleet.heat_map import heat_section, script_data
from pytest_anubis.report.fleet.validation_tables import validation_section
from pytest_anubis.report.pages.judged_nodes import MAX_DETAILS, found_on, has_findings
from pytest_anubis.report.pages.rendering import render
from pytest_anubis.report.text.node_row import counted_words
from pytest_anubis.report.text.numbers import count_text, duration_text, moment_text

MARK = "pytest-anubis fleet page"
"""Generator in the page's head, by which a folder of such pages is known."""


def fleet_index(view: FleetView) -> str:
    """Return the page, with the data of all nodes and the script that searches them."""
    found = [node for node in view.nodes if node.link.startswith("#")]
    left = sum(has_findings(node.row) for node in view.nodes) - len(found) if found else 0
    # The page's policy lets no script run but this one.
    digest = hashlib.sha256(render("fleet.js").encode()).digest()
    return render(
        "fleet_index.html",
        title=_title(view),
        digest=base64.b64encode(digest).decode(),
        mark=MARK,
        shades=SHADES,
        view=view,
        counts=counted_words(node.row for node in view.nodes),
        span=_span(view),
        glance=glance(view),
        heat_map=heat_section(view),
        shifts=shifts_table(view) if view.shifts else "",
        drifts=drift_figures(view),
        no_dates=NO_DATES,
        components=components_table(view),
        yields=yield_tables(view),
        metrics=metrics_table(view),
        times=times_table(view),
        spent=duration_text(sum(one.seconds for one in view.times)),
        validation=validation_section(view.validation),
        found=[found_on(one.row, n, one.traits, one.closed) for n, one in enumerate(found)],
        found_left=count_text(left, "node") if left > 0 else "",
        data=script_data(view),
    )


def on_one_page(view: FleetView) -> FleetView:
    """Return a view whose nodes lead to what was found on them, further down on the same page."""
    found = [number for number, node in enumerate(view.nodes) if has_findings(node.row)]
    links = {number: f"#n{place}" for place, number in enumerate(found[:MAX_DETAILS])}
    return replace(
        view,
        nodes=tuple(
            replace(node, link=links.get(number, ""), anchors={})
            for number, node in enumerate(view.nodes)
        ),
        metrics=tuple(replace(one, link="") for one in view.metrics),
    )


def _title(view: FleetView) -> str:
    counted = ", ".join(f"{n} {word}" for word, n in counted_words(one.row for one in view.nodes))
    return f"fleet of {count_text(len(view.nodes), 'node')}: {counted}"


def _span(view: FleetView) -> str:
    when = ""
    if view.first:
        when = f", from {moment_text(view.first)} to {moment_text(view.last)}"
        when = when if view.first != view.last else f", of {moment_text(view.first)}"
    return f"{count_text(view.runs, 'run')}, {count_text(len(view.metrics), 'metric')}{when}"
