"""Plots that compare one node's devices, a plot for each metric, for the dossier; they judge nothing."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_anubis.core.verdict import Outcome
from pytest_anubis.report.pages.metric_sections import Case
from pytest_anubis.report.plots.canvas import (
    BAD,
    SAMPLE,
    Frame,
    beyond,
    expected_line,
    finite,
    picture,
    text,
    ticks,
    tip,
)
from pytest_anubis.report.text.node_row import BAD as BAD_OUTCOMES
from pytest_anubis.report.text.numbers import value_text

_NAMED = (*BAD_OUTCOMES, Outcome.INCONCLUSIVE)
MAX_METRICS = 60
"""Metrics drawn, those with a bad device first."""
_TOP, _FLOOR, _HEIGHT = 34, 86, 122


@dataclass(frozen=True, slots=True)
class Device:
    """A mark on the axis: a device, the median of its values, and its outcome, None if not judged."""

    name: str
    value: float
    outcome: Outcome | None = None


def peers_plot(
    devices: Sequence[Device],
    *,
    unit: str,
    better: str,
    label: str,
    expected: float | None = None,
    limit: float | None = None,
) -> str:
    """Return an ``<svg>`` with the devices as marks on one axis; empty when there is nothing to draw.

    Bad devices are diamonds and undecided ones rings, both with their names; the others are dots. A dashed
    line is at the `expected` median; the side that is worse than `limit`, at which the verdict changes, is
    shaded. `label` describes the picture for people who cannot see it.
    """
    drawn = sorted((d for d in devices if finite([d.value])), key=lambda d: d.value)
    if not drawn:
        return ""
    middle = finite([expected])
    limits = finite([limit]) if better != "equal" else []
    edges = [device.value for device in drawn] + middle + limits
    margin = 0.06 * (max(edges) - min(edges)) or 0.05 * abs(max(edges)) or 1.0
    frame = Frame(
        low=max(0.0, min(edges) - margin),
        high=max(edges) + margin,
        height=_HEIGHT,
        left=14,
        top=_TOP,
        bottom=_HEIGHT - _FLOOR,
    )
    parts = [
        beyond(frame, better, one, f"beyond the limit, median {value_text(one, unit)}")
        for one in limits
    ]
    parts += [expected_line(frame, one, unit) for one in middle]
    parts += [_mark(frame, device, unit) for device in drawn]
    parts += [_names(frame, drawn), _axis(frame, unit)]
    return picture(frame.width, _HEIGHT, label, "".join(parts))


def peers_figures(cases: Sequence[Case]) -> list[tuple[str, str]]:
    """Return a title and a picture of every metric that more than one device has.

    Of a device that was measured several times the last case counts.
    """
    by_metric: dict[tuple[str, str], dict[str, Case]] = {}
    for case in cases:
        key = (case.measurement.benchmark, case.measurement.metric.name)
        by_metric.setdefault(key, {})[case.measurement.device] = case
    several = [list(devices.values()) for devices in by_metric.values() if len(devices) > 1]
    several.sort(key=lambda own: min(case.severity for case in own))
    return [_figure(own) for own in several[:MAX_METRICS]]


def _figure(cases: Sequence[Case]) -> tuple[str, str]:
    measurement = cases[0].measurement
    metric = measurement.metric
    devices = [
        Device(
            case.measurement.device,
            statistics.median(values),
            case.verdict.outcome if case.verdict else None,
        )
        for case in cases
        if (values := finite(case.measurement.values))
    ]
    known = next((case.verdict for case in cases if case.verdict and case.verdict.limit), None)
    name = f"{measurement.benchmark.rpartition('/')[2]} · {metric.name}"
    plot = peers_plot(
        devices,
        unit=metric.unit,
        better=metric.better,
        expected=known.expected if known else None,
        limit=known.limit if known else None,
        label=f"{name}: medians of {len(devices)} devices",
    )
    return name, plot


def _mark(frame: Frame, device: Device, unit: str) -> str:
    x, y = frame.x(device.value), (_TOP + _FLOOR) // 2
    word = device.outcome.value if device.outcome else "not judged"
    words = tip(f"{device.name}: {value_text(device.value, unit)}, {word}")
    if device.outcome in BAD_OUTCOMES:
        return f"<path d='M{x} {y - 13}l13 13l-13 13l-13 -13z' fill='{BAD}'>{words}</path>"
    fill = f"fill='{SAMPLE}' fill-opacity='.6'"
    if device.outcome is Outcome.INCONCLUSIVE:
        fill = f"fill='none' stroke='{SAMPLE}' stroke-width='3'"
    return f"<circle cx='{x}' cy='{y}' r='9' {fill}>{words}</circle>"


def _names(frame: Frame, devices: Sequence[Device]) -> str:
    """Write the names of bad and undecided devices above their marks; of two that would overlap the first."""
    parts = []
    free = 0  # where the last name ends
    for device in devices:
        half = 6 * len(device.name)
        x = min(max(frame.x(device.value), half), frame.width - half)
        if device.outcome in _NAMED and x - half >= free:
            parts.append(text(x, 24, device.name, anchor="middle"))
            free = x + half + 8
    return "".join(parts)


def _axis(frame: Frame, unit: str) -> str:
    marks = "".join(f"M{frame.x(value)} {_FLOOR}v6" for value in ticks(frame.low, frame.high))
    room = frame.end - 12 * len(unit)
    numbers = "".join(
        text(frame.x(value), _FLOOR + 26, value_text(value), anchor="middle")
        for value in ticks(frame.low, frame.high)
        if frame.x(value) + 6 * len(value_text(value)) < room
    )
    return (
        f"<path d='M{frame.left} {_FLOOR}H{frame.end}{marks}' stroke='currentColor' "
        f"stroke-opacity='.6' fill='none'/>{numbers}"
        + text(frame.end, _FLOOR + 26, unit, anchor="end", faint=True)
    )
