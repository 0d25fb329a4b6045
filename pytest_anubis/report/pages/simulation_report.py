"""Table and page of `anubis simulate`: each policy's hours of validation, and mean time between incidents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pytest_anubis.report.pages.rendering import block, render
from pytest_anubis.report.plots.frontier_plot import frontier_plot
from pytest_anubis.report.text.numbers import count_text, percent, value_text
from pytest_anubis.report.text.text_table import table, width_of

HEADER = (
    "policy", "setting", "validation", "of full", "MTBI", "x none", "95 % interval", "useful",
    "95 % interval", "utilisation",
)  # fmt: skip

UNITS = "hours: validation and useful for each node, MTBI of use between two incidents"
"""Units of the columns."""

_LEFT_OUT_FIRST = (9, 8, 7, 3)
"""Columns that a narrow terminal leaves out, the least important first; the JSON has them."""


def simulation_rows(rows: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Return the table's cells, the header first; a row is a `policy_comparison.Figures` as plain data."""
    return [list(HEADER), *map(_cells, rows)]


def simulation_lines(rows: Sequence[Mapping[str, Any]], width: int | None = None) -> list[str]:
    """Return the table as lines, without some columns where they do not fit, and the units."""
    cells = simulation_rows(rows)
    shown = list(range(len(HEADER)))
    for column in (*_LEFT_OUT_FIRST, None):
        lines = table([[row[at] for at in shown] for row in cells]).splitlines()
        if column is None or width is None or max(map(width_of, lines)) <= width:
            break
        shown.remove(column)
    left = len(HEADER) - len(shown)
    more = f"; {count_text(left, 'column')} more in a wider terminal" if left else ""
    return [*lines, UNITS + more]


def simulation_answer(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return in one line which policy leaves jobs the most time; the ideal one does not count."""
    best = max((row for row in rows if row["policy"] != "ideal"), key=lambda row: row["useful"])
    others = [row for row in rows if row["policy"] != "ideal" and row is not best]
    usual = (
        f"{row['policy']} {row['useful']:.0f} h"
        for row in others
        if row["policy"] in ("none", "full set")
    )
    low = best["useful_low"]
    alike = [row for row in others if low is not None and row["useful"] >= low]
    unclear = f"; {count_text(len(alike), 'other')} within its interval" if alike else ""
    return (
        f"most useful time: {best['policy']} {best['knob']}".rstrip()
        + f", {best['useful']:.0f} h a node ({', '.join(usual)}), with {percent(best['share'])} of the "
        f"full set's validation{unclear}"
    )


def _cells(row: Mapping[str, Any]) -> list[str]:
    return [
        row["policy"],
        row["knob"],
        f"{row['validation']:.2f}",
        percent(row["share"]),
        f"{row['mtbi']:.0f}",
        f"{row['gain']:.2f}",
        _interval(row["low"], row["high"], 2),
        f"{row['useful']:.0f}",
        _interval(row["useful_low"], row["useful_high"], 0),
        f"{row['utilisation']:.3f}",
    ]


def _interval(low: float | None, high: float | None, digits: int) -> str:
    """Return an interval in words; few seeds have none, nor has the policy that others are compared with."""
    if low is None or high is None or low >= high:
        return "-"
    return f"{low:.{digits}f} to {high:.{digits}f}"


def simulation_page(title: str, rows: Sequence[Mapping[str, Any]], remark: str) -> str:
    """Return the page: the frontier and the table."""
    lines: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        lines.setdefault(row["policy"], []).append((row["validation"], row["mtbi"]))
    # With the full set, which takes far longer, the others would lie on the left edge.
    near = {name: points for name, points in lines.items() if name != "full set"}
    heads, *cells = simulation_rows(rows)
    return render(
        "simulation.html",
        title="Policies of validation",
        scenario=title,
        answer=simulation_answer(rows),
        plot=frontier_plot(
            list(near.items()),
            x_label="hours of validation per node",
            y_label="mean time between incidents, node hours",
        ),
        full=[
            (value_text(row["validation"], "h"), value_text(row["mtbi"], "h"))
            for row in rows
            if row["policy"] == "full set"
        ],
        table=block("table", heads, cells, numbers=range(2, len(heads))),
        units=UNITS,
        remark=remark,
    )
