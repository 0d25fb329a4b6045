"""Check learned limits on the fleet that they were learned from, by leaving one node out at a time.

Every node is judged by a centre and tails that were learned without it, so the result applies to the next
nodes. `movement_findings` reports metrics that are correlated from node to node, or never differ.
`baseline_learning` uses it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from pytest_anubis.core.baseline import Criterion, Finding, RejectedBy, SelfCheck, UnlikeNode
from pytest_anubis.core.metric import first_of, metric_name, percent_text
from pytest_anubis.core.sample import FloatArray, Population
from pytest_anubis.core.share_interval import share_interval
from pytest_anubis.validator.learning.healthy_tails import MAX_SICK_NODES, HealthyTail
from pytest_anubis.validator.learning.learned_criterion import LearnedCriterion
from pytest_anubis.validator.limits.healthy_null import FLOOR, HALF
from pytest_anubis.validator.similarity.centre import MIN_UNITS
from pytest_anubis.validator.similarity.usable_rows import BoolArray, name_codes

MAX_METRICS_NAMED = 10
"""Metrics that a baseline names as those that reject most."""
MAX_GROUPS_NAMED = 4
"""Named groups of metrics that move together, and named metrics that never differ: one line of each."""
MANY = 0.1
"""A metric is proposed for exclusion if it alone rejects more than this share of the nodes: no real fault is
so frequent."""


def self_check(
    criteria: Sequence[Criterion],
    learned: Sequence[LearnedCriterion],
    tails: Sequence[HealthyTail | None],
    rejects: float | None,
    rate: float | None,
    every: int,
    sick: Sequence[str],
    failed: Mapping[str, UnlikeNode],
) -> tuple[SelfCheck, tuple[Finding, ...]]:
    """Judge the fleet by limits learned without the node that is judged.

    Args:
        criteria: Criteria with their thresholds.
        learned: What was learned of each.
        tails: Their healthy tails, None for exact metrics.
        rejects: Rarity that rejects; None if alpha alone decides.
        rate: Stated chance that a healthy node is rejected; None for alpha alone.
        every: Number of nodes.
        sick: Nodes that are surely sick, and were left out of the tails.
        failed: Nodes with a failed test (`failed_nodes`). Any limits reject them, so they count as rejected,
            but not against the limits.

    Returns:
        The check and its findings. The rate holds if it fits the healthy nodes, and the limits (those of
        exact metrics too) reject few nodes.
    """
    by_metric: dict[tuple[str, str], set[str]] = {}
    trust = _trust([tail for tail in tails if tail is not None])
    wrong: set[str] = set()  # rejected for what noise does not excuse
    by_decision: set[str] = set()
    for criterion, item, tail in zip(criteria, learned, tails, strict=True):
        if tail is None:
            if criterion.metric.better == "equal":
                found = {
                    item.population.nodes[row] for row in np.flatnonzero(item.flagged).tolist()
                }
                by_metric[criterion.benchmark, criterion.metric.name] = found
                wrong |= found
            continue
        beyond = _rejected(criterion, tail, rejects)
        found = by_metric.setdefault((criterion.benchmark, criterion.metric.name), set())
        found.update(tail.nodes[place] for place in np.flatnonzero(beyond).tolist())
        if sick:
            found.update(_beyond(criterion, item, None).intersection(sick))
        if item.undecided is not None:
            slower = _beyond(criterion, item, item.undecided)
            found.update(slower)
            if criterion.second is not None and criterion.second.decided == "faster":
                by_decision |= slower  # an operator wants it, so the limits are not in doubt
    by_limits = set().union(*by_metric.values()) - by_decision  # failed tests are added below
    wrong |= by_decision
    for name, one in failed.items():
        by_metric.setdefault((one.benchmark, one.metric), set()).add(name)
    wrong |= failed.keys()
    trust = {name: value for name, value in trust.items() if name not in wrong}
    sick = sorted({*sick, *wrong})
    times = Counter(name for found in by_metric.values() for name in found)
    worst = _worst(by_metric, times)
    # Exact sums: the names are in no fixed order.
    healthy = math.fsum(trust.values())
    false = math.fsum(trust.get(name, 0.0) for name in times)
    lower, upper = share_interval(false, healthy)
    unlike = {name for name in times if trust.get(name, 0.0) < HALF} | set(sick)
    check = SelfCheck(
        nodes=every,
        rejected=len(times),
        sick=len(unlike),
        rate=false / healthy if healthy else 0.0,
        upper=upper,
        holds=rate is None or (lower <= rate and len(by_limits) <= MAX_SICK_NODES * every),
        worst=tuple(worst[:MAX_METRICS_NAMED]),
        unlike=_unlike(criteria, learned, {*times, *unlike}, times, failed),
    )
    # A metric that shows a batch of sick nodes is not proposed for exclusion.
    doubted = {key: found.difference(sick) for key, found in by_metric.items()}
    return check, _findings(check, _worst(doubted, times), rate)


def failed_nodes(populations: Sequence[Population]) -> dict[str, UnlikeNode]:
    """Return the nodes with a failed test, each with its first failure."""
    found: dict[str, UnlikeNode] = {}
    for one in populations:
        for row, problem in one.problems.items():
            if problem.kind == "failed":
                unlike = UnlikeNode(
                    node=one.nodes[row],
                    benchmark=one.benchmark,
                    metric=one.metric.name,
                    device=one.devices[row],
                    component=one.component,
                    similarity=0.0,
                    failure=problem.text,
                )
                found.setdefault(unlike.node, unlike)
    return found


def movement_findings(learned: Sequence[LearnedCriterion]) -> tuple[Finding, ...]:
    """Report metrics that move together from node to node, and metrics in which no node differs.

    Exact metrics and pooled nodes are ignored.
    """
    mine = [one for one in learned if _noisy_unit(one)]
    names = [
        metric_name(one.population.benchmark.rpartition("/")[2], one.population.metric.name)
        for one in mine
    ]
    place: dict[str, int] = {}
    for one in mine:
        for node in name_codes(one.population.nodes)[0]:
            place.setdefault(node, len(place))
    values = np.full((len(mine), len(place)), np.nan)
    for number, one in enumerate(mine):
        known, codes = name_codes(one.population.nodes)
        signed, usable = one.losses - one.gains, one.rows.usable
        count = np.bincount(codes[usable], minlength=len(known))
        total = np.bincount(codes[usable], weights=signed[usable], minlength=len(known))
        where = [place[node] for node in known]
        values[number, where] = np.where(count > 0, total / np.maximum(count, 1), np.nan)
    found = joint_movement(values)
    out = []
    if found.groups:
        pairs = [
            f"{names[group[0]]} with {first_of([names[number] for number in group[1:]], 1)}"
            for group in found.groups[:MAX_GROUPS_NAMED]
        ]
        others = len(found.groups) - MAX_GROUPS_NAMED
        more = f"; and {others} more groups" if others > 0 else ""
        text = (
            f"{sum(map(len, found.groups))} of {len(mine)} metrics move together with others from node to "
            f"node ({'; '.join(pairs)}{more}): all {len(mine)} tell as much as {found.distinct} would"
        )
        out.append(Finding(kind="move-together", text=text))
    if found.still:
        still = first_of([names[number] for number in found.still], MAX_GROUPS_NAMED)
        text = f"the same on all nodes, so never informative so far: {still}"
        out.append(Finding(kind="never-differs", text=text))
    return tuple(out)


def _noisy_unit(learned: LearnedCriterion) -> bool:
    criterion = learned.criterion
    return (
        criterion is not None and criterion.scope == "unit" and criterion.metric.better != "equal"
    )


def _trust(tails: Sequence[HealthyTail]) -> dict[str, float]:
    """Return every node's smallest chance to be healthy, by name."""
    place: dict[str, int] = {}
    where: dict[tuple[str, ...], list[int]] = {}
    for tail in tails:
        if tail.nodes not in where:
            where[tail.nodes] = [place.setdefault(name, len(place)) for name in tail.nodes]
    least = np.ones(len(place))
    for tail in tails:
        here = where[tail.nodes]
        least[here] = np.minimum(least[here], tail.trust)
    return dict(zip(place, least.tolist(), strict=True))


def _worst(
    by_metric: Mapping[tuple[str, str], set[str]], times: Mapping[str, int]
) -> list[RejectedBy]:
    rejecting = (
        RejectedBy(
            benchmark=key[0],
            metric=key[1],
            nodes=len(found),
            alone=sum(times[name] == 1 for name in found),
        )
        for key, found in by_metric.items()
        if found
    )
    return sorted(
        rejecting, key=lambda item: (-item.alone, -item.nodes, item.benchmark, item.metric)
    )


def _unlike(
    criteria: Sequence[Criterion],
    learned: Sequence[LearnedCriterion],
    names: Collection[str],
    rejected: Collection[str],
    failed: Mapping[str, UnlikeNode],
) -> tuple[UnlikeNode, ...]:
    """Return nodes with their worst result: a failure, the largest loss beyond a limit, or the rarest."""
    worst: dict[str, tuple[bool, float, int, int]] = {}
    for number, (criterion, item) in enumerate(zip(criteria, learned, strict=True)):
        known, codes = name_codes(item.population.nodes)
        sought = np.array([name in names for name in known], dtype=np.bool_)[codes]
        losses = np.where(sought, np.nan_to_num(item.losses), 0.0)
        if criterion.metric.better == "equal":
            losses = np.where(sought & item.flagged, np.maximum(losses, FLOOR), 0.0)
        allowed = 1 - criterion.rejects_below
        scale = max(criterion.spread, FLOOR)
        for row in np.flatnonzero(losses > 0).tolist():
            loss = float(losses[row])
            beyond = loss > allowed or criterion.metric.better == "equal"
            found = (beyond, loss if beyond else loss / scale, -number, row)
            name = known[codes[row]]
            worst[name] = max(found, worst.get(name, found))
    unlike = list(failed.values())
    for name, (_, _, number, row) in worst.items():
        if name in failed:
            continue
        criterion, item = criteria[-number], learned[-number]
        unlike.append(
            UnlikeNode(
                node=name,
                benchmark=criterion.benchmark,
                metric=criterion.metric.name,
                device=item.population.devices[row] if criterion.scope == "unit" else "",
                component=criterion.component,
                similarity=max(0.0, 1 - float(item.losses[row])),
                unit=criterion.metric.unit,
                better=criterion.metric.better,
                rejected=name in rejected,
            )
        )
    return tuple(sorted(unlike, key=lambda one: (not one.rejected, one.similarity, one.node)))


def _beyond(criterion: Criterion, learned: LearnedCriterion, units: BoolArray | None) -> set[str]:
    """Return the nodes that the criterion rejects by some units, or by any unit if `units` is None."""
    allowed = 1 - criterion.rejects_below
    beyond = np.nan_to_num(learned.losses) > allowed
    if units is not None:
        beyond &= units
    return {learned.population.nodes[row] for row in np.flatnonzero(beyond).tolist()}


def _rejected(criterion: Criterion, tail: HealthyTail, rejects: float | None) -> BoolArray:
    """Return which nodes the criterion rejects if it is learned without them."""
    practical = tail.loss > 1 - criterion.alpha
    if rejects is None or criterion.learned is None or not practical.any():
        return practical
    allowed = float(tail.tail.rarity(np.array([1 - criterion.learned]))[0])
    # Values in steps can make the tail without a unit wider, but the criterion's own limit rejects too.
    fails = (tail.rarity > allowed) | (tail.loss > 1 - criterion.learned)
    return np.asarray(practical & fails)


def _findings(
    check: SelfCheck, worst: Sequence[RejectedBy], rate: float | None
) -> tuple[Finding, ...]:
    found = []
    if rate is not None and not check.holds:
        why = (
            f"{check.rejected} of its own {check.nodes} nodes would be rejected"
            if check.rejected > MAX_SICK_NODES * check.nodes
            else f"{percent_text(check.rate)} of its own healthy nodes would be rejected "
            f"(up to {percent_text(check.upper)})"
        )
        found.append(
            Finding(
                kind="rate-not-held",
                text=f"the stated rate of {rate:.3g} does not hold: {why}, each judged without its own part",
            )
        )
    for item in worst:
        if item.alone > MANY * check.nodes and item.alone >= MIN_UNITS:
            found.append(
                Finding(
                    kind="rejects-many",
                    benchmark=item.benchmark,
                    metric=item.metric,
                    text=(
                        f"{item.metric} alone rejects {item.alone} of {check.nodes} nodes that nothing else "
                        f"rejects; leave it out with --without {item.metric} unless that is a fault of theirs"
                    ),
                )
            )
    return tuple(found)


ALIKE = 0.9
"""Rank correlation from which metrics move together: they share four fifths of the variance between nodes."""
MIN_NODES = 20
"""Fewest nodes that are compared: with so many, two independent metrics are that much alike in fewer than one
of ten million cases, and a wide table has a million pairs."""


class Movement(NamedTuple):
    """How metrics move from node to node; numbers are those of the metrics."""

    groups: tuple[tuple[int, ...], ...]  # each moves with its first metric, the largest group first
    still: tuple[int, ...]  # metrics in which all nodes are the same
    distinct: int  # number of metrics if each group counts once


def joint_movement(values: FloatArray) -> Movement:
    """Group metrics by the rank correlation of their values (metrics, nodes), NaN if a node lacks a metric.

    With too few nodes there are no groups.
    """
    if values.shape[1] < MIN_NODES:
        return Movement((), (), len(values))
    units = np.array([_ranked(row) for row in values])
    still = np.array([len(np.unique(row[~np.isnan(row)])) == 1 for row in values], dtype=np.bool_)
    left, groups, distinct = ~still, [], 0
    for first in range(len(units)):
        if not left[first]:
            continue
        together = left & (units @ units[first] >= ALIKE)
        together[first] = True
        left &= ~together
        distinct += 1
        if together.sum() > 1:
            groups.append(tuple(np.flatnonzero(together).tolist()))
    groups.sort(key=lambda group: (-len(group), group))
    still &= (~np.isnan(values)).sum(axis=1) >= MIN_NODES
    return Movement(tuple(groups), tuple(np.flatnonzero(still).tolist()), distinct)


def _ranked(row: FloatArray) -> FloatArray:
    """Return the ranks as a vector of length 1 around 0; ties have their mean.

    If more than half of the nodes are the same, it is 0: a few sick nodes are no movement.
    """
    out = np.zeros(len(row))
    known = ~np.isnan(row)
    _, which, counts = np.unique(row[known], return_inverse=True, return_counts=True)
    if known.sum() < MIN_NODES or 2 * counts.max() > known.sum():
        return out
    ranks = (np.cumsum(counts) - counts / 2)[which]
    ranks -= ranks.mean()
    out[known] = ranks / np.linalg.norm(ranks)
    return out
