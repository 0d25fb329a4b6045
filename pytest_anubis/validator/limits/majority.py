"""Who agrees with whom: how many units are enough, and whether the healthy ones are most of them."""

from __future__ import annotations

import numpy as np

from pytest_anubis.core.sample import FloatArray, Population
from pytest_anubis.validator.limits.healthy_null import HALF, healthy_null, step_of
from pytest_anubis.validator.similarity.centre import FEWEST
from pytest_anubis.validator.similarity.usable_rows import (
    BoolArray,
    Rows,
    distinct_codes,
    name_codes,
)

MOSTLY, GAP = 0.75, 1.2
"""Without a majority within alpha, units beyond it count as noise if at least this share of the healthy
tail's units is within alpha, and the next one outside is this much further away: a noisy metric, not two
populations. A judgement: of ten strong healthy units three may be noise, and a fifth more is a gap that noise
rarely leaves."""
BROAD, WIDEST = 10, 0.5
"""So many nodes that do not agree within alpha may agree within twice as much, and so on down to this
similarity, where their losses are one broad noise and no steps; of fewer nobody can tell it from parts that
differ."""


def may_be_broad(population: Population, rows: Rows) -> bool:
    """Return whether units that do not agree may be one broad noise: many nodes, and no few steps."""
    several = count_of(population, rows.usable)[0] >= BROAD
    return several and not step_of(rows.medians()[rows.usable])


def count_of(population: Population, members: BoolArray) -> tuple[int, int]:
    """Return how many distinct nodes there are, and how many units count as independent."""
    _, codes = name_codes(population.nodes)
    nodes = len(distinct_codes(codes[members]))
    return nodes, nodes if nodes != 1 else int(members.sum())


def too_few(population: Population, usable: BoolArray) -> str:
    """Return why there are too few units for any criterion, or ''."""
    nodes, count = count_of(population, usable)
    if count >= FEWEST:
        return ""
    what = "usable unit" if nodes <= 1 else "node"
    return f"{count} {what}{'s' if count != 1 else ''}, at least {FEWEST} needed for a criterion"


def no_majority(
    population: Population,
    usable: BoolArray,
    healthy: BoolArray,
    apart: FloatArray,
    losses: FloatArray,
    *,
    broad: bool,
) -> str:
    """Return why the healthy units are no majority, or ''.

    A few units beyond alpha that continue the healthy units' own tail without a gap are noise, not another
    population, so they count for the majority (not for the criterion). Those of a limit that is wider than
    alpha must be most by the null as well: `broad` noise, and no few that are alike.
    """
    several = count_of(population, usable)[0] != 1
    nodes, units = count_of(population, healthy)
    after = (
        nodes if several else units
    )  # one healthy node of many is one unit, whatever its devices
    whole = int(usable.sum())
    most = 2 * int(healthy.sum()) >= whole
    if after >= FEWEST and most and not broad:
        return ""
    if after >= FEWEST:
        signed = np.where(usable, 2 * losses - apart, np.nan)
        own = usable & (healthy_null(signed, healthy).healthy(signed) >= HALF)
        mostly = 2 * int(own.sum()) >= whole and int(healthy.sum()) >= MOSTLY * int(own.sum())
        if mostly and (most or losses[usable & ~own].min(initial=1.0) > GAP * losses[own].max()):
            return ""
    return (
        f"no majority: {int(healthy.sum())} of {whole} units agree within the limit; "
        "learn the parts of the fleet apart, or look for what differs between them"
    )
