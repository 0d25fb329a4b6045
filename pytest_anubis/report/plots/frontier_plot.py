"""Lines and dots of one quantity against another as inline SVG: policies, risks by rank, calibration.

`risk_report` and `simulation_report` use it.
"""

from __future__ import annotations

from collections.abc import Sequence

from pytest_anubis.report.plots.canvas import BAD, CENTRE, SAMPLE, finite, picture, text, ticks, tip
from pytest_anubis.report.text.numbers import value_text

_COLOURS = (SAMPLE, BAD, CENTRE, "#b5528f", "#8a6d00", "#3d93c4", "#777777")
_DASHES = ("", "12 6", "4 5", "16 5 4 5")
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 1200, 700, 110, 330, 50, 90
Point = tuple[float, float]


def frontier_plot(
    lines: Sequence[tuple[str, Sequence[Point]]], *, x_label: str, y_label: str
) -> str:
    """Return named lines of (x, y) points, e.g. validation hours against time between incidents.

    Both axes begin at zero; a single point is a dot. Points that are not finite are left out, and without any
    the text is empty. The labels say what x and y are, with their units.
    """
    known = [(name, sorted(p for p in line if len(finite(p)) == 2)) for name, line in lines]
    points = [point for _, line in known for point in line]
    if not points:
        return ""
    most = (max(x for x, _ in points) * 1.05 or 1.0, max(y for _, y in points) * 1.05 or 1.0)
    parts = [_axes(most, x_label, y_label)]
    for number, (name, line) in enumerate(known):
        parts.append(_line(number, name, line, most))
        if len(known) > 1:  # of a single line, its axes say all
            parts.append(_entry(number, name, len(line) > 1))
    return picture(_WIDTH, _HEIGHT, f"{y_label} against {x_label}", "".join(parts))


def _place(point: Point, most: Point) -> tuple[int, int]:
    return (
        round(_LEFT + (_WIDTH - _LEFT - _RIGHT) * point[0] / most[0]),
        round(_HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * point[1] / most[1]),
    )


def _line(number: int, name: str, line: Sequence[Point], most: Point) -> str:
    colour, dashes = _style(number)
    parts = []
    if len(line) > 1:
        path = "L".join("{} {}".format(*_place(point, most)) for point in line)
        parts.append(f"<path d='M{path}' fill='none' stroke='{colour}' stroke-width='3'{dashes}/>")
    for point in line:
        x, y = _place(point, most)
        words = f"{name}: {value_text(point[0])}, {value_text(point[1])}"
        parts.append(f"<circle cx='{x}' cy='{y}' r='6' fill='{colour}'>{tip(words)}</circle>")
    return "".join(parts)


def _style(number: int) -> tuple[str, str]:
    """Return a line's colour, and the attribute of its dashes."""
    dash = _DASHES[number // len(_COLOURS) % len(_DASHES)]
    return _COLOURS[number % len(_COLOURS)], f" stroke-dasharray='{dash}'" if dash else ""


def _entry(number: int, name: str, drawn: bool) -> str:
    """Return a line's entry in the legend: as it is drawn, a line or a dot."""
    colour, dashes = _style(number)
    at, right = _TOP + 28 * number, _WIDTH - _RIGHT + 24
    mark = f"<path d='M{right} {at}h36' stroke='{colour}' stroke-width='4'{dashes}/>"
    spot = f"d='M{right + 18} {at}h0' stroke-width='12' stroke-linecap='round'"  # round ends alone
    dot = f"<path {spot} stroke='{colour}'/>"
    return (mark if drawn else dot) + text(right + 46, at + 6, name)


def _axes(most: Point, x_label: str, y_label: str) -> str:
    floor, end = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
    grid, texts = [], []
    for value in ticks(0.0, most[0], 6):
        x, _ = _place((value, 0.0), most)
        grid.append(f"M{x} {_TOP}V{floor}")
        texts.append(text(x, floor + 26, value_text(value), anchor="middle"))
    for value in ticks(0.0, most[1], 6):
        _, y = _place((0.0, value), most)
        grid.append(f"M{_LEFT} {y}H{end}")
        texts.append(text(_LEFT - 10, y + 6, value_text(value), anchor="end"))
    texts += [
        text((_LEFT + end) // 2, _HEIGHT - 20, x_label, anchor="middle"),
        text(_LEFT, _TOP - 22, y_label),
    ]
    return (
        f"<path d='{''.join(grid)}' stroke='currentColor' stroke-opacity='.15'/>"
        f"<path d='M{_LEFT} {_TOP}V{floor}H{end}' fill='none' stroke='currentColor'/>"
        + "".join(texts)
    )
