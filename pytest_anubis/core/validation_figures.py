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
    """What one run spent on one benchmark.

    Attributes:
        benchmark: Benchmark id, or the id of a test that is no benchmark.
        component: The part of the node that it measures; may be empty.
        seconds: Duration of all its tests, retries and failed ones included.
        tests: How many there were.
        compared: How many of them declared a cost and measured something.
        planned: Seconds that those compared declared.
        took: Seconds that those compared took.
    """

    benchmark: str
    component: str = ""
    seconds: NotNegative = 0.0
    tests: Count = 0
    compared: Count = 0
    planned: NotNegative = 0.0
    took: NotNegative = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationRun:
    """One run as the figures need it.

    Attributes:
        began: Seconds since 1970; None if unknown.
        decision: What it says of its node (`said_of_node`); empty if nothing.
        spent: What it spent on each benchmark; None if unknown, as of tables without durations.
    """

    node: str
    run: str
    began: float | None = None
    decision: str = ""
    spent: tuple[BenchmarkSpent, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationRuns:
    """The runs for the figures, and how many older ones were not read."""

    runs: tuple[ValidationRun, ...] = ()
    older: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FalseAlarms:
    """What became of rejections, of which each is one defect.

    Attributes:
        open: How many are not closed yet.
        confirmed: How many were confirmed.
        false_alarms: How many were closed as false alarms.
        share: Share of false alarms among those closed; None if none was closed.
        interval: Its 95 % interval; None if none was closed.
    """

    open: int
    confirmed: int
    false_alarms: int
    share: float | None
    interval: tuple[float, float] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkFigures:
    """What one benchmark costs and finds.

    Attributes:
        benchmark: Its id.
        runs: How many runs spent time on it.
        hours: Hours of its tests.
        confirmed: Confirmed defects that it exposed in a run whose times are known; None if unknown.
        per_hour: Confirmed defects per hour of its tests; None if unknown, or from too few hours.
        compared: How many runs compare planned with taken time.
        ratio: Median over these runs of taken by planned time; None without any.
        error: Mean over these runs of the planned time's absolute error, in seconds a test; None without any.
    """

    benchmark: str
    runs: int
    hours: float
    confirmed: int | None
    per_hour: float | None
    compared: int
    ratio: float | None
    error: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationFigures:
    """How well validation itself works, and how many cases each figure rests on.

    Attributes:
        runs: How many runs were read, the latest ones.
        older: How many older ones were not: no figure rests on them.
        timed: How many of them say what they spent.
        days: Days (UTC) from the first to the last run with a decision and a date.
        accepted: Nodes accepted on these days; one that is accepted on two days counts twice.
        accepted_per_day: Their mean; None without a day.
        rejections: What became of rejections; None if no history of defects was read.
        benchmarks: The most confirmed defects first, then the most hours.
    """

    runs: int
    older: int
    timed: int
    days: int
    accepted: int
    accepted_per_day: float | None
    rejections: FalseAlarms | None
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
