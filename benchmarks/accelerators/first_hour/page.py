"""Write the page of the first hour: every result with the expected one, and time series as drawings."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.accelerators.first_hour.rows import FAILED, GOOD, IMPOSSIBLE, OFF, SEEN, Row
from pytest_anubis.report.pages.rendering import as_markup, render

_BADGES = {GOOD: "PASS", OFF: "FAIL", FAILED: "FAIL", IMPOSSIBLE: "INCONCLUSIVE", SEEN: ""}
_WIDTH, _HEIGHT = 720, 150  # pixels: readable on a phone in landscape
_MAX_POINTS = 1500
"""Maximum number of points of a series that are drawn: two per pixel."""


def hour_page(
    title: str, facts: Mapping[str, str], rows: Sequence[Row], courses: Sequence[Any]
) -> str:
    """Return the page.

    Args:
        title: Title of the page.
        facts: Node, cards, versions and time.
        rows: All lines, in the order of the steps.
        courses: Time series as `Findings.series` writes them.
    """
    parts = [f"<h1>{html.escape(title)}</h1><dl class='facts'>"]
    parts += [f"<dt>{html.escape(k)}</dt><dd>{html.escape(v)}</dd>" for k, v in facts.items()]
    parts.append("</dl>")
    for step in dict.fromkeys(row.step for row in rows):
        parts.append(f"<h2>{html.escape(step)}</h2><div class='wide'><table>")
        head = ("", "found", "expected", "source", "", "")
        parts.append("<tr>" + "".join(f"<th>{word}</th>" for word in head) + "</tr>")
        parts += [_line(row) for row in rows if row.step == step]
        parts.append("</table></div>")
        parts += [_drawing(one) for one in courses if one["step"] == step and one["points"]]
    return render("page.html", title=title, body=as_markup("".join(parts)))


def _line(row: Row) -> str:
    badge = f"<span class='verdict {_BADGES.get(row.end, '')}'>{html.escape(row.end)}</span>"
    cells = [row.what, row.found, row.expected, row.source]
    inner = "".join(f"<td>{html.escape(cell)}</td>" for cell in cells)
    return f"<tr>{inner}<td>{badge}</td><td class='faint'>{html.escape(row.note)}</td></tr>"


def _drawing(course: Mapping[str, Any]) -> str:
    every = max(1, len(course["points"]) // _MAX_POINTS)
    points = course["points"][::every]
    last, top = max(when for when, _ in points) or 1.0, max(value for _, value in points) or 1.0
    line = " ".join(
        f"{when / last * _WIDTH:.1f},{_HEIGHT - value / top * (_HEIGHT - 10):.1f}"
        for when, value in points
    )
    words = f"{course['name']}: up to {top:.4g} {course['unit']} in {last:.0f} s"
    return (
        f"<p>{html.escape(words)}</p><svg viewBox='0 0 {_WIDTH} {_HEIGHT}' width='{_WIDTH}' role='img' "
        f"aria-label='{html.escape(words, quote=True)}'><polyline fill='none' stroke='currentColor' "
        f"points='{line}'/></svg>"
    )
