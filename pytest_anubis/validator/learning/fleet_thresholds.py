"""Learn the thresholds of a fleet, so that a whole healthy node is rejected at the stated rate.

The rarity of a loss is -log of its chance under the tail of the metric's healthy losses. A node's score is
the largest rarity over all its metrics and devices, each loss compared with a centre and a tail learned
without that node (the max-T idea of Westfall and Young 1993, on tail probabilities, so that a metric with a
heavy tail costs quiet metrics no power). There are two limits of rarity. A loss within the practical
threshold is MARGINAL beyond the higher one; a larger loss rejects beyond the lower one. Metrics whose noise
stays within that threshold use none of the error rate. `baseline_learning` uses it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from pytest_anubis.core.baseline import Criterion
from pytest_anubis.core.metric import percent_text
from pytest_anubis.core.sample import FloatArray, IntArray
from pytest_anubis.validator.learning.healthy_tails import (
    MIN_NODES,
    HealthyTail,
    of_enough_nodes,
)
from pytest_anubis.validator.learning.learned_criterion import LearnedCriterion
from pytest_anubis.validator.limits.power import detectable
from pytest_anubis.validator.limits.tails import nodes_needed, robust_limit

LOOK = 0.5
"""Chance to be healthy below which a unit is MARGINAL."""


class NodeScores(NamedTuple):
    """The scores of every node over all metrics; arrays are over ``nodes``."""

    nodes: tuple[str, ...]  # names, sorted
    rarity: FloatArray  # largest rarity
    costly: FloatArray  # largest rarity among the units beyond the practical threshold
    trust: FloatArray  # smallest chance of its units to be healthy


class FleetThresholds(NamedTuple):
    """Thresholds of all criteria of a baseline."""

    criteria: tuple[Criterion, ...]  # with threshold, spread and detectable loss, as given
    factor: float | None  # the rarity that rejects; None if there are too few nodes
    note: str  # a finding for people, or empty


def fleet_thresholds(
    learned: Sequence[LearnedCriterion],
    tails: Sequence[HealthyTail | None],
    *,
    error_rate: float | None,
) -> FleetThresholds:
    """Set every criterion's learned threshold so that a healthy node is rejected at the stated rate.

    The limits of rarity follow from the tails and the number of comparisons. With enough nodes (a hundred for
    1 %) the scores of the healthy nodes can raise them. Scores never lower a limit: they depend on the tails
    themselves, and noise that the tails misjudge would reject all nodes. All learned metrics have a
    criterion; exact ones have no tail. Without an error rate alpha alone decides.
    """
    criteria = [item.criterion for item in learned if item.criterion is not None]
    every, tails = tails, of_enough_nodes(tails)
    noisy = [tail for tail in tails if tail is not None]
    scores = node_scores([tail for tail in every if tail is not None])
    if error_rate is None or not scores.nodes:
        return FleetThresholds(tuple(map(_with_power, criteria, every)), None, "")
    if not noisy:
        few = "1 node is" if len(scores.nodes) == 1 else f"{len(scores.nodes)} nodes are"
        note = f"{few} too few for learned limits: {MIN_NODES} are needed; alpha decides"
        return FleetThresholds(tuple(map(_with_power, criteria, every)), None, note)
    scores = node_scores(noisy)
    rarest = math.log(max(sum(tail.each for tail in noisy), 1.0) / error_rate)
    seen = robust_limit(scores.rarity, scores.trust, error_rate)
    unusual = rarest if seen is None else max(rarest, seen)
    budget = _budget(noisy, error_rate)
    seen = robust_limit(scores.costly, scores.trust, error_rate)
    rejects = min(budget if seen is None else max(budget, seen), unusual)
    out = tuple(
        _with_threshold(criterion, tail, unusual, rejects)
        if tail is not None
        else _with_power(criterion, any_tail)
        for criterion, tail, any_tail in zip(criteria, tails, every, strict=True)
    )
    needed = nodes_needed(error_rate)
    healthy = float(scores.trust.sum())
    note = ""
    if healthy < needed:
        most = min(_if_heavier(out, tails), 1.0)
        doubt = f" and may be up to {percent_text(most)}" if most > error_rate else ""
        note = (
            f"the share of healthy nodes that these limits reject, {percent_text(error_rate)}, is an "
            f"estimate from {healthy:.0f} of them{doubt}; {needed} or more would show it"
        )
    return FleetThresholds(out, rejects, note)


def _budget(tails: Sequence[HealthyTail], rate: float) -> float:
    """Return the rarity at which all metrics together reject a healthy node at the stated rate."""
    beyond = np.array([tail.beyond for tail in tails])
    each = np.array([tail.each for tail in tails])
    low, high = 0.0, max(math.log(each.sum() / rate), 0.0)
    for _ in range(50):  # halves the interval each time: to the last digit
        middle = (low + high) / 2
        if float(each @ np.minimum(beyond, math.exp(-middle))) > rate:
            low = middle
        else:
            high = middle
    return high


def _if_heavier(criteria: Sequence[Criterion], tails: Sequence[HealthyTail | None]) -> float:
    """Return the share of healthy nodes that is rejected if every tail is as heavy as its data allow.

    All tails are heavier at once, since a few dozen nodes may have missed rare noise that all metrics share.
    """
    chance = 0.0
    for criterion, tail in zip(criteria, tails, strict=True):
        if tail is not None:
            chance += tail.each * tail.tail.chance_if_heavier(1 - criterion.rejects_below)
    return chance


def _with_threshold(
    criterion: Criterion, tail: HealthyTail, unusual: float, rejects: float
) -> Criterion:
    practical = 1 - criterion.alpha
    loss = min(tail.reach(unusual), max(tail.reach(rejects), practical), 1.0)
    suspect = max(tail.null.clear_of(LOOK), practical)
    look = 1 - suspect if suspect < loss else None
    found = replace(criterion, learned=1 - loss, look=look, spread=tail.tail.scale)
    return _with_power(found, tail)


def _with_power(criterion: Criterion, tail: HealthyTail | None) -> Criterion:
    """State the smallest loss that a criterion finds."""
    if tail is None:
        return criterion
    least = detectable(criterion.metric.better, criterion.rejects_below, tail.lucky)
    return replace(criterion, detectable=least)


def node_scores(tails: Sequence[HealthyTail]) -> NodeScores:
    """Return the scores of every node over all metrics."""
    names = sorted({name for tail in tails for name in tail.nodes})
    place = {name: index for index, name in enumerate(names)}
    rarity, costly, trust = np.zeros(len(names)), np.zeros(len(names)), np.ones(len(names))
    known: dict[tuple[str, ...], IntArray] = {}
    for tail in tails:
        if tail.nodes not in known:
            known[tail.nodes] = np.array([place[name] for name in tail.nodes], dtype=np.int64)
        where = known[tail.nodes]
        rarity[where] = np.maximum(rarity[where], tail.rarity)
        costly[where] = np.maximum(costly[where], tail.costly)
        trust[where] = np.minimum(trust[where], tail.trust)
    return NodeScores(tuple(names), rarity, costly, trust)
