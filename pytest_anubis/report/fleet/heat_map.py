"""The heat map of the fleet's page: a table of the worst nodes, and the data of all for its script."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from markupsafe import Markup

from pytest_anubis.core.metric import metric_name
from pytest_anubis.core.verdict import Decision
from pytest_anubis.report.fleet.fleet_picture import fleet_picture, order_of
from pytest_anubis.report.fleet.fleet_view import FINE, LEVELS, FleetNode, FleetView
from pytest_anubis.report.pages.rendering import fragment
from pytest_anubis.report.text.learned_text import UNLIKE
from pytest_anubis.report.text.numbers import percent

MAX_ROWS = 50
"""Nodes shown at a time: a table of thousands takes a browser seconds."""
MAX_METRICS = 30
"""Metrics shown at a time, somewhat more than the width of a screen."""
MAX_PRINTED = 14
"""Metrics that are printed, those with most failures: as many as an upright page holds."""
MAX_TRAITS = 3
"""Traits with a column of their own; the others can be searched for."""
MAX_CHOICES = 80
"""Values of a trait that the filter offers: more are searched for."""
MAX_NAMES = 3000
"""Nodes in the list of all names; a larger fleet is searched by the page's script."""


def heat_section(view: FleetView) -> Markup:
    """Return the heat map with its tools: search, filters, order, pages."""
    rows = zip(view.nodes, view.cells, strict=True)
    linked = any(node.link for node in view.nodes)
    return fragment(
        "heat_map.html",
        view=view,
        bad_metrics=sum(bool(one.failed) for one in view.metrics),
        shades=[f"below {percent(LEVELS[0])} ({FINE})", *(f"from {percent(e)}" for e in LEVELS)],
        picture=fleet_picture(view, order_of(view)),
        decisions=list(map(str, Decision)),
        classes=sorted({node.row.hardware_class for node in view.nodes} - {""}),
        trait_groups=list(_trait_groups(view)),
        columns=columns_of(view),
        metrics=view.metrics[:MAX_METRICS],
        rows=[(node, cells[:MAX_METRICS]) for node, cells in rows][:MAX_ROWS],
        names=sorted(view.nodes[:MAX_NAMES], key=lambda node: node.name) if linked else (),
        max_rows=MAX_ROWS,
        max_metrics=MAX_METRICS,
        max_printed=MAX_PRINTED,
        fine=FINE,
        mark_of=_mark_of,
    )


def script_data(view: FleetView) -> dict[str, Any]:
    """Return everything that the page's script needs, as plain data."""
    decisions = list(map(str, Decision))
    return {
        "rows": MAX_ROWS,
        "wide": MAX_METRICS,
        "printed": MAX_PRINTED,
        "fine": FINE,
        "decisions": decisions,
        "traits": view.traits,
        "columns": len(columns_of(view)),
        "kinds": [[kind.outcome, kind.short, kind.text, kind.level] for kind in view.kinds],
        "metrics": [
            [one.label, f"{metric_name(one.benchmark, one.metric.name)} {one.component}", one.link]
            for one in view.metrics
        ],
        "nodes": [
            [
                node.name,
                decisions.index(node.row.verdict.decision),
                node.row.hardware_class,
                node.link,
                [node.traits.get(name, "") for name in view.traits],
                " ".join(
                    filter(
                        None, (node.row.trouble, node.row.cause, _mark_of(node), node.row.unlike)
                    )
                ),
                dict(node.anchors),
                _mark_of(node),
            ]
            for node in view.nodes
        ],
        "strip": order_of(view),
        "cells": [list(row) for row in view.cells],
    }


def columns_of(view: FleetView) -> Sequence[str]:
    """Return the traits that have a column of their own."""
    return view.traits[:MAX_TRAITS]


def _trait_groups(view: FleetView) -> Iterator[tuple[int, str, list[tuple[str, int]]]]:
    """Yield the traits that the filter offers: number, name, and how many nodes have each value."""
    for number, name in enumerate(view.traits):
        values = Counter(node.traits.get(name, "") for node in view.nodes)
        values.pop("", None)
        if 1 < len(values) <= MAX_CHOICES:
            yield number, name, sorted(values.items())


def _mark_of(node: FleetNode) -> str:
    """Return the words next to a node's decision; most have none."""
    return UNLIKE if node.row.unlike else f"filed {node.filed}" if node.filed else ""
