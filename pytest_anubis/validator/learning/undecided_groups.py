"""Slower groups of units that may be as healthy as the others: MARGINAL until somebody decides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from pytest_anubis.core.baseline import SecondPopulation
from pytest_anubis.core.metric import value_text
from pytest_anubis.validator.learning.doubtful_values import finding_on
from pytest_anubis.validator.learning.healthy_tails import MOST_SICK
from pytest_anubis.validator.learning.learned_criterion import LearnedCriterion
from pytest_anubis.validator.learning.subpopulations import COHERENT, separating_attribute
from pytest_anubis.validator.limits.healthy_null import FLOOR, healthy_null, step_of
from pytest_anubis.validator.similarity.usable_rows import (
    BoolArray,
    distinct_codes,
    mostly_in,
    name_codes,
)

UNDECIDED = "undecided-population"
"""Kind of the finding on a group that nobody has decided about."""
FAR = 6.0
"""How many scales from its middle a slower group reaches: of normal noise one unit in a billion lies beyond,
of noise with tails like Student's t with three degrees one in two hundred."""
DEAD = 0.9
"""Loss beyond which a group is dead and no other way to be healthy: a benchmark of caches is four times as
fast on one half of a fleet of cloud machines as on the other half."""
NEAR = 0.1
"""How far from its middle a slower group is followed, and a margin, twice the practical threshold: scattered
sick units are no group."""


def with_undecided(learned: LearnedCriterion, slower: BoolArray) -> LearnedCriterion:
    """Let a slower group be MARGINAL until somebody decides: down to its own limit no loss is costly.

    Args:
        learned: A learned criterion.
        slower: Shape (n,), units of the group; at least one.
    """
    criterion = learned.criterion
    if criterion is None:
        return learned
    typical_loss = float(np.median(learned.losses[slower]))
    if typical_loss > DEAD:
        return learned
    slower = _group(learned, slower, typical_loss)
    near = slower & (np.abs(learned.losses - typical_loss) <= NEAR)
    signed = np.where(slower, learned.losses - learned.gains, np.nan)
    medians = learned.rows.medians()
    # Values in steps, such as a count: the next step beyond the group's is still the group's.
    null = healthy_null(signed, slower, max(FLOOR, step_of(medians) / 2))
    reach = min(null.middle + FAR * null.scale, float(learned.losses[near].max()) + NEAR)
    threshold = min(max(1 - reach, 1 - DEAD), criterion.alpha)
    members, whole, _ = _counted(learned, slower)
    second = SecondPopulation(
        typical=float(np.median(medians[slower])),
        members=members,
        whole=whole,
        threshold=threshold,
        alpha=criterion.alpha,
    )
    undecided = replace(
        learned, criterion=replace(criterion, alpha=threshold, second=second), undecided=slower
    )
    return explained(undecided, None)


def _group(learned: LearnedCriterion, slower: BoolArray, typical: float) -> BoolArray:
    """Return the group with all units nearer to it than to the faster ones, of nodes where most are.

    Of a group just beyond alpha many units lie within it. As healthy ones they would make a tail that reaches
    to their group, and who decides for the faster one would reject nobody. And of the faster ones a few lie
    beyond alpha by their noise: nearer to their own, on nodes of faster ones, they are none of the group.
    """
    names, codes = name_codes(learned.population.nodes)
    usable = learned.rows.usable
    nearer = usable & (2 * np.nan_to_num(learned.losses) > typical)
    mine = np.bincount(codes[nearer], minlength=len(names))
    mostly = 2 * mine > np.bincount(codes[usable], minlength=len(names))
    return np.asarray((slower & (nearer | mostly[codes])) | (nearer & mostly[codes]))


def explained(
    learned: LearnedCriterion, attributes: Mapping[str, Mapping[str, str]] | None
) -> LearnedCriterion:
    """Say of an undecided group, if there is one, who it is and what tells it from the others.

    Args:
        learned: A learned criterion.
        attributes: Node -> attributes, see `separating_attribute`.
    """
    criterion, slower = learned.criterion, learned.undecided
    if criterion is None or criterion.second is None or slower is None:
        return learned
    population, metric = learned.population, learned.population.metric
    separates = separating_attribute(population, slower, learned.rows.usable & ~slower, attributes)
    members, whole, what = _counted(learned, slower)
    text = (
        f"{members} of {whole} {what} have {value_text(criterion.second.typical)} where "
        f"the faster ones have {value_text(criterion.typical, metric.unit)}; nobody knows which is "
        "right, so the slower ones are MARGINAL until somebody decides (anubis baseline populations)"
        + (f"; {separates}" if separates else "")
    )
    finding = finding_on(population, UNDECIDED, text)
    return replace(
        learned,
        criterion=replace(criterion, second=replace(criterion.second, separates=separates)),
        findings=(*(f for f in learned.findings if f.kind != UNDECIDED), finding),
    )


def _counted(learned: LearnedCriterion, slower: BoolArray) -> tuple[int, int, str]:
    """Return how many nodes, or devices where most of these nodes have faster ones too, of how many.

    A node counts if most of its devices are meant.
    """
    usable = learned.rows.usable
    _, codes = name_codes(learned.population.nodes)
    nodes, everyone = distinct_codes(codes[slower]), distinct_codes(codes[usable])
    if len(everyone) == 1:
        return int(slower.sum()), int(usable.sum()), "units"
    mixed = np.isin(nodes, distinct_codes(codes[usable & ~slower]))
    if mixed.mean() > COHERENT:
        return int(slower.sum()), int(usable.sum()), "devices"
    return len(mostly_in(codes, slower, usable)), len(everyone), "nodes"


def decide_clusters(results: Sequence[LearnedCriterion]) -> list[LearnedCriterion]:
    """Take slower groups for sick ones as long as they can be: not more than a third of all nodes together.

    One batch of nodes with one fault is a group, and is rejected. Where groups of different nodes, metric by
    metric, would together reject more than a third of the fleet, the metrics have two populations, and none
    of these groups is rejected until somebody decides.
    """
    slower = [_slower(item) for item in results]
    names = {
        item.population.nodes[row]
        for item, mask in zip(results, slower, strict=True)
        if mask is not None
        for row in np.flatnonzero(mask).tolist()
    }
    everyone = {name for item in results for name in set(item.population.nodes)}
    if len(names) <= MOST_SICK * len(everyone):
        return list(results)
    return [
        item if mask is None else with_undecided(item, mask & item.flagged)
        for item, mask in zip(results, slower, strict=True)
    ]


def _slower(item: LearnedCriterion) -> BoolArray | None:
    if item.criterion is None or item.undecided is not None:
        return None
    better = item.population.metric.better
    for cluster in item.clusters:
        if cluster.side != better and (cluster.members & item.flagged).any():
            return cluster.members
    return None
