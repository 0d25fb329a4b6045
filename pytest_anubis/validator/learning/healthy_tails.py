"""Fit the tail of each metric's healthy losses, score every node by it, and find the sick nodes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from typing import NamedTuple

import numpy as np

from pytest_anubis.core.sample import FloatArray
from pytest_anubis.validator.learning.learned_criterion import LearnedCriterion
from pytest_anubis.validator.limits.healthy_null import (
    FLOOR,
    HealthyNull,
    healthy_nulls,
    step_of,
)
from pytest_anubis.validator.limits.leave_one_out import affordable, leave_one_out_losses
from pytest_anubis.validator.limits.power import luck, next_luck
from pytest_anubis.validator.limits.tails import BOUNDED, Tail, fit_tail, prediction_bound
from pytest_anubis.validator.similarity.centre import MIN_UNITS
from pytest_anubis.validator.similarity.usable_rows import (
    BoolArray,
    UsableRows,
    distinct_codes,
    name_codes,
)

MIN_NODES = 5
"""Fewest nodes of a metric with learned limits: of four, two sick ones leave no majority. With five to thirty
nodes of eight devices 1 to 2 % of healthy nodes are rejected (`benchmarks/validator/dirty.py`), while alpha
alone rejects 12 %."""
SURE = 1e-4
"""Chance to be healthy below which a unit makes its node sick for all metrics: such a unit among ten thousand
is no accident."""
MIN_UNITS_SURE = 10
"""Fewest units of a metric that can make a node sick for all metrics. Two of five pooled nodes are on the
good side; if they agreed by chance, a third one counted as sick, in a fifth of small healthy fleets. That
left four nodes and alpha alone, which rejected 60 % of the next healthy nodes."""
MAX_SICK_NODES = 0.35
"""Largest share of the nodes that can be sick: beyond a third, sick and healthy nodes cannot be
distinguished, and the metric is more likely misunderstood."""
AT_ONCE = 64
"""Metrics whose units' chances are in memory at a time; it changes no result."""


class HealthyTail(NamedTuple):
    """The tail of one metric's healthy losses, and the scores of its nodes; arrays are over ``nodes``.

    `beyond` takes the tail for at least exponential, so that light tails leave no error rate to heavy ones.
    """

    tail: Tail  # the fitted tail
    lucky: float  # how much better than typical one healthy unit in twenty is
    beyond: float  # chance to be beyond alpha, of a tail that is exponential at least
    each: float  # units of a node
    nodes: tuple[str, ...]  # names of the nodes
    rarity: FloatArray  # each node's largest rarity, by the tail without its own units
    costly: FloatArray  # the same of units beyond the practical threshold, or 0
    loss: FloatArray  # each node's largest loss
    trust: FloatArray  # smallest chance of its units to be healthy
    deviation: float  # standard deviation of the healthy units' signed losses
    units: float  # number of healthy units
    null: HealthyNull  # distribution of its healthy losses

    def reach(self, rarity: float) -> float:
        """Return the loss of a rarity by the tail, bounded by the spread if it rests on few units."""
        far = self.tail.distance(rarity)
        if self.units > BOUNDED:
            return far
        return min(far, prediction_bound(self.deviation, self.units, rarity))


def healthy_tails(
    learned: Sequence[LearnedCriterion],
    without: frozenset[str] = frozenset(),
    executor: Executor | None = None,
) -> list[HealthyTail | None]:
    """Fit every metric's healthy tail; None for one that has no criterion or is exact.

    Every unit has the weight of its chance to be healthy (`healthy_null`): a hard cut would remove the
    healthy extremes together with the sick units. Nodes in `without` are ignored, since another metric shows
    that they are sick. An executor reads the values in parallel.
    """
    usable = [_usable(item, without) for item in learned]
    pairs = [(i, rows) for i, rows in zip(learned, usable, strict=True) if rows is not None]
    nulls = healthy_nulls((*_signed(*pair), _floor(pair[0].rows)) for pair in pairs)
    tails: list[HealthyTail | None] = []
    for start in range(0, len(pairs), AT_ONCE):
        part = slice(start, start + AT_ONCE)
        known = [
            (*pair, null, null.healthy(_signed(*pair)[0]))
            for pair, null in zip(pairs[part], nulls[part], strict=True)
        ]
        asked = [item for item, *_ in known]
        tails += map(_of_usable, known, _leave_one_out(asked, executor))
    each = iter(tails)
    return [None if rows is None else next(each) for rows in usable]


def _leave_one_out(
    asked: Sequence[LearnedCriterion], executor: Executor | None
) -> Iterator[FloatArray]:
    """Yield every metric's losses to centres that were learned without the unit's own node."""
    if executor is None:
        yield from map(_without_its_node, asked)
        return
    # Another process cannot use our storage.
    sent = [one.with_values(one.population, None) for one in asked if affordable(one.rows)]
    done = executor.map(_without_its_node, sent)
    for item in asked:
        yield next(done) if affordable(item.rows) else item.losses


def _without_its_node(item: LearnedCriterion) -> FloatArray:
    losses = leave_one_out_losses(item.rows, item.losses, item.centred)
    if item.rows.storage is not None:
        item.rows.storage.release()
    return losses


def _usable(learned: LearnedCriterion, without: frozenset[str]) -> BoolArray | None:
    """Return which units are used; None if there is nothing to fit."""
    criterion = learned.criterion
    if criterion is None or criterion.metric.better == "equal":
        return None
    names, codes = name_codes(learned.population.nodes)
    usable = learned.rows.usable
    if learned.undecided is not None:
        usable = usable & ~learned.undecided
    if without:
        usable = usable & ~np.array([name in without for name in names], dtype=np.bool_)[codes]
    return None if int(usable.sum()) < MIN_UNITS else usable


def _signed(learned: LearnedCriterion, usable: BoolArray) -> tuple[FloatArray, BoolArray]:
    """Return the signed losses to which the null of a metric is fitted, and their bulk."""
    return np.where(usable, learned.losses - learned.gains, np.nan), ~learned.flagged


def _of_usable(
    known: tuple[LearnedCriterion, BoolArray, HealthyNull, FloatArray], alone: FloatArray
) -> HealthyTail | None:
    learned, usable, null, healthy = known
    criterion = learned.criterion
    if criterion is None:
        return None
    names, codes = name_codes(learned.population.nodes)
    signed = _signed(learned, usable)[0]
    losses = alone[usable]
    weight, prior, here = healthy[usable], 1 / null.degrees, codes[usable]
    tail = fit_tail(losses, weight, prior, null.normal)
    rare = tail.rarity_without(losses, here, weight, prior)
    practical = 1 - criterion.alpha
    rarity, costly, loss = (np.zeros(len(names)) for _ in range(3))
    trust = np.ones(len(names))
    np.maximum.at(rarity, here, rare)
    np.maximum.at(costly, here, np.where(losses > practical, rare, 0.0))
    np.maximum.at(loss, here, losses)
    np.minimum.at(trust, here, weight)
    present = distinct_codes(here)
    own, units = signed[usable] - null.middle, float(weight.sum())
    deviation = max(math.sqrt(float(weight @ own**2) / max(units - 1, 1.0)), FLOOR)
    return HealthyTail(
        tail=tail,
        lucky=max(luck(signed, healthy), next_luck(deviation, len(present))),
        beyond=math.exp(-float(tail.at_least_exponential().rarity(np.array([practical]))[0])),
        each=len(here) / len(present),
        nodes=tuple(names[code] for code in present.tolist()),
        rarity=rarity[present],
        costly=costly[present],
        loss=loss[present],
        trust=trust[present],
        deviation=deviation,
        units=units,
        null=null._replace(doubt=1 / math.sqrt(max(len(present) / 2, 1.0))),
    )


def of_enough_nodes(tails: Sequence[HealthyTail | None]) -> list[HealthyTail | None]:
    """Return the tails of enough nodes for a limit, and None for the others, where alpha decides."""
    return [tail if tail is not None and len(tail.nodes) >= MIN_NODES else None for tail in tails]


def _floor(rows: UsableRows) -> float:
    """Return the least scale of a null; of single values, half of their relative step at least."""
    if rows.sizes != (1,):
        return FLOOR
    return max(FLOOR, step_of(rows.blocks[0].values[:, 0].astype(np.float64)) / 2)


def sick_nodes(tails: Sequence[HealthyTail | None]) -> frozenset[str]:
    """Return the nodes that are surely sick by any metric.

    If more than a third were, the metrics are misunderstood, and the result is empty.
    """
    noisy = [tail for tail in tails if tail is not None]
    everyone = {name for tail in noisy for name in tail.nodes}
    sick = {
        tail.nodes[place]
        for tail in noisy
        if len(tail.nodes) * tail.each >= MIN_UNITS_SURE
        for place in np.flatnonzero(tail.trust < SURE).tolist()
    }
    return frozenset(sick) if len(sick) <= MAX_SICK_NODES * len(everyone) else frozenset()
