"""Benchmarks that take much longer on a hardware class than they declare, for `learn` and `doctor`."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median_low

from pytest_anubis.core.run import RunRecord
from pytest_anubis.report.text.numbers import count_text, duration_text, value_text

MAX_FACTOR = 2.0
"""How many times its declared cost a benchmark may take. Times on two healthy classes differ by less, and a
benchmark beyond it spoils every plan (deadlines, the Selector, the duration of the set)."""


def cost_lines(runs: Iterable[RunRecord]) -> list[str]:
    """Return a line for each benchmark that took more than `MAX_FACTOR` times its declared cost, worst first.

    The lower median over runs and devices counts, so that one disturbed run says nothing. A journal has the
    declared costs for the profile of its run.

    Args:
        runs: Runs of one hardware class.
    """
    taken: dict[str, list[float]] = {}
    declared: dict[str, float] = {}
    for run in runs:
        costs = {plan.test: plan.cost for plan in run.planned}
        for result in run.results:
            cost = costs.get(result.test)
            if cost and result.metrics and result.seconds:  # else it has measured nothing
                declared[result.benchmark] = cost
                taken.setdefault(result.benchmark, []).append(result.seconds)
    found = [
        (seconds / declared[name], name, seconds)
        for name, seconds in ((name, median_low(some)) for name, some in taken.items())
        if seconds > MAX_FACTOR * declared[name]
    ]
    return [
        f"cost: {name} is declared to take {duration_text(declared[name])} (the cost in its mark, for this "
        f"profile) and took {duration_text(seconds)}, {value_text(round(factor, 1))} times as long (median "
        f"of {count_text(len(taken[name]), 'measurement')}): plans and deadlines go by what is declared, so "
        "declare what it takes, or let it do less"
        for factor, name, seconds in sorted(found, reverse=True)
    ]
