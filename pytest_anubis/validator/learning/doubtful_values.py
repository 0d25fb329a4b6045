"""Keep doubtful values out of learning: too good ones, ones in another unit, faults, and idle rates.

`clearly_slower` names the sick nodes of a population without a majority of healthy ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from pytest_anubis.core.baseline import DOUBTFUL, Finding
from pytest_anubis.core.metric import first_of, slip_text, value_text
from pytest_anubis.core.sample import FloatArray, Population, SampleProblem
from pytest_anubis.validator.similarity.too_good import EVEN
from pytest_anubis.validator.similarity.usable_rows import BoolArray, UsableRows

MAX_NODES_NAMED = 8
"""Nodes in a finding."""
CLEAR = 2.0
"""Times the largest loss of a healthy unit beyond which all flagged units are sick rather than noise."""


def without_strange(population: Population, strange: Mapping[int, float]) -> Population:
    """Return a population whose strange rows are left out of learning; `strange` is from `strange_rows`."""
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
        f"{first_of(names, MAX_NODES_NAMED)}; left out: unit? did the work happen?",
    )


def never_normal(rows: UsableRows) -> tuple[list[int], str] | None:
    """Return units whose values are never normal, and why, if at least half of the units are such.

    Such values are counted faults (whole numbers of a metric that counts faults), and rates of only 0.
    """
    metric, values = rows.population.metric, rows.population.values
    odd = rows.idle()
    reason = "nothing but 0 on at least half of the units, so nothing was measured"
    if metric.better == "lower" and metric.counts_faults:
        whole = not (values[np.isfinite(values)] % 1).any()
        odd = rows.usable & (rows.medians() > 0) & whole
        reason = "faults on at least half of the units"
    many = odd.any() and 2 * int(odd.sum()) >= int(rows.usable.sum())
    return (np.flatnonzero(odd).tolist(), reason) if many else None


def clearly_slower(
    population: Population, losses: FloatArray, flagged: BoolArray, healthy: BoolArray
) -> list[int]:
    """Return the flagged units of a fleet if each loses more than twice as much as any healthy one.

    One sick node among three leaves no majority, so its metric has no criterion that could reject it.
    Where fewer than `EVEN` of the units are healthy, the values scatter, and which are right is unknown.
    """
    several = len(set(population.nodes)) > 1
    agree = int(healthy.sum()) >= EVEN * int((healthy | flagged).sum())
    limit = CLEAR * float(np.max(losses[healthy], initial=0.0))
    clear = several and agree and bool((losses[flagged] > limit).all())
    return np.flatnonzero(flagged).tolist() if clear else []


def finding_on(population: Population, kind: str, text: str) -> Finding:
    """Return a finding on a metric; its text begins with the metric's name."""
    name = population.metric.name
    return Finding(kind=kind, benchmark=population.benchmark, metric=name, text=f"{name}: {text}")
