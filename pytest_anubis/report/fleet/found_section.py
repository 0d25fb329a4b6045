"""What was found on each node, on the fleet's page itself: where it is one file and nodes have no pages."""

from __future__ import annotations

from dataclasses import replace

from pytest_anubis.report.fleet.fleet_view import FleetView
from pytest_anubis.report.pages.fleet_page import DETAILS, found_on, has_findings
from pytest_anubis.report.text.numbers import count_text

_MORE = (
    "<p>With plots: <code>anubis report RUNS --baseline DIR --node NAME --html FILE</code> writes a node's "
    "dossier, <code>anubis report --fleet RUNS --baseline DIR --html FOLDER</code> this page with a page for "
    "every node and metric.</p>"
)


def on_one_page(view: FleetView) -> FleetView:
    """Return a view whose nodes lead to what was found on them, further down on the same page."""
    told = [number for number, node in enumerate(view.nodes) if has_findings(node.row)]
    links = {number: f"#n{place}" for place, number in enumerate(told[:DETAILS])}
    return replace(
        view,
        nodes=tuple(
            replace(node, link=links.get(number, ""), anchors={})
            for number, node in enumerate(view.nodes)
        ),
        metrics=tuple(replace(one, link="") for one in view.metrics),
    )


def is_one_page(view: FleetView) -> bool:
    """Tell whether a view is of one file: no metric has a page."""
    return not any(one.link for one in view.metrics)


def found_section(view: FleetView) -> str:
    """Return what was found on the nodes that lead to it; empty where none does."""
    here = [node for node in view.nodes if node.link.startswith("#")]
    if not here:
        return ""
    left = sum(has_findings(node.row) for node in view.nodes) - len(here)
    more = f"<p>and {count_text(left, 'node')} more; --json FILE writes all</p>" if left else ""
    told = "".join(found_on(one.row, number, one.traits) for number, one in enumerate(here))
    return f"<h2 id='found'>What was found</h2>{_MORE}{told}{more}"
