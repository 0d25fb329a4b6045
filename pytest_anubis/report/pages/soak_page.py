"""Make the page of a soak (``pytest --anubis-duration``): trends, a row per cycle, each metric's medians."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

from markupsafe import Markup

from pytest_anubis.core.measurement import Measurement
from pytest_anubis.core.metric import metric_name
from pytest_anubis.report.pages.metric_sections import short
from pytest_anubis.report.pages.rendering import as_markup, block, render
from pytest_anubis.report.plots.time_strip import series_text, spark
from pytest_anubis.report.text.numbers import count_text, moment_text, value_text

MAX_COURSES = 500
"""Metrics whose course is drawn."""

_WORDS = {0: "ACCEPTED", 1: "REJECTED", 2: "interrupted", 4: "usage error", 20: "UNDECIDED"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cycle:
    """One cycle of a soak."""

    number: int
    run: str
    started: str = ""  # ISO 8601, UTC; empty if its journal could not be read
    exit_code: int = 0
    headline: str = ""
    measurements: tuple[Measurement, ...] = field(default=(), repr=False)
    page: str = ""  # path of its own page relative to this one; empty if none was kept


def soak_page(
    node: str, hardware_class: str, cycles: Sequence[Cycle], trends: Sequence[str], headline: str
) -> str:
    """Return the page; the headline says how many cycles ran and how they ended."""
    return render(
        "soak.html",
        title=f"{node}: soak",
        node=node,
        hardware_class=hardware_class,
        headline=headline,
        trends=trends,
        count=count_text(len(cycles), "cycle"),
        cycles=_cycles(cycles),
        courses=_courses(cycles),
    )


def _cycles(cycles: Sequence[Cycle]) -> Markup:
    rows = [
        (
            str(cycle.number),
            moment_text(cycle.started),
            block("badge", _WORDS.get(cycle.exit_code, f"exit code {cycle.exit_code}")),
            cycle.headline,
            block("link", cycle.run, cycle.page),
        )
        for cycle in cycles
    ]
    return block("table", ("cycle", "begun", "decision", "", "run"), rows, numbers=(0,))


def _courses(cycles: Sequence[Cycle]) -> Markup:
    """Return the medians of every metric over the cycles, with a plot each."""
    series: dict[tuple[str, str, str, str], list[float]] = {}
    for cycle in cycles:
        for one in cycle.measurements:
            if one.values:
                key = (one.benchmark, one.metric.name, one.device, one.metric.unit)
                series.setdefault(key, []).append(statistics.median(one.values))
    rows: list[tuple[str, ...]] = []
    for (benchmark, metric, device, unit), medians in list(series.items())[:MAX_COURSES]:
        name = metric_name(short(benchmark), metric)
        last, plot = value_text(medians[-1], unit), as_markup(spark(medians, label=name))
        rows.append((name, device, last, series_text(medians), plot))
    if len(series) > MAX_COURSES:
        rows.append((f"and {len(series) - MAX_COURSES} more",))
    return block("table", ("metric", "device", "last median", "medians", ""), rows, numbers=(2,))
