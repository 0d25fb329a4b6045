"""Values in time order as strip plot and sparkline, which keep every spike and show what is missing.

`html_blocks` and `soak_page` use it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import groupby, pairwise

from pytest_anubis.report.plots.canvas import BAD, CENTRE, SAMPLE, finite, picture, text, tip
from pytest_anubis.report.text.numbers import value_text

_WIDTH, _HEIGHT, _DRAWN, _LEFT = 680, 96, 66, 6
MAX_DOTS = 40
"""Values that are drawn as dots; more are only a line."""


def strip_plot(
    values: Sequence[float],
    *,
    unit: str,
    label: str,
    expected: float | None = None,
    limit: float | None = None,
    points: int = 100,
) -> str:
    """Return values in time order, with the range that they cover in words; empty for fewer than two.

    Values that are not finite leave a gap, if it is at least a column wide. A dashed line is at the
    `expected` median, a dotted one at the `limit`, at which the unit would just fail. Of more than `points`
    values the lowest and the highest of each of ``points // 2`` columns are drawn.
    """
    shown = [(i, v) for i, v in enumerate(values) if finite([v])]
    if len(shown) < 2:
        return ""
    known = finite(values)
    every = [*known, *finite([expected, limit])]
    low, high = min(every), max(every)
    last = len(values) - 1

    def x(index: int) -> int:
        return round(_LEFT + (_WIDTH - 2 * _LEFT) * index / last)

    def y(value: float) -> int:
        return round(8 + (_DRAWN - 8) * (1 - (value - low) / ((high - low) or 1)))

    parts = [
        f"<path d='M{_LEFT} {y(mark)}H{_WIDTH - _LEFT}' stroke='{colour}' stroke-width='2' "
        f"stroke-dasharray='{dashes}'>{tip(f'{name} {value_text(mark, unit)}')}</path>"
        for given, colour, dashes, name in (
            (expected, CENTRE, "9 6", "expected"),
            (limit, BAD, "3 4", "limit"),
        )
        for mark in finite([given])
    ]
    dots = ""
    if len(shown) <= MAX_DOTS:  # a line of no length with round ends is a dot
        dots = "".join(f"M{x(i)} {y(v)}h0" for i, v in shown)
        dots = f"<path d='{dots}' stroke='{SAMPLE}' stroke-width='7' stroke-linecap='round'/>"
    parts.append(_line(shown, points, lambda i, v: f"{x(i)} {y(v)}") + dots)
    words = f"{label}: {_range(min(known), max(known), unit)}"
    parts.append(text(_LEFT, _HEIGHT - 6, words))
    return picture(_WIDTH, _HEIGHT, words, "".join(parts))


def spark(values: Sequence[float], *, label: str, points: int = 40) -> str:
    """Return values as a line without axis or words, for a cell of a table; empty if nothing moves."""
    shown = [(i, v) for i, v in enumerate(values) if finite([v])]
    if len(shown) < 2:
        return ""
    low, high = min(finite(values)), max(finite(values))
    if low == high:
        return ""
    last = len(values) - 1

    def place(index: int, value: float) -> str:
        return f"{round(236 * index / last) + 2} {round(34 - 28 * (value - low) / (high - low))}"

    return picture(240, 40, label, _line(shown, points, place))


def series_text(values: Sequence[float]) -> str:
    """Return the range of a series in words: one value, or from the lowest to the highest."""
    known = finite(values)
    return _range(min(known), max(known), "") if known else "-"


def _range(low: float, high: float, unit: str) -> str:
    if value_text(low) == value_text(high):
        return value_text(low, unit)
    return f"{value_text(low)} to {value_text(high, unit)}"


def _line(
    shown: Sequence[tuple[int, float]], points: int, place: Callable[[int, float], str]
) -> str:
    """Return the line through values, broken where a column or more is missing."""
    column = 1 if len(shown) <= points else len(shown) // max(1, points // 2)
    gaps = [i for (before, _), (i, _) in pairwise(shown) if i - before > column]  # where they end
    pieces = [
        [place(*one) for one in piece]
        for _, piece in groupby(_extremes(shown, points), lambda one: bisect_right(gaps, one[0]))
    ]
    # With round ends, a piece of no length is a dot.
    path = "".join("M" + "L".join(piece) + ("h0" if len(piece) == 1 else "") for piece in pieces)
    ends = " stroke-linecap='round'" if "h0" in path else ""
    return f"<path d='{path}' fill='none' stroke='{SAMPLE}' stroke-width='2'{ends}/>"


def _extremes(shown: Sequence[tuple[int, float]], points: int) -> list[tuple[int, float]]:
    """Return at most two values per column, the lowest and the highest, in time order."""
    if len(shown) <= points:
        return list(shown)
    columns = max(1, points // 2)
    kept: list[tuple[int, float]] = []
    for number in range(columns):
        begin, end = number * len(shown) // columns, (number + 1) * len(shown) // columns
        column = shown[begin:end]
        ends = {min(column, key=lambda p: p[1]), max(column, key=lambda p: p[1])}
        kept += sorted(ends)
    return kept
