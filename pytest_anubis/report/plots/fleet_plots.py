"""Plots of one metric on many nodes: their medians by rank, and the drift of these over time."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence

from pytest_anubis.core.fleet_survey import DriftMoment
from pytest_anubis.report.plots.canvas import (
    BAD,
    SAMPLE,
    Frame,
    axes,
    beyond,
    expected_line,
    finite,
    picture,
    span,
    text,
    ticks,
    tip,
)
from pytest_anubis.report.text.numbers import count_text, value_text

DOTS = 160
"""Healthy units drawn, evenly spread over all of them: a picture is about 300 pixels wide."""
MAX_NAMES = 8
"""Bad units named in the picture; more names would overlap."""
_LINE = 22
"""Height of a line of names in the picture's box."""


def units_plot(
    healthy: Sequence[float],
    bad: Mapping[str, float],
    *,
    unit: str,
    better: str,
    expected: float | None = None,
    limit: float | None = None,
    label: str,
) -> str:
    """Return the medians of samples as dots, one above the other by rank; bad ones are diamonds with a name.

    `healthy` are the medians of those that passed, `bad` name -> median of the others, the worst first. A
    dashed line is at the `expected` value; the side that is worse than `limit`, at which a unit would just be
    rejected, is shaded. The ``<svg>`` is empty if there is nothing to draw.
    """
    good = sorted(finite(healthy))
    out = {name: value for name, value in bad.items() if finite([value])}
    middle, limits = finite([expected]), finite([limit])
    if not good and not out:
        return ""
    low, high = span([*good, *middle, *limits] or list(out.values()))
    width = high - low
    frame = Frame(
        low=max(
            min([low, *out.values()]) - 0.03 * width, low - 4 * width, 0.0 if low >= 0 else low
        ),
        high=min(max([high, *out.values()]) + 0.03 * width, high + 4 * width),
    )
    ranked = sorted([*good, *out.values()])
    parts = [axes(frame, unit)]
    if better != "equal":
        parts += [beyond(frame, better, one, f"limit: {value_text(one, unit)}") for one in limits]
    parts += [expected_line(frame, one, unit) for one in middle]
    step = max(1, len(good) // DOTS)
    places = [(v, (ranked.index(v) + 0.5) / len(ranked)) for v in good[::step]]
    dots = "".join(f"M{frame.x(v)} {frame.y(s)}h0" for v, s in places)
    parts.append(
        f"<path d='{dots}' stroke='{SAMPLE}' stroke-width='8' stroke-linecap='round' stroke-opacity='.7'/>"
    )
    for number, (name, value) in enumerate(out.items()):
        x, y = frame.x(value), frame.y((ranked.index(value) + 0.5) / len(ranked))
        words = f"{name}: {value_text(value, unit)}"
        parts.append(f"<path d='M{x} {y - 9}l9 9l-9 9l-9 -9Z' fill='{BAD}'>{tip(words)}</path>")
        if number < MAX_NAMES:
            near = x > frame.end - 150
            at = frame.top + 12 + number * _LINE
            parts.append(
                f"<path d='M{x} {y}L{x} {at}' stroke='{BAD}' stroke-opacity='.35'/>"
                + text(x - 10 if near else x + 10, at, name, anchor="end" if near else "")
            )
    counted = f"{count_text(len(good), 'sample')} passed" + (f", {len(out)} did not" if out else "")
    parts.append(text(frame.left, 20, f"{counted}; dashed: expected"))
    return picture(frame.width, frame.height, label, "".join(parts))


def drift_plot(moments: Sequence[DriftMoment], *, label: str) -> str:
    """Return the values of nodes over time: the line is their median, the band the middle 80 % of them.

    Up is better; 100 % is typical of the class.
    """
    if len(moments) < 2:
        return ""
    width, height, left, right, top, floor = 680, 250, 82, 16, 14, 200
    first, last = moments[0].begin, moments[-1].end
    low, high = min(m.low for m in moments), max(m.high for m in moments)
    margin = 0.06 * (high - low) or 0.01
    low, high = low - margin, high + margin

    def x(moment: DriftMoment) -> int:
        middle = (moment.begin + moment.end) / 2
        return round(left + (width - left - right) * (middle - first) / (last - first))

    def y(value: float) -> int:
        return round(floor - (floor - top) * (value - low) / (high - low))

    up = [f"{x(m)} {y(m.high)}" for m in moments]
    down = [f"{x(m)} {y(m.low)}" for m in reversed(moments)]
    line = "L".join(f"{x(m)} {y(m.middle)}" for m in moments)
    parts = [
        f"<path d='M{left} {floor}H{width - right}' stroke='currentColor' stroke-opacity='.6'/>"
    ]
    for value in ticks(low, high, 5):
        parts.append(
            f"<path d='M{left} {y(value)}H{width - right}' stroke='currentColor' stroke-opacity='.15'/>"
            + text(left - 8, y(value) + 6, _share(value), anchor="end", faint=True)
        )
    parts.append(f"<path d='M{'L'.join([*up, *down])}Z' fill='{SAMPLE}' fill-opacity='.2'/>")
    parts.append(f"<path d='M{line}' fill='none' stroke='{SAMPLE}' stroke-width='3'/>")
    for m in moments:
        words = f"{day_text(m.begin)}: {_share(m.middle)} of typical, {count_text(m.nodes, 'node')}"
        parts.append(
            f"<path d='M{x(m)} {y(m.middle)}h0' stroke='{SAMPLE}' stroke-width='10' "
            f"stroke-linecap='round'>{tip(words)}</path>"
        )
    parts.append(text(left, floor + 28, day_text(first)))
    parts.append(text(width - right, floor + 28, day_text(last), anchor="end"))
    return picture(width, height, label, "".join(parts))


def _share(value: float) -> str:
    return f"{100 * value:.1f} %"


def day_text(seconds: float) -> str:
    """Return the day of a moment, UTC: ``2026-08-03``."""
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).date().isoformat()
