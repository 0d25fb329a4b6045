"""The section of the fleet's page on how well validation works: false alarms, defects found per hour."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

from pytest_anubis.core.metric import percent_text
from pytest_anubis.core.validation_figures import (
    BenchmarkFigures,
    FalseAlarms,
    ValidationFigures,
)
from pytest_anubis.report.pages.metric_sections import short
from pytest_anubis.report.pages.rendering import block
from pytest_anubis.report.text.numbers import count_text, duration_text, value_text

UNKNOWN = "-"
"""Cell of a figure that rests on no case."""


def validation_section(figures: ValidationFigures | None) -> dict[str, Any] | None:
    """Return the section's sentences and its table, which may be empty; None if no figures were computed."""
    if figures is None:
        return None
    every = count_text(figures.runs + figures.older, "run")
    latest = [f"From the latest {figures.runs} of {every}."] if figures.older else []
    lines = [*latest, _accepted(figures), _rejections(figures.rejections), _timed(figures)]
    return {"lines": lines, "table": _table(figures.benchmarks)}


def _accepted(figures: ValidationFigures) -> str:
    if figures.accepted_per_day is None:
        return "Nodes accepted a day: unknown, since no run with a date decided anything."
    days = count_text(figures.days, "day")
    return (
        f"Nodes accepted a day: {value_text(figures.accepted_per_day)} ({figures.accepted} on {days}, from "
        "the first to the last decision)."
    )


def _rejections(found: FalseAlarms | None) -> str:
    if found is None:
        return "False alarms: unknown, since no history says what became of rejections."
    closed = found.confirmed + found.false_alarms
    still = f"{found.open} still open"
    if found.share is None or found.interval is None:
        how = "'anubis history defect close' closes them"
        return f"False alarms: unknown, since no rejection was closed ({still}; {how})."
    low, high = map(percent_text, found.interval)
    return (
        f"False alarms: {found.false_alarms} of {count_text(closed, 'closed rejection')}, "
        f"{percent_text(found.share)} (95 % within {low} to {high}); {still}."
    )


def _timed(figures: ValidationFigures) -> str:
    if not figures.timed:
        return "Times: unknown, since no run says what it spent."
    return f"Times: {figures.timed} of {count_text(figures.runs, 'run')} say what they spent."


def _table(benchmarks: tuple[BenchmarkFigures, ...]) -> Markup:
    if not benchmarks:
        return Markup()
    heads = (
        "benchmark", "runs", "hours of tests", "confirmed defects", "per hour", "runs with a plan",
        "taken / planned", "error of the plan",
    )  # fmt: skip
    rows = [
        (
            short(one.benchmark),
            one.runs,
            (one.hours, value_text(one.hours)),
            UNKNOWN if one.confirmed is None else one.confirmed,
            _number(one.per_hour),
            one.compared,
            _number(one.ratio),
            (-1.0, UNKNOWN) if one.error is None else (one.error, duration_text(one.error)),
        )
        for one in benchmarks
    ]
    return block("sortable", "how validation itself does", heads, rows, numbers=range(1, 8))


def _number(value: float | None) -> tuple[float, str]:
    return (-1.0, UNKNOWN) if value is None else (value, value_text(value))
