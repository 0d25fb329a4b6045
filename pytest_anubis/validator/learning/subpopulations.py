"""Subpopulations: a coherent group of units that differs from the majority."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from pytest_anubis.core.baseline import SEPARATES as SEPARATED
from pytest_anubis.core.baseline import Finding
from pytest_anubis.core.metric import value_text
from pytest_anubis.core.sample import FloatArray, Population
from pytest_anubis.validator.learning.doubtful_values import finding_on
from pytest_anubis.validator.similarity.centre import FEWEST, median_centre
from pytest_anubis.validator.similarity.usable_rows import (
    BoolArray,
    Rows,
    distinct_codes,
    mostly_in,
    name_codes,
)

PAIR = 2
"""Nodes that are a group where they are the faster ones: that two are faster alike is no chance."""
SHARE = 0.1
"""Smallest share of the nodes that is worth a finding: less are defects, which the learning leaves out."""
COHERENT = 0.5
"""More than this share of those aside must be alike: scattered defects are no population."""
VALLEY = 0.5
"""Half-way between two populations lie at most this many times as many units as about the smaller one's
middle: of one broad population the ends are thinner than what is between."""
SEPARATES = 0.95
"""Share of a subpopulation that an attribute's value must name, and of the majority that it must not: one in
twenty may be mislabelled or sick."""


class Cluster(NamedTuple):
    """A coherent group of units that differs from the majority."""

    side: str  # ``lower`` or ``higher`` than the majority
    members: BoolArray  # shape (n,), which units belong to it
    close: BoolArray  # shape (n,), those of them that are close to its own centre
    typical: float  # median of its own centre
    size: int  # nodes (of one node: units) it has, by most of their devices unless mixed
    whole: int  # of how many
    mixed: bool  # whether it is some devices of most of its nodes, and not the nodes

    def share(self, usable: BoolArray) -> float:
        """Return which share it has: of the nodes, of the devices where it is some devices of most nodes.

        Of eight devices one in twenty is slow on a third of the nodes.

        Args:
            usable: Shape (n,), all units that were compared.
        """
        if self.mixed:
            return float(self.members.sum()) / float(usable.sum())
        return self.size / self.whole


def clusters(
    population: Population,
    rows: Rows,
    alpha: float,
    sides: tuple[FloatArray, FloatArray],
) -> tuple[Cluster, ...]:
    """Return the clusters of more than a tenth of the nodes next to the majority, at most one on each side.

    Args:
        population: What was learned from.
        rows: Its usable rows.
        alpha: Units less alike than this (two-sided) are aside.
        sides: The units' distances below and above the centre.
    """
    below, above = sides
    with np.errstate(invalid="ignore"):
        aside = rows.usable & (below + above > 1 - alpha)
    if int(aside.sum()) <= SHARE * int(rows.usable.sum()):
        return ()
    lower = np.nan_to_num(below) >= np.nan_to_num(above)
    found = []
    for side, mask in (("lower", aside & lower), ("higher", aside & ~lower)):
        cluster = _cluster(population, rows, mask, side, alpha)
        if cluster is not None:
            found.append(cluster)
    return tuple(found)


def _cluster(
    population: Population, rows: Rows, mask: BoolArray, side: str, alpha: float
) -> Cluster | None:
    _, codes = name_codes(population.nodes)
    everyone = len(distinct_codes(codes[rows.usable]))
    nodes = distinct_codes(codes[mask])
    members = int(mask.sum()) if everyone == 1 else len(nodes)
    whole = int(rows.usable.sum()) if everyone == 1 else everyone
    fewest = PAIR if side == population.metric.better else FEWEST
    if members < fewest or members <= SHARE * whole:
        return None
    own = median_centre(rows.quantile_columns(rows.grid()), mask)
    below, above = rows.sides(own)
    close = mask & (np.nan_to_num(below + above, nan=1.0) <= 1 - alpha)
    if close.sum() < max(fewest, COHERENT * mask.sum()):
        return None  # scattered defects are no population
    if not _valley(rows, mask, float(np.median(own))):
        return None  # the end of one broad population is no second one
    mixed = (
        everyone > 1
        and np.isin(nodes, distinct_codes(codes[rows.usable & ~mask])).mean() > COHERENT
    )
    if everyone > 1 and not mixed:
        members = len(mostly_in(codes, mask, rows.usable))
    return Cluster(side, mask, close, float(np.median(own)), members, whole, bool(mixed))


def _valley(rows: Rows, mask: BoolArray, typical: float) -> bool:
    """Return whether there are fewer units half-way to the majority than about the cluster's own middle."""
    medians = rows.medians()
    rest = medians[rows.usable & ~mask]
    if not len(rest):
        return True
    other = float(np.median(rest))
    width = abs(other - typical) / 3
    between = np.abs(medians - (other + typical) / 2) < width / 2
    about = np.abs(medians - typical) < width / 2
    return int((rows.usable & between).sum()) <= VALLEY * int((mask & about).sum())


def cluster_finding(
    population: Population,
    rows: Rows,
    cluster: Cluster,
    middle: float,
    attributes: Mapping[str, Mapping[str, str]] | None = None,
) -> Finding:
    """Say what a cluster is, and which attribute separates it.

    Args:
        population: What was learned from.
        rows: Its usable rows.
        cluster: One of `clusters`.
        middle: What is typical of the majority.
        attributes: Node -> attributes of its hardware class.
    """
    mask = cluster.members
    _, codes = name_codes(population.nodes)
    one_node = len(distinct_codes(codes[rows.usable])) == 1
    who = f"{cluster.size} of {cluster.whole} {'units' if one_node else 'nodes'}"
    if cluster.mixed:
        who = f"{int(mask.sum())} of {int(rows.usable.sum())} devices, on {who},"
    text = (
        f"{who} form a second population, {cluster.side} than "
        f"the majority (typical {value_text(cluster.typical)} against "
        f"{value_text(middle, population.metric.unit)})"
    )
    separating = separating_attribute(population, cluster.close, rows.usable & ~mask, attributes)
    text += f"; {separating}" if separating else "; no known attribute of the nodes separates them"
    return finding_on(population, "second-population", text)


def separating_attribute(
    population: Population,
    members: BoolArray,
    majority: BoolArray,
    attributes: Mapping[str, Mapping[str, str]] | None,
) -> str:
    """Name the attribute (or device name) whose value tells a subpopulation from the majority, or return ''.

    A value separates when at least 95 % of its members have it and at most 5 % of the
    majority do; the cleanest one wins, ties go to the first name in order.
    """
    ours = np.flatnonzero(members)
    theirs = np.flatnonzero(majority)
    if not len(ours) or not len(theirs):
        return ""
    table: dict[str, list[str]] = {"device": list(population.devices)}
    for key in sorted({k for node in (attributes or {}).values() for k in node}):
        table[key] = [(attributes or {}).get(node, {}).get(key, "") for node in population.nodes]
    best, text = 0.0, ""
    for key, column in table.items():
        for value in sorted({column[row] for row in ours}):
            inside = sum(column[row] == value for row in ours) / len(ours)
            outside = sum(column[row] == value for row in theirs) / len(theirs)
            score = min(inside, 1 - outside)
            if value and score >= SEPARATES and score > best:
                best = score
                others = sorted({column[row] for row in theirs if column[row] != value})[:3]
                text = f"{key}{SEPARATED}: {value} against {', '.join(others) or 'none'}"
    return text
