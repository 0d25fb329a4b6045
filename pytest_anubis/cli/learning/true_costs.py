"""Find benchmarks that take much longer on a hardware class than they declare, for `learn` and `doctor`."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median_low

from pytest_anubis.core.run import RunRecord
from pytest_anubis.report.text.numbers import count_text, duration_text, value_text

MAX_FACTOR = 2.0
"""Largest accepted ratio of measured to declared time. Healthy hardware classes differ by less; beyond it
deadlines, the Selector's choice and predicted durations are wrong."""


def cost_lines(runs: Iterable[RunRecord]) -> list[str]:
    """Return a line for each benchmark that took more than `MAX_FACTOR` times its declared cost, worst first.

    The lower median over the runs of a hardware class and devices counts, so that one disturbed run says
    nothing. A journal has the declared costs for the profile of its run.
    """
    taken: dict[str, list[tuple[float, float, float]]] = {}  # factor, seconds, declared cost
    for run in runs:
        costs = {plan.test: plan.cost for plan in run.planned}
        for result in run.results:
            cost = costs.get(result.test)
            if cost and result.metrics and result.seconds:  # else it has measured nothing
                one = result.seconds / cost, result.seconds, cost
                taken.setdefault(result.benchmark, []).append(one)
    found = [(*median_low(some), name) for name, some in taken.items()]
    return [
        f"cost: {name} is declared to take {duration_text(cost)} (the cost in its mark, for this "
        f"profile) and took {duration_text(seconds)}, {value_text(round(factor, 1))} times as long (median "
        f"of {count_text(len(taken[name]), 'measurement')}): plans and deadlines go by what is declared, so "
        "declare what it takes, or let it do less"
        for factor, seconds, cost, name in sorted(found, reverse=True)
        if factor > MAX_FACTOR
    ]
