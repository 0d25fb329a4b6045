"""Learned thresholds of a fleet: one common rarity that keeps a whole healthy node at the stated rate.

Per metric the rarity of a distance is -log of its chance under a tail fitted to that metric's own healthy
distances. A node's score is the largest rarity over all its metrics and devices, each distance taken to a
centre learned without that node; the threshold is an order statistic of the scores of the healthy nodes (the
max-T idea of Westfall and Young 1993, on tail probabilities, so that a metric with a heavy tail costs the
quiet ones no power).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from pytest_anubis.core.baseline import Criterion
from pytest_anubis.core.sample import FloatArray, IntArray
from pytest_anubis.validator.learning.criterion_learning import LearnedCriterion, detectable
from pytest_anubis.validator.learning.leave_one_out import leave_one_out_losses
from pytest_anubis.validator.learning.tails import (
    LOOSEST,
    Tail,
    fit_tail,
    in_healthy_tail,
    nodes_needed,
    tolerance_limit,
)
from pytest_anubis.validator.similarity.usable_rows import distinct_codes, name_codes

REACH = 1.5
"""With too few nodes for the rate a threshold is never extrapolated further than this times the largest
healthy distance seen: a tail of few values may bend upwards by chance, and a fault must not hide behind
it."""
CONFIDENCE = 0.9
"""Confidence of the stated rate where nobody states another: 230 nodes; 95 % would take 299."""


class HealthyTail(NamedTuple):
    """What one metric's healthy distances say about thresholds.

    Attributes:
        tail: The fitted tail.
        largest: Largest healthy distance.
        nodes: Codes of nodes, and for each its largest rarity.
        rarity: See `nodes`.
        strays: Names of the nodes that are no part of the healthy fleet for this metric.
    """

    tail: Tail
    largest: float
    nodes: tuple[str, ...]
    rarity: FloatArray
    strays: frozenset[str]


class FleetThresholds(NamedTuple):
    """Thresholds of all criteria of a baseline.

    Attributes:
        criteria: With threshold, spread and detectable loss filled in, in the given order.
        factor: The common rarity; None when there are too few nodes.
        confidence: Confidence of the rate; None when it holds on average only.
        nodes: How many healthy nodes the common rarity rests on.
        note: What to tell people, empty if all is well.
    """

    criteria: tuple[Criterion, ...]
    factor: float | None
    confidence: float | None
    nodes: int
    note: str


def healthy_tail(learned: LearnedCriterion, *, criteria: int = 1) -> HealthyTail | None:
    """Fit one metric's healthy tail; None if it has no criterion or is exact.

    Units beyond alpha are not simply left out: a noisy metric has healthy units there, and cutting them
    off would promise a spread that the fleet does not have. They are taken back as long as the tail of
    those inside makes such a distance likely; what a gap separates stays out.

    Args:
        learned: One learned criterion.
        criteria: How many criteria are learned together.
    """
    criterion = learned.criterion
    if criterion is None or criterion.metric.better == "equal":
        return None
    usable = learned.rows.usable
    inside = in_healthy_tail(learned.losses, usable & ~learned.flagged, usable, criteria)
    distances = leave_one_out_losses(learned, inside)
    tail = fit_tail(distances[inside])
    names, codes = name_codes(learned.population.nodes)
    codes_inside = codes[inside]
    worst = np.zeros(len(names))
    np.maximum.at(worst, codes_inside, tail.rarity_without(distances[inside], codes_inside))
    strays = distinct_codes(codes[usable & ~inside])
    present = np.setdiff1d(distinct_codes(codes_inside), strays)
    return HealthyTail(
        tail=tail,
        largest=float(distances[inside].max()),
        nodes=tuple(names[code] for code in present.tolist()),
        rarity=worst[present],
        strays=frozenset(names[code] for code in strays.tolist()),
    )


def fleet_thresholds(
    learned: Sequence[LearnedCriterion],
    tails: Sequence[HealthyTail | None],
    *,
    error_rate: float | None,
    confidence: float | None = CONFIDENCE,
) -> FleetThresholds:
    """Set every criterion's learned threshold so that a healthy node is rejected at the stated rate.

    With too few nodes for the rate, alpha alone decides, except for a metric whose healthy samples do not
    even agree to alpha with each other: there the extrapolated tail widens the spread, so that noise
    rejects nobody.

    Args:
        learned: The criteria of one class, all of which have one.
        tails: Their healthy tails, None for exact metrics.
        error_rate: Chance that a healthy node is beyond any threshold; None for alpha alone.
        confidence: Wanted confidence of that rate; less is used, and said, if nodes do not suffice.
    """
    criteria = [item.criterion for item in learned if item.criterion is not None]
    if error_rate is None:
        return FleetThresholds(tuple(criteria), None, None, 0, "")
    units = [len(item.losses) / max(item.criterion.nodes, 1) for item in learned if item.criterion]
    far = math.log(max(sum(units), 1.0) / error_rate)
    scores = _scores([tail for tail in tails if tail is not None])
    reached = confidence
    factor = tolerance_limit(scores, error_rate, confidence)
    if factor is None:
        reached = None
        factor = tolerance_limit(scores, error_rate, None)
        # The largest of about a hundred scores is a matter of luck, and the tails were fitted to the same
        # few nodes: not below what the tails promise for that many independent comparisons (Bonferroni).
        factor = None if factor is None else max(factor, far)
    note = _note(len(scores), error_rate, confidence, reached, factor is None)
    out = []
    for criterion, tail in zip(criteria, tails, strict=True):
        out.append(_with_threshold(criterion, tail, factor, far, note))
    return FleetThresholds(tuple(out), factor, reached, len(scores), note)


def _with_threshold(
    criterion: Criterion, tail: HealthyTail | None, factor: float | None, far: float, note: str
) -> Criterion:
    if tail is None:
        return criterion
    rarity = factor if factor is not None else far
    distance = tail.tail.distance(rarity)
    if factor is None:
        distance = min(distance, REACH * tail.largest)
        noisy = criterion.repeatability is not None and criterion.repeatability < criterion.alpha
        if not noisy or distance <= 1 - criterion.alpha:
            return replace(criterion, spread=tail.tail.scale, notes=(*criterion.notes, note))
    threshold = 1 - min(distance, LOOSEST)
    return replace(
        criterion,
        learned=threshold,
        spread=tail.tail.scale,
        detectable=detectable(criterion.metric.better, criterion.alpha, threshold),
        notes=(*criterion.notes, note) if note else criterion.notes,
    )


def _scores(tails: Sequence[HealthyTail]) -> FloatArray:
    """Return the largest rarity of every node that is a stray nowhere."""
    strays = frozenset().union(*(tail.strays for tail in tails)) if tails else frozenset()
    names = sorted({name for tail in tails for name in tail.nodes} - strays)
    place = {name: index for index, name in enumerate(names)}
    score = np.zeros(len(names))
    known: dict[tuple[str, ...], tuple[IntArray, IntArray]] = {}
    for tail in tails:
        if tail.nodes not in known:
            rows = [i for i, name in enumerate(tail.nodes) if name in place]
            target = [place[tail.nodes[i]] for i in rows]
            known[tail.nodes] = (np.array(rows, dtype=np.int64), np.array(target, dtype=np.int64))
        rows_here, target_here = known[tail.nodes]
        score[target_here] = np.maximum(score[target_here], tail.rarity[rows_here])
    return score


def _note(nodes: int, rate: float, wanted: float | None, reached: float | None, none: bool) -> str:
    average = nodes_needed(rate, None)
    if none:
        text = f"{nodes} healthy nodes are too few for a learned limit at {rate:.3g}: {average} are needed"
        if wanted is not None:
            text += f" ({nodes_needed(rate, wanted)} for {wanted:.0%} confidence)"
        return text + "; alpha decides"
    if wanted is not None and reached is None:
        needed = nodes_needed(rate, wanted)
        return f"the rate of {rate:.3g} holds on average; {needed} nodes would give {wanted:.0%} confidence"
    return ""
