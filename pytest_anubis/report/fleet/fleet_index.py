"""The page of a fleet: in short, heat map, what separates nodes, time, components, yield, metrics, costs.

It is the first of a folder of pages, with one a node and a metric, or one file that has what was found on
the nodes in a section of its own (`found_section`).
"""

from __future__ import annotations

import html

from pytest_anubis.core.verdict import Decision
from pytest_anubis.report.fleet.fleet_script import SCRIPT, policy
from pytest_anubis.report.fleet.fleet_style import FLEET
from pytest_anubis.report.fleet.fleet_tables import (
    components_section,
    drift_section,
    metrics_section,
    shifts_section,
    times_section,
    yield_section,
)
from pytest_anubis.report.fleet.fleet_view import FleetView
from pytest_anubis.report.fleet.found_section import found_section
from pytest_anubis.report.fleet.glance import glance
from pytest_anubis.report.fleet.heat_map import data_block, heat_section
from pytest_anubis.report.pages import html_blocks as blocks
from pytest_anubis.report.pages.style_sheets import BLOCKS, PAGE
from pytest_anubis.report.text.node_row import counted_words
from pytest_anubis.report.text.numbers import count_text, moment_text

MARK = "pytest-anubis fleet page"
"""Stands in the page's head, so that a folder is known to hold one."""

_SECTIONS = (
    ("map", "nodes and metrics"),
    ("shifts", "what separates nodes"),
    ("drifts", "over time"),
    ("components", "defects by component"),
    ("yield", "yield"),
    ("metrics", "metrics and power"),
    ("times", "time spent"),
    ("found", "what was found"),
    ("reading", "how to read this page"),
)
_HELP = (
    (
        "loss",
        "how much worse than expected the distribution is, on the scale of the values: 12 % slower, longer",
    ),
    ("FAIL, MARGINAL", "beyond the limit; unusual for the fleet, not yet costly"),
    ("INCONCLUSIVE, NOT_TESTED", "measured and could not be judged; no answer"),
    ("a cell", "the worst device and run of the node in this metric"),
    ("typical", "the median of the nodes of a class, whatever the baseline expects"),
    ("drift", "the fleet's median falls with time, by more than 1 % and by no accident"),
)


def fleet_index(view: FleetView) -> str:
    """Return the page, with the data of all nodes and the script that searches them."""
    decisions = blocks.word_badges(counted_words(node.row for node in view.nodes))
    sections = {
        "map": heat_section(view),
        "shifts": shifts_section(view),
        "drifts": drift_section(view),
        "components": components_section(view),
        "yield": yield_section(view),
        "metrics": metrics_section(view),
        "times": times_section(view),
        "found": found_section(view),
        "reading": _reading(),
    }
    items = "".join(
        f"<li><a href='#{key}'>{name}</a></li>" for key, name in _SECTIONS if sections[key]
    )
    unjudged = "".join(f"<p><b>{html.escape(line)}</b></p>" for line in view.unjudged)
    against = "".join(blocks.paragraph(line, "faint") for line in view.held_against)
    told = blocks.lines_block("findings about whole classes", view.findings, open_=True)
    body = (
        "<a class='skip' href='#map'>to the heat map</a>"
        f"<header class='banner'><h1>{count_text(len(view.nodes), 'node')}</h1><p>{decisions}</p>"
        f"{blocks.paragraph(_span(view), 'faint')}{against}"
        f"{blocks.paragraph(view.without_run)}{unjudged}</header>"
        f"{glance(view)}{told}<nav aria-label='sections'><ul>{items}</ul></nav>{''.join(sections.values())}"
        f"{blocks.lines_block('notes', view.notes)}{data_block(view)}<script>{SCRIPT}</script>"
    )
    head = (
        f"<meta http-equiv='Content-Security-Policy' content=\"{policy()}\">"
        f"<meta name='generator' content='{MARK}'>"
    )
    return blocks.document(_title(view), BLOCKS + PAGE + FLEET, body, head=head)


def _title(view: FleetView) -> str:
    rejected = len(view.of(Decision.REJECTED))
    return f"fleet: {rejected} of {count_text(len(view.nodes), 'node')} rejected"


def _span(view: FleetView) -> str:
    when = ""
    if view.first:
        when = f", from {moment_text(view.first)} to {moment_text(view.last)}"
        when = when if view.first != view.last else f", of {moment_text(view.first)}"
    return f"{count_text(view.runs, 'run')}, {count_text(len(view.metrics), 'metric')}{when}"


def _reading() -> str:
    rows = "".join(f"<dt>{word}</dt><dd>{meaning}</dd>" for word, meaning in _HELP)
    return f"<h2 id='reading'>How to read this page</h2><dl class='facts'>{rows}</dl>"
