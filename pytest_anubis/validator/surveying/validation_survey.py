"""Compute how well validation itself works: accepted nodes a day, share of false alarms, defects per hour.

For `anubis fleet status` and the fleet's pages, from runs and the defects that they found.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import fmean, median

from pytest_anubis.core.history import Defect
from pytest_anubis.core.share_interval import share_interval
from pytest_anubis.core.validation_figures import (
    BenchmarkFigures,
    BenchmarkSpent,
    FalseAlarms,
    ValidationFigures,
    ValidationRun,
)
from pytest_anubis.core.verdict import Decision

_DAY = 86400.0
_HOUR = 3600.0

MIN_HOURS = 0.1
"""Hours of tests below which a benchmark has no rate: one defect in seconds would be thousands an hour."""


def validation_figures(
    runs: Sequence[ValidationRun], defects: Sequence[Defect] | None, older: int = 0
) -> ValidationFigures:
    """Return the figures of the runs that were read; defects that none of them found are left out.

    Without known defects (None) no figure rests on them. `older` counts the runs that were not read.
    """
    dated = [
        (one, int(one.began // _DAY)) for one in runs if one.decision and one.began is not None
    ]
    days = [day for _, day in dated]
    accepted = {(one.node, day) for one, day in dated if one.decision == Decision.ACCEPTED}
    span = max(days) - min(days) + 1 if days else 0
    there = {(one.node, one.run) for one in runs}
    found = None if defects is None else [one for one in defects if _found_by(one, there)]
    return ValidationFigures(
        runs=len(runs),
        older=older,
        timed=sum(one.spent is not None for one in runs),
        days=span,
        accepted=len(accepted),
        accepted_per_day=len(accepted) / span if span else None,
        rejections=None if found is None else _rejections(found),
        benchmarks=_benchmarks(runs, found),
    )


def _found_by(defect: Defect, runs: set[tuple[str, str]]) -> bool:
    return any((defect.node, run) in runs for run in defect.runs)


def _rejections(defects: Sequence[Defect]) -> FalseAlarms:
    states = Counter(one.state for one in defects)
    confirmed, wrong = states["confirmed"], states["false alarm"]
    closed = confirmed + wrong
    return FalseAlarms(
        open=states["open"],
        confirmed=confirmed,
        false_alarms=wrong,
        share=wrong / closed if closed else None,
        interval=share_interval(wrong, closed) if closed else None,
    )


def _benchmarks(
    runs: Sequence[ValidationRun], defects: Sequence[Defect] | None
) -> tuple[BenchmarkFigures, ...]:
    spent: dict[str, list[BenchmarkSpent]] = {}
    for run in runs:
        for one in run.spent or ():
            spent.setdefault(one.benchmark, []).append(one)
    timed = {(one.node, one.run) for one in runs if one.spent is not None}
    exposed = Counter(
        name
        for one in defects or ()
        if one.state == "confirmed" and _found_by(one, timed)
        for name in one.benchmarks
    )
    known = defects is not None
    names = [*spent, *(name for name in exposed if name not in spent)]
    every = [
        _figures(name, spent.get(name, []), exposed[name] if known else None) for name in names
    ]
    return tuple(sorted(every, key=lambda one: (-(one.confirmed or 0), -one.hours, one.benchmark)))


def _figures(name: str, spent: Sequence[BenchmarkSpent], confirmed: int | None) -> BenchmarkFigures:
    hours = sum(one.seconds for one in spent) / _HOUR
    compared = [one for one in spent if one.compared and one.planned > 0]
    errors = [abs(one.took - one.planned) / one.compared for one in compared]
    return BenchmarkFigures(
        benchmark=name,
        runs=len(spent),
        hours=hours,
        confirmed=confirmed,
        per_hour=None if confirmed is None or hours < MIN_HOURS else confirmed / hours,
        compared=len(compared),
        ratio=median(one.took / one.planned for one in compared) if compared else None,
        error=fmean(errors) if errors else None,
    )
