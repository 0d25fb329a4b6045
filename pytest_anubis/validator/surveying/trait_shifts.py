"""Find traits (batch, rack, driver) and shared parts whose nodes differ from the rest of their class.

So many slow nodes get one cause. `recovered_nodes` finds which of them have caught up since. `fleet_source`,
`metric_drift` and `shared_parts` use it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from pytest_anubis.core.baseline import ERROR_RATE
from pytest_anubis.core.fleet_survey import MIN_NODES, SLOW_PART, ShiftedMetric, TraitShift
from pytest_anubis.core.node_map import SharedPart
from pytest_anubis.core.sample import FloatArray, IntArray
from pytest_anubis.validator.similarity.rank_tests import (
    binomial_tail,
    hypergeometric_tail,
    mean_ranks,
)
from pytest_anubis.validator.similarity.usable_rows import BoolArray
from pytest_anubis.validator.surveying.unit_medians import UnitMedians

MIN_CHANGE = 0.01
"""Smallest relative difference that is reported: a fifth of the loss that matters."""
APART = 0.85
"""Smallest probability that a node of the trait is worse than another node, or better (Mann-Whitney's
U / n1 n2): the group is separate, and no mere tendency of a large fleet."""
MAX_SHIFTS = 12
"""Most shifts of a class; further ones explain little."""
ALIAS = 0.9
"""Share of common nodes, of those that have either trait, from which two traits cannot be distinguished."""
_MAX_VALUES = 400
"""Most values of a trait; a serial number has one for each node and separates nothing."""


@dataclass(slots=True)
class _Groups:
    """Nodes by the traits that they share."""

    names: list[tuple[str, str]]
    members: npt.NDArray[np.bool_]  # shape (groups, nodes)
    values: dict[str, list[str]]  # name of a trait -> its value on each node


def trait_shifts(
    table: UnitMedians,
    traits: Mapping[str, Mapping[str, str]],
    rejected: Collection[str] = (),
    started: Mapping[tuple[str, str], float] = MappingProxyType({}),
) -> list[TraitShift]:
    """Return the traits whose nodes differ from the others, most clearly first.

    The nodes with a value of a trait are compared with the other nodes of the class, metric by metric, by
    ranks (Mann and Whitney 1947); all comparisons share the error rate (Bonferroni). What a trait explains is
    removed before the next search, so that the racks of a slow batch are not named as well. A trait whose
    nodes are only rejected more often (exact results, failed tests) is found too. Of two traits with the same
    nodes the first one is named. The latest run of a node counts, since traits are of today.
    """
    nodes, goodness = table.by_node(started)
    groups = _groups(nodes, traits)
    if not groups.names:
        return []
    bad = np.array([node in rejected for node in nodes])
    goodness = goodness.copy()
    found: list[TraitShift] = []
    taken = np.zeros(len(nodes), dtype=np.bool_)
    while len(found) < MAX_SHIFTS:
        best = _strongest(goodness, groups)
        if best is None:
            break
        group, columns, apart, p_value, ratio = best
        members = groups.members[group]
        metrics = [
            ShiftedMetric(
                benchmark=table.columns[c].benchmark,
                metric=table.columns[c].metric,
                component=table.columns[c].component,
                similarity=float(min(ratio[c], 1 / ratio[c])),
                worse=bool(ratio[c] < 1),
                apart=float(max(apart[c], 1 - apart[c])),
                chance=float(p_value[c]),
            )
            for c in columns
        ]
        metrics.sort(key=lambda one: (one.similarity, one.benchmark, one.metric.name))
        found.append(_shift(table, nodes, groups, group, bad, metrics))
        goodness[np.ix_(members, columns)] = np.nan
        taken |= members
    while len(found) < MAX_SHIFTS:
        most = _most_rejected(bad, groups, ~taken)
        if most is None:
            break
        found.append(_shift(table, nodes, groups, most, bad, []))
        taken |= groups.members[most]
    return found


def part_shifts(
    hardware_class: str,
    parts: Mapping[str, Sequence[SharedPart]],
    rejected: Collection[str] = (),
) -> list[TraitShift]:
    """Return the shared parts that more nodes of a class name than independent faults would, most first.

    If faults were independent, each of a node's m switches (or NUMA nodes) would be hit alike, and the number
    of nodes that name a given one would be binomial with n nodes and 1 / m. P-values are corrected for the m
    parts (Bonferroni).
    """
    found: dict[tuple[str, int], dict[str, dict[str, None]]] = {}
    for node, own in sorted(parts.items()):
        for part in own:
            if part.kind != "all":
                names = found.setdefault((part.kind, max(part.alike, 1)), {})
                names.setdefault(part.called, {})[node] = (
                    None  # once, though two components name it
                )
    bad = parts.keys() & set(rejected)
    shifts = []
    for (_, alike), names in found.items():
        every = sum(map(len, names.values()))
        for name, nodes in names.items():
            if len(nodes) < MIN_NODES:
                continue
            if alike * binomial_tail(len(nodes), every, 1 / alike) >= ERROR_RATE:
                continue
            hit = len(bad & nodes.keys())
            shifts.append(
                TraitShift(
                    hardware_class=hardware_class,
                    trait=SLOW_PART,
                    value=name,
                    nodes=tuple(nodes),
                    others=len(parts) - len(nodes),
                    metrics=(),
                    rejected=hit,
                    rejected_others=len(bad) - hit,
                )
            )
    return sorted(shifts, key=lambda one: -len(one.nodes))


def recovered_nodes(
    table: UnitMedians,
    shift: TraitShift,
    started: Mapping[tuple[str, str], float] = MappingProxyType({}),
) -> frozenset[str]:
    """Return the nodes that made up at least half of what a shift's own nodes lack.

    That holds in all metrics in which these are worse. A node that was slower than its group before may stay
    slower than the others, though what was changed has helped it.
    """
    nodes, goodness = table.by_node(started)
    _, earliest = table.by_node({unit: -time for unit, time in started.items()})
    worse = {(one.benchmark, one.metric.name) for one in shift.metrics if one.worse}
    columns = [
        place
        for place, column in enumerate(table.columns)
        if (column.benchmark, column.metric.name) in worse
    ]
    own = np.isin(nodes, shift.nodes)
    if not columns or not own.any() or own.all():
        return frozenset()
    part = goodness[:, columns]
    theirs, others = np.nanmedian(part[own], axis=0), np.nanmedian(part[~own], axis=0)
    gained = part - earliest[:, columns]
    # False if a metric is missing
    near = ((part >= (theirs + others) / 2) | (gained >= (others - theirs) / 2)).all(axis=1)
    return frozenset(nodes[place] for place in np.flatnonzero(near).tolist())


def _groups(nodes: Sequence[str], traits: Mapping[str, Mapping[str, str]]) -> _Groups:
    """Return the values of traits that enough nodes have, but at most half of them."""
    names = list(dict.fromkeys(name for node in nodes for name in traits.get(node, {})))
    found: list[tuple[str, str]] = []
    members: list[BoolArray] = []
    columns: dict[str, list[str]] = {}
    for name in names:
        columns[name] = [traits.get(node, {}).get(name, "") for node in nodes]
        column = np.array(columns[name])
        values, counts = np.unique(column, return_counts=True)
        if len(values) > _MAX_VALUES:
            continue
        for value, count in zip(values.tolist(), counts.tolist(), strict=True):
            if value and MIN_NODES <= count <= len(nodes) / 2:
                found.append((name, value))
                members.append(column == value)
    return _Groups(
        found, np.array(members, dtype=np.bool_).reshape(len(found), len(nodes)), columns
    )


_Best = tuple[int, list[int], FloatArray, FloatArray, FloatArray]


def _strongest(goodness: FloatArray, groups: _Groups) -> _Best | None:
    """Return the group that differs most clearly; None if none does.

    Goodness has shape (nodes, columns); NaN is ignored. The result is the group, the columns in which it
    differs, and for all columns the probability that a member is worse, the p-value (Bonferroni), and the
    ratio of typical values.
    """
    known = ~np.isnan(goodness)
    ranks = _ranks(goodness)
    inside = groups.members.astype(np.float64) @ known
    outside = known.sum(axis=0)[None, :] - inside
    enough = (inside >= MIN_NODES) & (outside >= MIN_NODES)
    sums = groups.members.astype(np.float64) @ ranks
    pairs = np.where(enough, inside * outside, np.nan)
    better = (sums - inside * (inside + 1) / 2) / pairs  # probability that a member is better
    deviation = np.sqrt((inside + outside + 1) / (12 * pairs))
    erfc = np.vectorize(math.erfc, otypes=[np.float64])
    with np.errstate(invalid="ignore"):
        p_value = erfc(np.abs(better - 0.5) / deviation / math.sqrt(2)) * int(enough.sum())
        clear = enough & (np.maximum(better, 1 - better) >= APART) & (p_value < ERROR_RATE)
    ratios: dict[int, FloatArray] = {}
    scores = []
    for group in np.flatnonzero(clear.any(axis=1)).tolist():
        ratio = ratios[group] = _ratios(goodness, groups.members[group], clear[group])
        clear[group] &= np.minimum(ratio, 1 / ratio) < 1 - MIN_CHANGE
        if clear[group].any():
            # In deviations, since very small chances are all 0.
            strength = np.where(clear[group], np.abs(better[group] - 0.5) / deviation[group], 0.0)
            most = int(strength.argmax())
            # The slower of two halves of a fleet is named.
            scores.append((-round(float(strength[most]), 6), bool(ratio[most] > 1), group))
    if not scores:
        return None
    group = min(scores)[2]
    columns = np.flatnonzero(clear[group]).tolist()
    return group, columns, 1 - better[group], p_value[group], ratios[group]


def _ranks(values: FloatArray) -> FloatArray:
    """Return the rank of every value within its column; ties share their mean rank, NaN has 0."""
    found = np.zeros(values.shape)
    for column in range(values.shape[1]):
        known = np.flatnonzero(~np.isnan(values[:, column]))
        found[known, column] = mean_ranks(values[known, column])
    return found


def _ratios(goodness: FloatArray, members: BoolArray, columns: BoolArray) -> FloatArray:
    """Return the ratio of typical members to typical others in some columns, 1 in the other columns."""
    found = np.ones(len(columns))
    wanted = np.flatnonzero(columns)
    ours = np.nanmedian(goodness[np.ix_(members, wanted)], axis=0)
    found[wanted] = ours / np.nanmedian(goodness[np.ix_(~members, wanted)], axis=0)
    return found


def _most_rejected(bad: BoolArray, groups: _Groups, left: BoolArray) -> int | None:
    """Return the group with the smallest p-value (Fisher) whose nodes are rejected twice as often as all.

    None if none is significant.

    Only the nodes that are left count; otherwise the other nodes of a known group would differ too.
    """
    bad = bad & left
    whole, every = int(left.sum()), int(bad.sum())
    scores = []
    for group, members in enumerate(groups.members & left):
        size, hit = int(members.sum()), int((bad & members).sum())
        if hit < MIN_NODES or hit * whole < 2 * every * size:
            continue
        p_value = hypergeometric_tail(hit, whole, every, size) * len(groups.names)
        if p_value < ERROR_RATE:
            scores.append((p_value, group))
    return min(scores)[1] if scores else None


def _shift(
    table: UnitMedians,
    nodes: Sequence[str],
    groups: _Groups,
    group: int,
    bad: BoolArray,
    metrics: Sequence[ShiftedMetric],
) -> TraitShift:
    members = groups.members[group]
    both: IntArray = (groups.members & members).sum(axis=1)
    either: IntArray = (groups.members | members).sum(axis=1)
    alike = [n for n in np.flatnonzero(both >= ALIAS * either).tolist() if n != group]
    trait, value = groups.names[group]
    others = {groups.values[trait][i] for i in np.flatnonzero(~members).tolist()}
    return TraitShift(
        hardware_class=table.hardware_class,
        trait=trait,
        value=value,
        nodes=tuple(nodes[i] for i in np.flatnonzero(members).tolist()),
        others=int((~members).sum()),
        metrics=tuple(metrics),
        aliases=tuple(" ".join(groups.names[n]) for n in alike),
        rejected=int((bad & members).sum()),
        rejected_others=int((bad & ~members).sum()),
        others_value=others.pop() if len(others) == 1 else "",
    )
