"""Slower groups of units that may be healthy: they are MARGINAL until an operator decides about them.

`anubis baseline populations` takes the decision. `decide_clusters` treats small groups as sick instead.
`baseline_learning`, `criterion_learning` and `learning_findings` use it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from pytest_anubis.core.baseline import SecondPopulation
from pytest_anubis.core.metric import value_text
from pytest_anubis.validator.learning.doubtful_values import finding_on
from pytest_anubis.validator.learning.healthy_tails import MAX_SICK_NODES
from pytest_anubis.validator.learning.learned_criterion import LearnedCriterion
from pytest_anubis.validator.learning.subpopulations import group_size, separating_attribute
from pytest_anubis.validator.limits.healthy_null import FLOOR, healthy_null, step_of
from pytest_anubis.validator.similarity.usable_rows import BoolArray, name_codes

UNDECIDED = "undecided-population"
"""Kind of the finding on an undecided group."""
FAR = 6.0
"""How many scales from its middle a slower group reaches. One unit in a billion lies beyond with normal
noise, one in two hundred with the tails of Student's t with three degrees."""
DEAD = 0.9
"""Loss beyond which a group is dead. Healthy groups can differ much: a benchmark of caches is four times as
fast on one half of a fleet of cloud machines as on the other."""
NEAR = 0.1
"""Distance from its middle up to which units belong to a slower group, and the margin beyond them: twice the
practical threshold. Scattered sick units are no group."""


def with_undecided(learned: LearnedCriterion, slower: BoolArray) -> LearnedCriterion:
    """Make a slower group (n,) of at least one unit MARGINAL: losses down to its own limit reject no unit."""
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
    # If values come in steps, such as counts, the next step still belongs to the group.
    null = healthy_null(signed, slower, max(FLOOR, step_of(medians) / 2))
    reach = min(null.middle + FAR * null.scale, float(learned.losses[near].max()) + NEAR)
    threshold = min(max(1 - reach, 1 - DEAD), criterion.alpha)
    members, whole, _ = group_size(learned.population.nodes, slower, learned.rows.usable).counted
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
    """Return the group with all units that are nearer to it, on nodes where most units are.

    If a group is just beyond alpha, many of its units are within alpha. As healthy units they would widen the
    tail up to their group, and a decision for the faster group would reject no unit. A few faster units are
    beyond alpha by noise: they are nearer to their own group, on nodes of that group, and do not belong here.
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
    """Add the finding on an undecided group, if there is one, with the attribute that separates it."""
    criterion, slower = learned.criterion, learned.undecided
    if criterion is None or criterion.second is None or slower is None:
        return learned
    population, metric = learned.population, learned.population.metric
    separates = separating_attribute(population, slower, learned.rows.usable & ~slower, attributes)
    members, whole, what = group_size(population.nodes, slower, learned.rows.usable).counted
    text = (
        f"{members} of {whole} {what} have {value_text(criterion.second.typical)} where "
        f"the faster ones have {value_text(criterion.typical, metric.unit)}; the slower "
        "ones are MARGINAL until an operator decides whether they are normal (anubis baseline populations)"
        + (f"; {separates}" if separates else "")
    )
    finding = finding_on(population, UNDECIDED, text)
    return replace(
        learned,
        criterion=replace(criterion, second=replace(criterion.second, separates=separates)),
        findings=(*(f for f in learned.findings if f.kind != UNDECIDED), finding),
    )


def decide_clusters(results: Sequence[LearnedCriterion]) -> list[LearnedCriterion]:
    """Treat slower groups as sick, unless together they are more than a third of all nodes.

    A batch of nodes with one fault is a group, and is rejected. If the groups of all metrics would together
    reject more than a third of the fleet, the metrics have two populations, and none of the groups is
    rejected until an operator decides.
    """
    slower = [_slower(item) for item in results]
    names = {
        item.population.nodes[row]
        for item, mask in zip(results, slower, strict=True)
        if mask is not None
        for row in np.flatnonzero(mask).tolist()
    }
    everyone = {name for item in results for name in set(item.population.nodes)}
    if len(names) <= MAX_SICK_NODES * len(everyone):
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
