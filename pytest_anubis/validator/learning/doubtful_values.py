"""Values that are not learned as normal: too good, in another unit, or faults; and which nodes have them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from pytest_anubis.core.baseline import DOUBTFUL, Finding
from pytest_anubis.core.metric import first_of, slip_text, value_text
from pytest_anubis.core.sample import Population, SampleProblem
from pytest_anubis.validator.similarity.usable_rows import Rows

NAMED = 8
"""Nodes that a finding names."""


def without_strange(population: Population, strange: Mapping[int, float]) -> Population:
    """Return a population whose units that are too good, or in another unit, have no part in learning."""
    problems = {
        row: SampleProblem(kind="invalid", text=f"{_as_good(times)}: unit? did the work happen?")
        for row, times in strange.items()
    }
    return replace(population, problems={**population.problems, **problems})


def _as_good(times: float) -> str:
    return f"{value_text(times)} times as good as the others{slip_text(times)}"


def strange_finding(population: Population, strange: Mapping[int, float]) -> Finding:
    """Name the nodes whose values were left out."""
    worst: dict[str, float] = {}
    for row, times in strange.items():
        worst.setdefault(population.nodes[row], times)
    names = [f"{node} is {_as_good(times)}" for node, times in sorted(worst.items())]
    return finding_on(
        population,
        DOUBTFUL,
        f"{first_of(names, NAMED)}; left out: unit? did the work happen?",
    )


def never_normal(rows: Rows, population: Population) -> tuple[list[int], str] | None:
    """Return units that no majority makes normal, and why, if at least half of the units are such.

    They are faults of what counts them and is best low (what has values that are not whole is no count), and
    rates of nothing but 0.
    """
    metric, values = population.metric, population.values
    odd, reason = (
        rows.idle(),
        "nothing but 0 on at least half of the units, so nothing was measured",
    )
    if metric.better == "lower" and metric.counts_faults:
        known = values[np.isfinite(values)]
        whole = not (known % 1).any()
        odd, reason = (
            rows.usable & (rows.medians() > 0) & whole,
            "faults on at least half of the units",
        )
    many = odd.any() and 2 * int(odd.sum()) >= int(rows.usable.sum())
    return (np.flatnonzero(odd).tolist(), reason) if many else None


def finding_on(population: Population, kind: str, text: str) -> Finding:
    """Return a finding on a metric; its text begins with the metric's name."""
    name = population.metric.name
    return Finding(kind=kind, benchmark=population.benchmark, metric=name, text=f"{name}: {text}")
