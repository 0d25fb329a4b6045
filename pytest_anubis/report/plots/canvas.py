"""The parts of all plots: the frame that maps values to the picture, ticks, colours and escaped text.

Coordinates are whole numbers in a box of twice the shown size, so that a step of a distribution takes about
eight characters. Attributes have single quotes, because pytest-html keeps results as JSON inside an HTML
attribute, where each double quote becomes six characters.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pytest_anubis.report.text.numbers import value_text

SAMPLE, CENTRE, BAD = "#0072b2", "#008a63", "#c2500a"
"""Blue, green and orange after Okabe and Ito, distinct for any colour vision, also by lightness."""

SHADE = "rgba(213,94,0,.14)"
FONT = 19
DIGIT = 0.64
"""Width of a digit in the widest of the usual fonts, as a share of its size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """Maps values to the picture."""

    low: float
    high: float  # value at the right edge, above `low`
    width: int = 680  # width of the box; the picture is shown at half of it
    height: int = 280
    left: int = 66  # space for the vertical axis
    right: int = 14
    top: int = 34  # space for the legend
    bottom: int = 54

    @property
    def floor(self) -> int:
        """Vertical coordinate of the axis."""
        return self.height - self.bottom

    @property
    def end(self) -> int:
        """Horizontal coordinate of the right edge of the plot."""
        return self.width - self.right

    def x(self, value: float) -> int:
        """Return the horizontal coordinate of a value; values outside are drawn on the edge."""
        share = (value - self.low) / (self.high - self.low)
        return round(self.left + (self.end - self.left) * min(1.0, max(0.0, share)))

    def y(self, share: float) -> int:
        """Return the vertical coordinate of a share in [0, 1]."""
        return round(self.floor - (self.floor - self.top) * min(1.0, max(0.0, share)))


def finite(values: Iterable[float | None]) -> list[float]:
    """Return the values that can be drawn; None is a value that is unknown."""
    return [value for value in values if value is not None and math.isfinite(value)]


def span(values: Sequence[float]) -> tuple[float, float]:
    """Return the range, low and high, that shows one or more finite values with a margin.

    It is cut to three times the spread of the middle 90 % on either side, so that one far value does not
    flatten the rest; values beyond are drawn on the edge, and the plot names the farthest. It never begins
    below zero, since metrics are on a ratio scale.
    """
    ordered = sorted(values)
    last = len(ordered) - 1
    inner_low, inner_high = ordered[round(0.05 * last)], ordered[round(0.95 * last)]
    spread = inner_high - inner_low
    low, high = ordered[0], ordered[-1]
    if spread > 0:
        low, high = max(low, inner_low - 3 * spread), min(high, inner_high + 3 * spread)
    margin = 0.05 * (high - low) or 0.05 * abs(high) or 1.0
    return max(0.0, low - margin) if low >= 0 else low - margin, high + margin


def ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Return at most `most` round numbers within [low, high] (steps of 1, 2 or 5 times a power of ten)."""
    width = high - low
    if not (math.isfinite(width) and width > 1e-300):  # smaller ones have no power of ten
        return []
    power = 10.0 ** math.floor(math.log10(width / most))
    for factor in (1, 2, 5, 10, 20):
        step = factor * power
        first = math.ceil(low / step)
        last = math.floor(high / step)
        if 0 <= last - first < most:
            # In a very narrow range neighbouring ticks may be the same float.
            return list(dict.fromkeys(number * step for number in range(first, last + 1)))
    return []


def axes(frame: Frame, unit: str) -> str:
    """Return the horizontal axis with ticks and unit, and the vertical one from 0 to 100 %."""
    lines = [f"M{frame.left} {frame.floor}H{frame.end}"]
    texts = []
    for value in ticks(frame.low, frame.high):
        at = frame.x(value)
        lines.append(f"M{at} {frame.floor}v6")
        words = value_text(value)
        room = round(len(words) * FONT * DIGIT / 2)  # to either side of the tick
        middle = min(at, frame.width - room)  # the last label would be cut at its tick
        texts.append(text(middle, frame.floor + 24, words, anchor="middle"))
    texts.append(text(frame.end, frame.height - 6, unit, anchor="end", faint=True))
    grid = "".join(f"M{frame.left} {frame.y(share)}H{frame.end}" for share in (0.5, 1.0))
    for share in (0.0, 0.5, 1.0):
        label = f"{100 * share:.0f} %"
        texts.append(text(frame.left - 8, frame.y(share) + 6, label, anchor="end", faint=True))
    return (
        f"<path d='{grid}' stroke='currentColor' stroke-opacity='.15'/>"
        f"<path d='{''.join(lines)}' stroke='currentColor' stroke-opacity='.6' fill='none'/>"
        + "".join(texts)
    )


def beyond(frame: Frame, better: str, limit: float, words: str) -> str:
    """Return the shade over the worse side of a limit, with its tooltip."""
    at = frame.x(limit)
    start, end = (frame.left, at) if better == "higher" else (at, frame.end)
    return (
        f"<path d='M{start} {frame.top}H{end}V{frame.floor}H{start}Z' fill='{SHADE}'>"
        f"{tip(words)}</path>"
    )


def expected_line(frame: Frame, middle: float, unit: str) -> str:
    """Return a dashed line at the expected median."""
    return (
        f"<path d='M{frame.x(middle)} {frame.top}V{frame.floor}' stroke='{CENTRE}' stroke-width='3' "
        f"stroke-dasharray='9 6'>{tip('expected: ' + value_text(middle, unit))}</path>"
    )


def text(x: int, y: int, words: str, *, anchor: str = "", faint: bool = False) -> str:
    """Return escaped words at a place, in the page's own colour."""
    where = f" text-anchor='{anchor}'" if anchor else ""
    pale = " opacity='.65'" if faint else ""
    return f"<text x='{x}' y='{y}'{where}{pale}>{escape(words)}</text>"


def tip(words: str) -> str:
    """Return a tooltip for the element that holds it."""
    return f"<title>{escape(words)}</title>"


def picture(width: int, height: int, label: str, inner: str) -> str:
    """Return a whole picture, shown at half the size of its box, with a label for screen readers."""
    return (
        f"<svg viewBox='0 0 {width} {height}' width='{width // 2}' height='{height // 2}' "
        f"role='img' aria-label='{escape(label)}' font-size='{FONT}' fill='currentColor'>"
        f"{inner}</svg>"
    )


def escape(words: str) -> str:
    """Return text for markup, quotes included."""
    return html.escape(words, quote=True)
