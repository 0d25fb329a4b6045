"""The risk of a fleet as a table and as a page: which nodes, and how many incidents to expect."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_anubis.report.pages import html_blocks as blocks
from pytest_anubis.report.pages.style_sheets import BLOCKS, LARGE_PLOTS, PAGE
from pytest_anubis.report.plots.frontier_plot import frontier_plot
from pytest_anubis.report.text.numbers import count_text, duration_text, percent
from pytest_anubis.report.text.text_table import table

_MOST = 500
"""Nodes in the page's table; JSON has all."""
_POINTS = 400
"""Nodes drawn one by one; of more, as many spread over all ranks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOutlook:
    """A node with its risk.

    Attributes:
        node: Its name.
        probability: Of an incident within the horizon.
        uptime: Seconds since it came into service or back from its last incident.
        incidents: How many it had.
        last: Kind of the last one.
        state: In service, drained, in repair.
    """

    node: str
    probability: float
    uptime: float
    incidents: int
    last: str
    state: str


def risk_lines(
    rows: Sequence[NodeOutlook], horizon: float, basis: str, *, most: int | None = None
) -> list[str]:
    """Return the fleet's risk in one line, and a table of its nodes.

    Args:
        rows: The nodes, riskiest first.
        horizon: Seconds ahead.
        basis: What the risks rest on.
        most: Nodes shown; None shows all.
    """
    shown = rows if most is None else rows[:most]
    cells = [["node", "risk", "up for", "incidents", "last", "state"]]
    cells += [
        [
            row.node,
            percent(row.probability),
            duration_text(row.uptime),
            str(row.incidents),
            row.last or "-",
            row.state,
        ]
        for row in shown
    ]
    lines = [fleet_line(rows, horizon), f"from a history: {basis}", *table(cells).splitlines()]
    if len(shown) < len(rows):
        lines.append(f"... and {len(rows) - len(shown)} more nodes (--all shows them)")
    return lines


def fleet_line(rows: Sequence[NodeOutlook], horizon: float) -> str:
    """Return the fleet's risk in one line."""
    expected = math.fsum(row.probability for row in rows)
    shown = f"{expected:.3g}"
    none = math.fsum(math.log1p(-min(row.probability, 1 - 1e-9)) for row in rows)
    return (
        f"{count_text(len(rows), 'node')}: {shown} incident{'' if shown == '1' else 's'} expected within "
        f"{horizon / 3600:g} h, at least one with a probability of {percent(-math.expm1(none))}"
    )


def risk_page(
    rows: Sequence[NodeOutlook],
    horizon: float,
    basis: str,
    expected: Sequence[tuple[float, float]],
    notes: Sequence[str] = (),
) -> str:
    """Return a page that needs nothing from outside.

    Args:
        rows: The nodes, riskiest first.
        horizon: Seconds ahead.
        basis: What the risks rest on.
        expected: Hours ahead and nodes with an incident by then.
        notes: What was only assumed.
    """
    step = max(1, len(rows) // _POINTS)
    ranked = [(rank + 1, 100 * rows[rank].probability) for rank in range(0, len(rows), step)]
    head = "".join(
        f"<th{' class=n' if number else ''}>{name}</th>"
        for name, number in (
            ("node", False), ("risk", True), ("up for", True), ("incidents", True),
            ("last", False), ("state", False),
        )
    )  # fmt: skip
    body = "".join(
        f"<tr><td>{html.escape(row.node)}</td>{blocks.number(percent(row.probability))}"
        f"{blocks.number(duration_text(row.uptime))}{blocks.number(str(row.incidents))}"
        f"<td>{html.escape(row.last)}</td><td>{html.escape(row.state)}</td></tr>"
        for row in rows[:_MOST]
    )
    more = f"<p>and {len(rows) - _MOST} nodes with less risk</p>" if len(rows) > _MOST else ""
    parts = [
        f"<h1>Risk of the fleet</h1><p>{html.escape(fleet_line(rows, horizon))}</p>",
        f"<p class='faint'>from a history: {html.escape(basis)}</p>",
        blocks.lines_block("notes", list(notes)),
        f"<h2>Risk of each node within {horizon / 3600:g} h, highest first</h2>",
        frontier_plot(
            [("one node", ranked)],
            x_label="node, by rank",
            y_label="probability of an incident, %",
        ),
        "<h2>Incidents to expect</h2>",
        frontier_plot(
            [("this fleet", expected)],
            x_label="hours ahead",
            y_label="nodes with an incident by then",
        ),
        f"<h2>Nodes</h2><div class='wide'><table><tr>{head}</tr>{body}</table></div>{more}",
    ]
    return blocks.document("Risk of the fleet", BLOCKS + PAGE + LARGE_PLOTS, "".join(parts))
