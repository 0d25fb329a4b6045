"""Simulated policies as a table and as a page with their frontier."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any

from pytest_anubis.report.pages import html_blocks as blocks
from pytest_anubis.report.pages.style_sheets import BLOCKS, LARGE_PLOTS, PAGE
from pytest_anubis.report.plots.frontier_plot import frontier_plot
from pytest_anubis.report.text.numbers import percent, value_text

HEADER = (
    "policy", "setting", "validation h/node", "of full set", "MTBI h", "x none", "95 % interval",
    "useful h/node", "utilisation",
)  # fmt: skip


def simulation_rows(rows: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Return the table's cells, the header first.

    Args:
        rows: Figures of each policy as plain data, see `Figures`.
    """
    return [list(HEADER), *([*_cells(row)] for row in rows)]


def _cells(row: Mapping[str, Any]) -> list[str]:
    # Few seeds have no interval, and no validation is what the others are held against.
    low, high = row["low"], row["high"]
    known = low is not None and high is not None and low < high
    interval = f"{low:.2f} to {high:.2f}" if known else "-"
    return [
        row["policy"],
        row["knob"],
        f"{row['validation']:.2f}",
        percent(row["share"]),
        f"{row['mtbi']:.0f}",
        f"{row['gain']:.2f}",
        interval,
        _useful(row),
        f"{row['utilisation']:.3f}",
    ]


def _useful(row: Mapping[str, Any]) -> str:
    """Return useful hours with their interval over seeds; few seeds have none."""
    low, high = row.get("useful_low"), row.get("useful_high")
    known = low is not None and high is not None and low < high
    return f"{row['useful']:.0f}" + (f" ({low:.0f} to {high:.0f})" if known else "")


def simulation_page(title: str, rows: Sequence[Mapping[str, Any]], remark: str) -> str:
    """Return a page that needs nothing from outside: the frontier and the table.

    Args:
        title: What was simulated.
        rows: Figures of each policy as plain data.
        remark: What to hold them against.
    """
    lines: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        lines.setdefault(row["policy"], []).append((row["validation"], row["mtbi"]))
    # The full set takes so long that everything else would be one line at the left edge.
    near = {name: points for name, points in lines.items() if name != "full set"}
    cells = simulation_rows(rows)
    head = "".join(f"<th scope='col'>{html.escape(name)}</th>" for name in cells[0])
    body = "".join(
        f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in cells[1:]
    )
    full = [row for row in rows if row["policy"] == "full set"]
    beyond = "".join(
        f"<p>The full set before every job lies far to the right, at "
        f"{value_text(row['validation'], 'h')} per node and an MTBI of "
        f"{value_text(row['mtbi'], 'h')}.</p>"
        for row in full
    )
    parts = [
        f"<h1>Policies of validation</h1><p>{html.escape(title)}</p>",
        frontier_plot(
            list(near.items()),
            x_label="hours of validation per node",
            y_label="mean time between incidents, node hours",
        ),
        beyond,
        f"<div class='wide' tabindex='0'><table><tr>{head}</tr>{body}</table></div>",
        f"<p class='faint'>{html.escape(remark)}</p>",
    ]
    return blocks.document("Policies of validation", BLOCKS + PAGE + LARGE_PLOTS, "".join(parts))
