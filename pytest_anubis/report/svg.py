"""Small plots as inline SVG: no script, no font, no colour that a dark page would swallow.

Colours are from the Okabe-Ito palette, which people with any colour vision can tell apart; everything
else is drawn in the page's own text colour. Attributes stand in single quotes, because pytest-html keeps
results as JSON inside an HTML attribute, where each double quote becomes six characters.
"""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_anubis.report.numbers import value_text

SAMPLE, CENTRE, BAD = "#0072b2", "#009e73", "#d55e00"
POINTS = 100
"""Most points of one curve; a plot is a few hundred pixels wide."""
_WIDTH, _HEIGHT = 340, 130
_LEFT, _RIGHT, _TOP, _BOTTOM = 8, 8, 10, 22


@dataclass(frozen=True, slots=True)
class _Frame:
    """Maps values to pixels."""

    low: float
    high: float
    width: int = _WIDTH
    height: int = _HEIGHT

    def x(self, value: float) -> float:
        span = (self.high - self.low) or 1.0
        inner = self.width - _LEFT - _RIGHT
        return _LEFT + inner * min(1.0, max(0.0, (value - self.low) / span))

    def y(self, share: float) -> float:
        return _TOP + (self.height - _TOP - _BOTTOM) * (1 - share)


def cdf_plot(
    values: Sequence[float],
    centre: Sequence[float],
    *,
    unit: str,
    better: str,
    bound: float | None = None,
    label: str = "",
) -> str:
    """Return the empirical distribution of a sample against what is expected.

    Args:
        values: The sample, any order; values that are not finite are left out of the picture.
        centre: Ascending values of the criterion's centre, each with equal weight; may be empty.
        unit: Unit of the axis.
        better: Direction; the side that is worse than `bound` is shaded.
        bound: Median at which the verdict changes, None without a criterion.
        label: What the picture shows, for people who cannot see it.
    """
    sample = sorted(value for value in values if math.isfinite(value))
    known = [*sample, *centre, *([bound] if bound is not None and math.isfinite(bound) else [])]
    if not known:
        return ""
    low, high = min(known), max(known)
    margin = 0.05 * (high - low) or 0.05 * abs(high) or 1.0
    frame = _Frame(max(0.0, low - margin), high + margin)
    parts = [_limit(frame, better, bound, unit)] if bound is not None else []
    if centre:
        parts.append(_curve(frame, sorted(centre), CENTRE, "expected", unit, dashed=True))
    if sample:
        parts.append(_curve(frame, sample, SAMPLE, "measured", unit))
    return _svg(
        frame, [*parts, *_axis(frame, unit)], label or "distribution of the measured values"
    )


def fan_plot(
    samples: Sequence[Sequence[float]],
    centre: Sequence[float],
    *,
    unit: str,
    bad: Sequence[Sequence[float]] = (),
    label: str = "",
) -> str:
    """Return the distributions of many units as thin lines, excluded ones apart, and their centre.

    Args:
        samples: One sequence of values per healthy unit.
        centre: Ascending values of the centre.
        unit: Unit of the axis.
        bad: One sequence of values per unit that was left out.
        label: What the picture shows.
    """
    every = [v for sample in (*samples, *bad, centre) for v in sample if math.isfinite(v)]
    if not every:
        return ""
    low, high = min(every), max(every)
    margin = 0.05 * (high - low) or 0.05 * abs(high) or 1.0
    frame = _Frame(max(0.0, low - margin), high + margin)
    parts = [_thin(frame, sample, SAMPLE, 0.35) for sample in samples]
    parts += [_thin(frame, sample, BAD, 0.8) for sample in bad]
    if centre:
        parts.append(_curve(frame, sorted(centre), CENTRE, "centre", unit, dashed=True))
    return _svg(frame, [*parts, *_axis(frame, unit)], label or "distributions of all units")


def strip_plot(values: Sequence[float], *, unit: str = "", label: str = "") -> str:
    """Return values in time order as a small strip with its lowest and highest value."""
    shown = [(i, v) for i, v in enumerate(values) if math.isfinite(v)]
    if len(shown) < 2:
        return ""
    low, high = min(v for _, v in shown), max(v for _, v in shown)
    width, height = 340, 36
    last = len(values) - 1
    step = max(1, len(shown) // POINTS)
    points = " ".join(
        f"{4 + (width - 8) * i / last:.1f},{4 + 20 * (1 - (v - low) / ((high - low) or 1)):.1f}"
        for i, v in shown[::step]
    )
    text = f"{label + ': ' if label else ''}{value_text(low)} to {value_text(high, unit)}"
    return (
        f"<svg viewBox='0 0 {width} {height}' width='{width}' height='{height}' role='img' "
        f"aria-label='{_text(text)}'><title>{_text(text)}</title><polyline points='{points}' "
        f"fill='none' stroke='{SAMPLE}' stroke-width='1.2'/><text x='4' y='34' font-size='9' "
        f"fill='currentColor'>{_text(text)}</text></svg>"
    )


def frontier_plot(
    lines: Sequence[tuple[str, Sequence[tuple[float, float]]]],
    *,
    x_label: str,
    y_label: str,
    label: str = "",
) -> str:
    """Return named lines of (x, y) points, e.g. validation hours against time between incidents.

    Args:
        lines: Name and points of each line; a single point is a dot.
        x_label: What x is, with its unit.
        y_label: What y is, with its unit.
        label: What the picture shows.
    """
    points = [point for _, line in lines for point in line]
    if not points:
        return ""
    width, height = 560, 320
    left, bottom, top = 60, 40, 14
    top_y = max(y for _, y in points) * 1.05 or 1.0
    top_x = max(x for x, _ in points) * 1.05 or 1.0

    def place(point: tuple[float, float]) -> str:
        x = left + (width - left - 130) * point[0] / top_x
        y = height - bottom - (height - bottom - top) * point[1] / top_y
        return f"{x:.1f},{y:.1f}"

    palette = (SAMPLE, BAD, CENTRE, "#cc79a7", "#e69f00", "#56b4e9", "#999999", "#f0e442")
    parts = []
    for number, (name, line) in enumerate(lines):
        colour = palette[number % len(palette)]
        ordered = sorted(line)
        if len(ordered) > 1:
            joined = " ".join(map(place, ordered))
            parts.append(f"<polyline points='{joined}' fill='none' stroke='{colour}'/>")
        for point in ordered:
            x, y = place(point).split(",")
            tip = f"{name}: {value_text(point[0])}, {value_text(point[1])}"
            parts.append(
                f"<circle cx='{x}' cy='{y}' r='3' fill='{colour}'><title>{_text(tip)}</title></circle>"
            )
        at = top + 14 * number + 8
        parts.append(
            f"<rect x='{width - 122}' y='{at - 8}' width='8' height='8' fill='{colour}'/>"
            f"<text x='{width - 110}' y='{at}' font-size='10' fill='currentColor'>{_text(name)}</text>"
        )
    parts.append(
        f"<path d='M{left} {top}V{height - bottom}H{width - 130}' fill='none' stroke='currentColor'/>"
        f"<text x='{left}' y='{height - 8}' font-size='10' fill='currentColor'>{_text(x_label)} "
        f"(0 to {value_text(top_x)})</text><text x='4' y='{top + 2}' font-size='10' "
        f"fill='currentColor'>{_text(y_label)} (0 to {value_text(top_y)})</text>"
    )
    return (
        f"<svg viewBox='0 0 {width} {height}' width='{width}' height='{height}' role='img' "
        f"aria-label='{_text(label)}'><title>{_text(label)}</title>{''.join(parts)}</svg>"
    )


def _svg(frame: _Frame, parts: Sequence[str], label: str) -> str:
    return (
        f"<svg viewBox='0 0 {frame.width} {frame.height}' width='{frame.width}' "
        f"height='{frame.height}' role='img' aria-label='{_text(label)}'>{''.join(parts)}</svg>"
    )


def _steps(frame: _Frame, ordered: Sequence[float]) -> str:
    """Return the points of a cumulative distribution, thinned to what a screen can show."""
    n = len(ordered)
    chosen = range(n) if n <= POINTS else [round(i * (n - 1) / (POINTS - 1)) for i in range(POINTS)]
    points = [(frame.x(ordered[0]), frame.y(0))]
    for index in chosen:
        x = frame.x(ordered[index])
        points += [(x, points[-1][1]), (x, frame.y((index + 1) / n))]
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def _curve(
    frame: _Frame,
    ordered: Sequence[float],
    colour: str,
    name: str,
    unit: str,
    *,
    dashed: bool = False,
) -> str:
    middle = ordered[len(ordered) // 2]
    tip = f"{name}: median {value_text(middle, unit)}, {len(ordered)} values"
    dash = " stroke-dasharray='5 3'" if dashed else ""
    return (
        f"<polyline points='{_steps(frame, ordered)}' fill='none' stroke='{colour}' "
        f"stroke-width='1.6'{dash}><title>{_text(tip)}</title></polyline>"
    )


def _thin(frame: _Frame, sample: Sequence[float], colour: str, opacity: float) -> str:
    ordered = sorted(value for value in sample if math.isfinite(value))
    if not ordered:
        return ""
    n = len(ordered)
    few = ordered if n <= 24 else [ordered[round(i * (n - 1) / 23)] for i in range(24)]
    return (
        f"<polyline points='{_steps(frame, few)}' fill='none' stroke='{colour}' "
        f"stroke-width='0.7' stroke-opacity='{opacity}'/>"
    )


def _limit(frame: _Frame, better: str, bound: float | None, unit: str) -> str:
    if bound is None or not math.isfinite(bound) or better == "equal":
        return ""
    at, bottom = frame.x(bound), frame.y(0)
    left, right = (frame.x(frame.low), at) if better == "higher" else (at, frame.x(frame.high))
    return (
        f"<rect x='{left:.1f}' y='{_TOP}' width='{max(0.0, right - left):.1f}' "
        f"height='{bottom - _TOP:.1f}' fill='{BAD}' fill-opacity='0.13'>"
        f"<title>limit {_text(value_text(bound, unit))}</title></rect>"
    )


def _axis(frame: _Frame, unit: str) -> list[str]:
    base = frame.y(0)
    return [
        f"<path d='M{_LEFT} {base:.1f}H{frame.width - _RIGHT}' stroke='currentColor' "
        "stroke-opacity='0.5'/>",
        f"<text x='{_LEFT}' y='{frame.height - 6}' font-size='10' fill='currentColor'>"
        f"{_text(value_text(frame.low))}</text>",
        f"<text x='{frame.width - _RIGHT}' y='{frame.height - 6}' font-size='10' "
        f"text-anchor='end' fill='currentColor'>{_text(value_text(frame.high, unit))}</text>",
    ]


def _text(text: str) -> str:
    return html.escape(text, quote=True)
