"""Figures about validation itself: nodes accepted a day, defects found an hour, share of false alarms.

`validator.surveying.validation_survey` computes them, for the fleet's page and `anubis fleet status`.
`spent_of` reads from a run how long its benchmarks took.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pytest_anubis.core.field_types import Count, NotNegative, compact
from pytest_anubis.core.run import RunRecord


@compact("defaults")
@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkSpent:
    """What one run spent on one benchmark."""

    benchmark: str  # benchmark id, or the id of a test that is no benchmark
    component: str = ""  # the part of the node that it measures; may be empty
    seconds: NotNegative = 0.0  # duration of all its tests, retries and failed ones included
    tests: Count = 0  # how many there were
    compared: Count = 0  # how many of them declared a cost and measured something
    planned: NotNegative = 0.0  # seconds that those compared declared
    took: NotNegative = 0.0  # seconds that those compared took


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationRun:
    """One run as the figures need it."""

    node: str
    run: str
    began: float | None = None  # seconds since 1970; None if unknown
    decision: str = ""  # what it says of its node (`said_of_node`); empty if nothing
    # What it spent on each benchmark; None if unknown, as of tables without durations
    spent: tuple[BenchmarkSpent, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationRuns:
    """The runs for the figures, and how many older ones were not read."""

    runs: tuple[ValidationRun, ...] = ()
    older: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FalseAlarms:
    """What became of rejections, of which each is one defect."""

    open: int  # how many are not closed yet
    confirmed: int  # how many were confirmed
    false_alarms: int  # how many were closed as false alarms
    share: float | None  # share of false alarms among those closed; None if none was closed
    interval: tuple[float, float] | None  # its 95 % interval; None if none was closed


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkFigures:
    """What one benchmark costs and finds."""

    benchmark: str  # its id
    runs: int  # how many runs spent time on it
    hours: float  # hours of its tests
    # Confirmed defects that it exposed in a run whose times are known; None if unknown
    confirmed: int | None
    # Confirmed defects per hour of its tests; None if unknown, or from too few hours
    per_hour: float | None
    compared: int  # how many runs compare planned with taken time
    ratio: float | None  # median over these runs of taken by planned time; None without any
    # Mean over these runs of the planned time's absolute error, in seconds a test; None without any
    error: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationFigures:
    """How well validation itself works, and how many cases each figure rests on."""

    runs: int  # how many runs were read, the latest ones
    older: int  # how many older ones were not: no figure rests on them
    timed: int  # how many of them say what they spent
    days: int  # days (UTC) from the first to the last run with a decision and a date
    accepted: int  # nodes accepted on these days; one that is accepted on two days counts twice
    accepted_per_day: float | None  # their mean; None without a day
    # What became of rejections; None if no history of defects was read
    rejections: FalseAlarms | None
    # The most confirmed defects first, then the most hours
    benchmarks: tuple[BenchmarkFigures, ...]


def spent_of(record: RunRecord) -> tuple[BenchmarkSpent, ...] | None:
    """Return what a run spent on each benchmark; None if it does not say."""
    if not (record.planned or record.results or record.took):
        return None
    costs = {plan.test: plan.cost for plan in record.planned}
    found: dict[str, list[BenchmarkSpent]] = {}
    for result in record.results:
        if result.seconds <= 0:
            continue
        name = result.benchmark or result.test
        cost = costs.get(result.test) if result.metrics else None
        known = BenchmarkSpent(
            benchmark=name,
            component=result.component,
            seconds=result.seconds,
            tests=1,
            compared=1 if cost else 0,
            planned=cost or 0.0,
            took=result.seconds if cost else 0.0,
        )
        found.setdefault(name, []).append(known)
    for name, seconds in record.took.items():
        found.setdefault(name, []).append(BenchmarkSpent(benchmark=name, seconds=seconds, tests=1))
    return tuple(together(several) for several in found.values())


def together(several: Iterable[BenchmarkSpent]) -> BenchmarkSpent:
    """Return the sums of what was spent on one benchmark."""
    every = list(several)
    return BenchmarkSpent(
        benchmark=every[0].benchmark,
        component=next((one.component for one in reversed(every) if one.component), ""),
        seconds=sum(one.seconds for one in every),
        tests=sum(one.tests for one in every),
        compared=sum(one.compared for one in every),
        planned=sum(one.planned for one in every),
        took=sum(one.took for one in every),
    )
