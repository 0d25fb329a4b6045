"""Find subpopulations: coherent groups of units that differ from the majority.

Learning reports them. If one has nearly half of the nodes, the faster group becomes the centre
(`criterion_learning`). Slower groups are sick, unless `undecided_groups` leaves that to an operator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from pytest_anubis.core.baseline import SEPARATES, Finding
from pytest_anubis.core.metric import value_text
from pytest_anubis.core.sample import FloatArray, Population
from pytest_anubis.validator.learning.doubtful_values import finding_on
from pytest_anubis.validator.similarity.centre import MIN_UNITS, median_centre
from pytest_anubis.validator.similarity.usable_rows import (
    BoolArray,
    UsableRows,
    distinct_codes,
    mostly_in,
    name_codes,
)

PAIR = 2
"""Fewest nodes of a faster group: noise slows nodes down, so two that are equally fast are no accident."""
SHARE = 0.1
"""Share of the nodes above which a group is reported; fewer are defects, which learning leaves out."""
COHERENT = 0.5
"""Smallest share of the units on one side of the majority that must be like each other: others are scattered
defects. If more than this share of a group's nodes have devices outside it, devices are counted."""
VALLEY = 0.5
"""Largest ratio of the units half-way between two populations to those at the middle of the smaller one. In
one broad population more units lie between than at the ends."""
MIN_SEPARATED = 0.95
"""Share of a subpopulation that must have an attribute's value, and of the majority that must not: one unit
in twenty may be mislabelled or sick."""


class GroupSize(NamedTuple):
    """The size of a group of units, of which nodes, units or devices are counted."""

    nodes: int  # its nodes: those with most of their devices in it; if mixed, with any
    all_nodes: int
    nodes_with_any: int  # nodes with any device in it
    units: int
    all_units: int
    mixed: bool  # whether most of its nodes also have other devices

    @property
    def counted(self) -> tuple[int, int, str]:
        """Its size, that of all, and what is counted.

        If one device in twenty is slow, a third of the nodes of eight devices have a slow one. So devices are
        counted in a mixed group, and units if there is only one node.
        """
        if self.all_nodes > 1 and not self.mixed:
            return self.nodes, self.all_nodes, "nodes"
        return self.units, self.all_units, "devices" if self.mixed else "units"


def group_size(nodes: Sequence[str], members: BoolArray, usable: BoolArray) -> GroupSize:
    """Return the size of a group (n,) of the usable units (n,) on these nodes (n,)."""
    _, codes = name_codes(nodes)
    everyone, own = distinct_codes(codes[usable]), distinct_codes(codes[members])
    others = distinct_codes(codes[usable & ~members])
    mixed = len(everyone) > 1 and bool(np.isin(own, others).sum() > COHERENT * len(own))
    return GroupSize(
        nodes=len(own) if mixed else len(mostly_in(codes, members, usable)),
        all_nodes=len(everyone),
        nodes_with_any=len(own),
        units=int(members.sum()),
        all_units=int(usable.sum()),
        mixed=mixed,
    )


class Cluster(NamedTuple):
    """A coherent group of units that differs from the majority."""

    side: str  # ``lower`` or ``higher`` than the majority
    members: BoolArray  # shape (n,), which units belong to it
    close: BoolArray  # shape (n,), those of them that are close to its own centre
    typical: float  # median of its own centre
    size: GroupSize

    @property
    def share(self) -> float:
        """Its share of the nodes, devices or units, whichever are counted."""
        count, whole, _ = self.size.counted
        return count / whole


def clusters(
    rows: UsableRows, alpha: float, sides: tuple[FloatArray, FloatArray]
) -> tuple[Cluster, ...]:
    """Return the clusters of more than a tenth of the nodes, at most one on each side of the majority.

    Candidates are units whose two-sided similarity to the centre is below alpha; `sides` are the distances of
    all units below and above the centre.
    """
    below, above = sides
    with np.errstate(invalid="ignore"):
        aside = rows.usable & (below + above > 1 - alpha)
    if int(aside.sum()) <= SHARE * int(rows.usable.sum()):
        return ()
    lower = np.nan_to_num(below) >= np.nan_to_num(above)
    found = []
    for side, mask in (("lower", aside & lower), ("higher", aside & ~lower)):
        cluster = _cluster(rows, mask, side, alpha)
        if cluster is not None:
            found.append(cluster)
    return tuple(found)


def _cluster(rows: UsableRows, mask: BoolArray, side: str, alpha: float) -> Cluster | None:
    size = group_size(rows.population.nodes, mask, rows.usable)
    one_node = size.all_nodes == 1
    count, whole = (
        (size.units, size.all_units) if one_node else (size.nodes_with_any, size.all_nodes)
    )
    fewest = PAIR if side == rows.population.metric.better else MIN_UNITS
    if count < fewest or count <= SHARE * whole:
        return None
    own = median_centre(rows.quantile_columns(rows.grid()), mask)
    below, above = rows.sides(own)
    close = mask & (np.nan_to_num(below + above, nan=1.0) <= 1 - alpha)
    if close.sum() < max(fewest, COHERENT * mask.sum()):
        return None  # scattered defects are no population
    if not _valley(rows, mask, float(np.median(own))):
        return None  # the end of one broad population is no second one
    return Cluster(side, mask, close, float(np.median(own)), size)


def _valley(rows: UsableRows, mask: BoolArray, typical: float) -> bool:
    """Return whether fewer units lie half-way to the majority than at the cluster's own middle."""
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
    rows: UsableRows,
    cluster: Cluster,
    middle: float,
    attributes: Mapping[str, Mapping[str, str]] | None = None,
) -> Finding:
    """Report a cluster, and the attribute that separates it; `middle` is typical of the majority."""
    population, size = rows.population, cluster.size
    count, whole, counted = size.counted
    who = f"{count} of {whole} {counted}"
    if size.mixed:
        who += f", on {size.nodes} of {size.all_nodes} nodes,"
    text = (
        f"{who} form a second population, {cluster.side} than "
        f"the majority (typical {value_text(cluster.typical)} against "
        f"{value_text(middle, population.metric.unit)})"
    )
    separating = separating_attribute(
        population, cluster.close, rows.usable & ~cluster.members, attributes
    )
    text += f"; {separating}" if separating else "; no known attribute of the nodes separates them"
    return finding_on(population, "second-population", text)


def separating_attribute(
    population: Population,
    members: BoolArray,
    majority: BoolArray,
    attributes: Mapping[str, Mapping[str, str]] | None,
) -> str:
    """Name the attribute (or device name) that separates a subpopulation from the majority, or return ''.

    A value separates if at least 95 % of the members have it and at most 5 % of the majority; the cleanest
    one wins, ties go to the first name in order.
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
            if value and score >= MIN_SEPARATED and score > best:
                best = score
                others = sorted({column[row] for row in theirs if column[row] != value})[:3]
                text = f"{key}{SEPARATES}: {value} against {', '.join(others) or 'none'}"
    return text
