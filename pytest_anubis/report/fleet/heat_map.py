"""The heat map of nodes and metrics: a real table of the worst nodes, and the data of all."""

from __future__ import annotations

import html
import json
from collections import Counter
from collections.abc import Iterable, Sequence

from pytest_anubis.core.metric import metric_name
from pytest_anubis.core.verdict import Decision
from pytest_anubis.report.fleet.fleet_picture import fleet_picture, order_of
from pytest_anubis.report.fleet.fleet_style import PRINTED
from pytest_anubis.report.fleet.fleet_view import (
    FINE,
    LEVELS,
    CellKind,
    FleetNode,
    FleetView,
)
from pytest_anubis.report.fleet.found_section import is_one_page
from pytest_anubis.report.pages import html_blocks as blocks
from pytest_anubis.report.text.learned_text import UNLIKE
from pytest_anubis.report.text.numbers import count_text, percent

ROWS = 50
"""Nodes shown at a time: some screens; a table of thousands takes a browser seconds."""
COLUMNS = 3
"""Traits with a column of their own; the others can be searched for."""
CHOICES = 80
"""Most values of a trait that the filter offers: more are searched for."""
WIDE = 30
"""Metrics shown at a time: somewhat more than a screen's width, as a browser draws that in no time."""
NAMED = 3000
"""Nodes in the list of all names; a fleet with more is searched by the page's script."""
_ABSENT = "<td class='c h0'><span class='faint'>?</span></td>"
"""Of what was not measured."""


def heat_section(view: FleetView) -> str:
    """Return the heat map with its tools: search, filters, order, pages."""
    return (
        f"<h2 id='map'>Nodes and metrics</h2><p>{_told(view)}</p>{_legend()}"
        f"{fleet_picture(view, order_of(view))}{_tools(view)}"
        f"<div class='pages'><p id='told' role='status'>{_first(view)}</p>{_pages()}</div>"
        "<div class='grid' role='region' aria-label='heat map of nodes and metrics' tabindex='0'>"
        f"<table class='heat' id='heat'><caption class='skip'>Nodes in rows, metrics in columns, both the "
        f"worst first; a cell says how much worse the node is than expected.</caption>{_head(view)}"
        f"<tbody>{''.join(_rows(view))}</tbody></table></div>{_names(view)}"
    )


def data_block(view: FleetView) -> str:
    """Return everything the script needs as JSON that cannot end the element that holds it."""
    decisions = [decision.value for decision in Decision]
    document = {
        "rows": ROWS,
        "wide": WIDE,
        "printed": PRINTED,
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
                decisions.index(node.row.verdict.decision.value),
                node.row.hardware_class,
                node.link,
                [node.traits.get(name, "") for name in view.traits],
                " ".join(
                    filter(None, (node.row.trouble, node.row.cause, _mark(node), node.row.unlike))
                ),
                dict(node.anchors),
                _mark(node),
            ]
            for node in view.nodes
        ],
        "strip": order_of(view),
        "cells": [list(row) for row in view.cells],
    }
    return f"<script type='application/json' id='fleet'>{json_for_html(document)}</script>"


def json_for_html(document: object) -> str:
    """Return JSON without a character that HTML or a script could take for its own."""
    text = json.dumps(document, ensure_ascii=True, separators=(",", ":"))
    for character in "<>&'":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def columns_of(view: FleetView) -> Sequence[str]:
    """Return the traits that have a column of their own."""
    return view.traits[:COLUMNS]


def _told(view: FleetView) -> str:
    bad = count_text(sum(bool(one.failed) for one in view.metrics), "metric")
    where = "the node's dossier, a heading to the metric's distribution"
    if is_one_page(view):
        where = "what was found on the node"
    counted = f"{count_text(len(view.nodes), 'node')} and {count_text(len(view.metrics), 'metric')}"
    return (
        f"{counted}, outliers first: rejected nodes on top, the {bad} that some node fails on the "
        f"left. A cell leads to {where}. "
        "Arrow keys walk from cell to cell."
    )


def _legend() -> str:
    edges = ["", *(percent(edge) for edge in LEVELS)]
    shades = "".join(
        f"<span class='h{n}'>{f'from {edge}' if edge else f'below {percent(LEVELS[0])} ({FINE})'}</span>"
        for n, edge in enumerate(edges)
    )
    marks = (
        "\N{BLACK DIAMOND} FAIL, \N{WHITE DIAMOND} MARGINAL, \N{WHITE CIRCLE} INCONCLUSIVE, \N{EN DASH} "
        "NOT_TESTED, ? not measured; without a mark: PASS"
    )
    return f"<p class='legend heat'>loss beside what is expected: {shades}<br>{marks}</p>"


def _tools(view: FleetView) -> str:
    decisions = "".join(f"<option>{decision.value}</option>" for decision in Decision)
    classes = sorted({node.row.hardware_class for node in view.nodes} - {""})
    orders = "".join(
        f"<option value='t{n}'>{html.escape(t)}</option>" for n, t in enumerate(view.traits)
    )
    groups = "".join(
        f"<option value='m{n}'>{html.escape(one.label)}</option>"
        for n, one in enumerate(view.metrics)
    )
    return (
        "<form class='tools script' id='tools' hidden><label>search nodes<input id='q' type='search' "
        "placeholder='name, rack, trouble, part' autocomplete='off'></label>"
        f"<label>decision<select id='decision'><option value=''>any</option>{decisions}</select></label>"
        f"<label>hardware class<select id='class'><option value=''>any</option>{_options(classes)}</select>"
        f"</label><label>trait<select id='trait'><option value=''>any</option>{_trait_groups(view)}</select>"
        "</label><label>metrics<input id='m' type='search' placeholder='name, test, component' "
        "autocomplete='off'></label><label>order of nodes<select id='order'>"
        f"<option value=''>worst first</option><option value='n'>name</option>{orders}"
        f"<optgroup label='worst by metric'>{groups}</optgroup></select></label>"
        "<button type='reset'>show all</button></form>"
        "<noscript><p>Searching needs the page's script; without it the worst nodes are shown, and all "
        "are listed below.</p></noscript>"
    )


def _trait_groups(view: FleetView) -> str:
    groups = []
    for number, name in enumerate(view.traits):
        values = Counter(node.traits.get(name, "") for node in view.nodes)
        values.pop("", None)
        if 1 < len(values) <= CHOICES:
            options = "".join(
                f"<option value='{number} {html.escape(value)}'>{html.escape(f'{name} {value}')} "
                f"({count})</option>"
                for value, count in sorted(values.items())
            )
            groups.append(f"<optgroup label='{html.escape(name)}'>{options}</optgroup>")
    return "".join(groups)


def _options(values: Iterable[str]) -> str:
    return "".join(f"<option>{html.escape(value)}</option>" for value in values)


def _first(view: FleetView) -> str:
    shown = min(ROWS, len(view.nodes))
    metrics = f"metrics 1 to {min(WIDE, len(view.metrics))} of {len(view.metrics)}"
    return f"nodes 1 to {shown} of {len(view.nodes)}, {metrics}"


def _pages() -> str:
    names = (
        ("before", f"previous {ROWS} nodes"),
        ("after", f"next {ROWS} nodes"),
        ("left", f"previous {WIDE} metrics"),
        ("right", f"next {WIDE} metrics"),
    )
    return "".join(
        f"<button type='button' class='script' hidden id='{key}'>{name}</button>"
        for key, name in names
    )


def _head(view: FleetView) -> str:
    traits = "".join(
        f"<th scope='col' class='t'>{html.escape(name)}</th>" for name in columns_of(view)
    )
    metrics = []
    for number, one in enumerate(view.metrics[:WIDE]):
        name, linked = html.escape(one.label), blocks.linked(one.label, one.link)
        late = " late" if number >= PRINTED else ""
        metrics.append(
            f"<th scope='col' class='m{late}' title='{html.escape(one.benchmark)}'><div>{linked}</div>"
            f"<button type='button' class='script' hidden tabindex='-1' data-m='{number}' "
            f"aria-label='worst by {name} first'>\N{WHITE DOWN-POINTING TRIANGLE}</button></th>"
        )
    return (
        f"<thead><tr><th scope='col'>node</th><th scope='col'>decision</th>{traits}{''.join(metrics)}</tr>"
        "</thead>"
    )


def _rows(view: FleetView) -> Iterable[str]:
    for node, cells in list(zip(view.nodes, view.cells, strict=True))[:ROWS]:
        linked = blocks.linked(node.name, node.link)
        traits = "".join(
            f"<td class='t'>{html.escape(node.traits.get(t, ''))}</td>" for t in columns_of(view)
        )
        inner = "".join(
            _cell(view.kinds, node, number, kind) for number, kind in enumerate(cells[:WIDE])
        )
        badge = blocks.badge(node.row.word)
        mark = f" <span class='mark'>{words}</span>" if (words := _mark(node)) else ""
        yield f"<tr><th scope='row'>{linked}</th><td>{badge}{mark}</td>{traits}{inner}</tr>"


def _mark(node: FleetNode) -> str:
    """Return what stands beside a node's decision in words; empty of most."""
    return UNLIKE if node.row.unlike else f"filed {node.filed}" if node.filed else ""


def _cell(kinds: Sequence[CellKind], node: FleetNode, number: int, code: int) -> str:
    late = " late" if number >= PRINTED else ""
    if code < 0:
        return _ABSENT.replace("h0", f"h0{late}")
    kind = kinds[code]
    words = kind.short
    if kind.short != FINE and node.link:
        anchor = node.anchors.get(number, "")
        place = f"{node.link}#{anchor}" if anchor else node.link
        words = f"<a href='{place}' tabindex='-1' title='{html.escape(kind.text)}'>{kind.short}</a>"
    return f"<td class='c h{kind.level} {kind.outcome}{late}'>{words}</td>"


def _names(view: FleetView) -> str:
    if not any(node.link for node in view.nodes):
        return ""
    items = "".join(
        f"<li>{blocks.linked(node.name, node.link)}</li>"
        for node in sorted(view.nodes[:NAMED], key=lambda node: node.name)
    )
    count = count_text(len(view.nodes), "node")
    names = f"<summary>all {count} by name</summary><ul class='names'>{items}</ul>"
    return f"<details class='all'>{names}</details>"
