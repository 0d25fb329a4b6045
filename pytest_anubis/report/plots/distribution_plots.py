"""Distributions as inline SVG: a sample against its criterion, and many units at once.

The pictures have no script and no font. Axes and texts have the page's own colour, so that a dark page shows
them, and curves differ by their dashes as well as by colour. `html_blocks` and `learned_page` use it.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from pytest_anubis.report.plots.canvas import (
    BAD,
    CENTRE,
    SAMPLE,
    SHADE,
    Frame,
    axes,
    finite,
    picture,
    span,
    text,
    tip,
)
from pytest_anubis.report.text.numbers import count_text, percent, value_text

MAX_STEPS = 90
"""Steps of one curve, which is about 300 pixels wide."""
MAX_EDGE_STEPS = 32
"""Steps of the edge of the shaded area."""
MAX_POINTS = 120
"""Units of a single value that are drawn as points, evenly spread over all of them."""
MAX_EXCLUDED = 12
"""Excluded units of a fan that are drawn."""
MAX_LINES = 24
"""Units of a fan that are drawn as lines; more are drawn as bands, which take less space."""


def cdf_plot(
    values: Sequence[float],
    centre: Sequence[float],
    *,
    unit: str,
    better: str,
    label: str,
    limit: float | None = None,
    steps: int = MAX_STEPS,
) -> str:
    """Return the empirical distribution of a sample next to the expected one, an ``<svg>`` of at most 8 kB.

    It is empty when there is nothing to draw; values that are not finite are left out.

    Args:
        values: The sample, any order.
        centre: Values of the criterion's centre, each with equal weight; may be empty.
        unit: Unit of the axis.
        better: Direction; the side that is worse than the limit is shaded.
        limit: Median at which a uniformly worse sample just crosses the threshold, None without a criterion.
        label: What the picture shows, for people who cannot see it.
        steps: Most steps of a curve.
    """
    sample, expected = sorted(finite(values)), sorted(finite(centre))
    limits = finite([limit]) if better != "equal" else []
    if not sample and not expected:
        return ""
    edge = _edge(expected, limits)
    low, high = span([*sample, *expected, *limits])
    frame = Frame(low=min([low, *_inner(edge)]), high=max([high, *_inner(edge)]))
    parts = [_limit(frame, better, limits[0], unit, edge)] if limits else []
    parts.append(axes(frame, unit))
    if expected:
        parts.append(
            _curve(frame, expected, CENTRE, f"expected: {_median(expected, unit)}", "9 6", steps)
        )
    if sample:
        measured = f"measured: {_median(sample, unit)}, {count_text(len(sample), 'value')}"
        parts.append(_curve(frame, sample, SAMPLE, measured, "", steps))
    parts += [_legend(frame, sample, expected, limits), _outside(frame, sample, unit)]
    return picture(frame.width, frame.height, label, "".join(parts))


def fan_plot(
    samples: Sequence[Sequence[float]],
    centre: Sequence[float],
    *,
    unit: str,
    bad: Mapping[str, Sequence[float]],
    better: str,
    limit: float | None,
    label: str,
    counted: str,
) -> str:
    """Return the distributions of many units, those left out by name, and their centre, as for `cdf_plot`.

    Up to 24 units are thin lines; more become two bands, within which all of them and the middle 80 %
    of them lie. Where every unit has a single value, units are points, one above the other by rank. Of the
    units in `bad` (name -> values), which were left out, the first 12 are drawn. `counted` says how many
    units there are.
    """
    good = [ordered for sample in samples if (ordered := sorted(finite(sample)))]
    out = {name: ordered for name, s in bad.items() if (ordered := sorted(finite(s)))}
    drawn = dict(list(out.items())[:MAX_EXCLUDED])
    expected = sorted(finite(centre))
    if not good and not drawn and not expected:
        return ""
    limits = finite([limit]) if better != "equal" else []
    edge = _edge(expected, limits)
    frame = _fan_frame(good, drawn, [*_inner(edge), *expected])
    parts = [_limit(frame, better, limits[0], unit, edge)] if limits else []
    parts.append(axes(frame, unit))
    single = all(len(sample) == 1 for sample in good)
    draw = _points if single else _bands if len(good) > MAX_LINES else _lines
    parts.append(draw(frame, good))
    if expected:
        parts.append(_curve(frame, expected, CENTRE, f"centre: {_median(expected, unit)}", "9 6"))
    for name, sample in drawn.items():
        words = f"left out: {name}, {_median(sample, unit)}"
        if single and len(sample) == 1:
            parts.append(_dots([(frame.x(sample[0]), frame.y(0.5))], BAD, words))
        else:
            parts.append(_curve(frame, sample, BAD, words, "3 3"))
    more = f", {len(out)} left out" if out else ""
    parts.append(text(frame.left, 20, f"{counted}{more}; dashed: centre"))
    return picture(frame.width, frame.height, label, "".join(parts))


def _median(ordered: Sequence[float], unit: str) -> str:
    if ordered[0] == ordered[-1]:
        return f"always {value_text(ordered[0], unit)}"
    return f"median {value_text(statistics.median(ordered), unit)}"


def _thinned(ordered: Sequence[float], most: int) -> list[tuple[float, float]]:
    """Return (value, share of values up to it), at most `most` of them, first and last included."""
    n = len(ordered)
    chosen = range(n) if n <= most else [round(i * (n - 1) / (most - 1)) for i in range(most)]
    return [(ordered[index], (index + 1) / n) for index in chosen]


def _steps(frame: Frame, ordered: Sequence[float], most: int = MAX_STEPS) -> str:
    """Return the path of a cumulative distribution: right to each value, then up by its share."""
    path = [f"M{frame.left} {frame.floor}"]
    for value, share in _thinned(ordered, most):
        path.append(f"H{frame.x(value)}V{frame.y(share)}")
    path.append(f"H{frame.end}")
    return "".join(path)


def _curve(
    frame: Frame,
    ordered: Sequence[float],
    colour: str,
    words: str,
    dashes: str = "",
    most: int = MAX_STEPS,
) -> str:
    dash = f" stroke-dasharray='{dashes}'" if dashes else ""
    return (
        f"<path d='{_steps(frame, ordered, most)}' fill='none' stroke='{colour}' stroke-width='3'{dash}>"
        f"{tip(words)}</path>"
    )


def _edge(expected: Sequence[float], limits: Sequence[float]) -> list[float]:
    """Return the distribution of a uniformly worse sample whose median is the limit, ascending.

    The limit is the centre's median times a factor, so the distribution is the centre times that factor;
    without a centre, or if its median is zero, it is the limit alone.
    """
    middle = statistics.median(expected) if expected else 0.0
    if not limits or middle <= 0:
        return list(limits)
    return [value * limits[0] / middle for value in expected]


def _inner(ordered: Sequence[float]) -> list[float]:
    """Return the bounds of the middle 90 % of values, since a long tail need not be shown."""
    last = len(ordered) - 1
    return [ordered[round(0.05 * last)], ordered[round(0.95 * last)]] if ordered else []


def _fan_frame(
    good: Sequence[Sequence[float]], bad: Mapping[str, Sequence[float]], further: Sequence[float]
) -> Frame:
    """Return a frame of all good units, widened by excluded ones to three times its width on either side."""
    ends = [value for sample in good for value in (sample[0], sample[-1])]
    out = [value for sample in bad.values() for value in (sample[0], sample[-1])]
    low, high = span([*ends, *further] or out)
    low, high = min([low, *further]), max([high, *further])
    width = high - low
    return Frame(
        low=max(min([low, *out]), low - 3 * width, 0.0 if low >= 0 else low),
        high=min(max([high, *out]), high + 3 * width),
    )


def _limit(frame: Frame, better: str, limit: float, unit: str, edge: Sequence[float]) -> str:
    """Return the shade over the worse side of `edge`."""
    path = _steps(frame, edge, MAX_EDGE_STEPS)
    # Where higher is better, worse is to the left of and above the curve.
    path += f"V{frame.top}H{frame.left}Z" if better == "higher" else f"V{frame.floor}Z"
    return (
        f"<path d='{path}' fill='{SHADE}'>{tip('limit: median ' + value_text(limit, unit))}</path>"
    )


def _legend(
    frame: Frame, sample: Sequence[float], expected: Sequence[float], limits: Sequence[float]
) -> str:
    entries = [
        (bool(sample), "measured", f"<path d='M0 0h30' stroke='{SAMPLE}' stroke-width='3'/>"),
        (
            bool(expected),
            "expected",
            f"<path d='M0 0h30' stroke='{CENTRE}' stroke-width='3' stroke-dasharray='9 6'/>",
        ),
        (bool(limits), "beyond the limit", f"<path d='M0 -8h30v16h-30z' fill='{SHADE}'/>"),
    ]
    shown = [(words, mark) for wanted, words, mark in entries if wanted]
    return "".join(
        f"<g transform='translate({frame.left + 140 * number} 14)'>{mark}{text(38, 6, words)}</g>"
        for number, (words, mark) in enumerate(shown)
    )


def _outside(frame: Frame, sample: Sequence[float], unit: str) -> str:
    """Return how many values are beyond the edges, on which they are drawn."""
    below = [value for value in sample if value < frame.low]
    above = [value for value in sample if value > frame.high]
    notes = []
    if below:
        notes.append(f"{len(below)} further down to {value_text(below[0], unit)}")
    if above:
        notes.append(f"{len(above)} further up to {value_text(above[-1], unit)}")
    return text(frame.left, frame.height - 6, "; ".join(notes)) if notes else ""


def _lines(frame: Frame, samples: Sequence[Sequence[float]]) -> str:
    return "".join(
        f"<path d='{_steps(frame, sample, 24)}' fill='none' stroke='{SAMPLE}' stroke-width='1.5' "
        "stroke-opacity='.5'/>"
        for sample in samples
    )


def _points(frame: Frame, samples: Sequence[Sequence[float]]) -> str:
    """Return units with a single value as points, in order: a curve of one value is only a step."""
    ordered = sorted(sample[0] for sample in samples)
    kept = _thinned(ordered, MAX_POINTS)
    rise = 0.5 / max(1, len(ordered))  # to the middle of a unit's share
    return _dots([(frame.x(value), frame.y(share - rise)) for value, share in kept], SAMPLE, "")


def _dots(places: Sequence[tuple[int, int]], colour: str, words: str) -> str:
    path = "".join(f"M{x} {y}h0" for x, y in places)  # a line of no length with round ends
    return (
        f"<path d='{path}' stroke='{colour}' stroke-width='9' stroke-linecap='round' "
        f"stroke-opacity='.7'>{tip(words) if words else ''}</path>"
    )


def _bands(frame: Frame, samples: Sequence[Sequence[float]]) -> str:
    """Return the bands of all units and of the middle 80 % of units, quantile by quantile."""
    shares = [(i + 0.5) / 40 for i in range(40)]
    columns = [sorted(s[int(share * len(s))] for s in samples) for share in shares]
    last = len(samples) - 1
    parts = []
    for cut, opacity in ((0.0, ".16"), (0.1, ".34")):
        first, final = round(cut * last), round((1 - cut) * last)
        up = [f"{frame.x(c[first])} {frame.y(s)}" for c, s in zip(columns, shares, strict=True)]
        down = [f"{frame.x(c[final])} {frame.y(s)}" for c, s in zip(columns, shares, strict=True)]
        words = f"{percent(1 - 2 * cut)} of {len(samples)} units"
        parts.append(
            f"<path d='M{'L'.join([*up, *reversed(down)])}Z' fill='{SAMPLE}' "
            f"fill-opacity='{opacity}'>{tip(words)}</path>"
        )
    return "".join(parts)
