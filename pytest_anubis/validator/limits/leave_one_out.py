"""Compute the losses of units to a centre learned without their own node, as the next node will be judged.

`healthy_tails` uses it.
"""

from __future__ import annotations

import numpy as np

from pytest_anubis.core.sample import FloatArray, IntArray
from pytest_anubis.validator.similarity.centre import MIN_UNITS
from pytest_anubis.validator.similarity.usable_rows import BoolArray, UsableRows, name_codes

MAX_QUANTILES = 1 << 22
"""Beyond this many quantiles (16,384 units of 256) one node hardly moves the median, and sorting them all
would take more memory than learning does."""


def affordable(rows: UsableRows) -> bool:
    """Return whether a population is small enough to compute a centre without each node."""
    return rows.grid() * rows.total <= MAX_QUANTILES


def leave_one_out_losses(rows: UsableRows, losses: FloatArray, members: BoolArray) -> FloatArray:
    """Return every usable unit's one-sided loss to the median centre of all other nodes, shape (n,).

    The members (n,) are exactly the units whose median the common centre is: if noise is wider than the
    practical threshold, the median of all healthy units would be another one.

    The median without a node follows from the sorted columns: removing k of n values moves its place by the
    number of values removed at or before it. Units are compared on the learning grid. Very large populations,
    medoids and nodes without a member keep the loss to the common centre.
    """
    out = losses.copy()
    if not affordable(rows):
        return out
    size = rows.grid()
    every = rows.quantile_columns(size)
    columns = every[:, members].astype(np.float64)
    _, codes = name_codes(rows.population.nodes)
    here = codes[members]
    each = np.bincount(here, minlength=int(codes.max()) + 1)
    place = np.cumsum(each > 0) - 1
    owner, counts = place[here], each[each > 0]
    if len(counts) < MIN_UNITS:
        return out
    centres = np.empty((size, len(counts)))
    order = np.argsort(columns, axis=1, kind="stable")
    ascending = np.take_along_axis(columns, order, axis=1)
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.broadcast_to(np.arange(order.shape[1]), order.shape), axis=1)
    by_node = np.argsort(owner, kind="stable")
    starts = np.concatenate([[0], np.cumsum(counts)])
    for removed in np.unique(counts):
        nodes = np.flatnonzero(counts == removed)
        cells = starts[nodes][:, None] + np.arange(removed)
        gone = np.sort(rank[:, by_node[cells]], axis=2)
        centres[:, nodes] = _median_without(ascending, gone)
    known = rows.usable & (each > 0)[codes]
    out[known] = _losses(
        every[:, known].astype(np.float64),
        centres[:, place[codes[known]]],
        rows.population.metric.better,
    )
    return out


def _median_without(ascending: FloatArray, gone: IntArray) -> FloatArray:
    """Return the medians (g, nodes) of the sorted columns (g, n) without the ranks (g, nodes, k)."""
    left = ascending.shape[1] - gone.shape[2]
    ends = []
    for target in ((left - 1) // 2, left // 2):
        place = np.full(gone.shape[:2], target, dtype=np.int64)
        for k in range(gone.shape[2]):
            place += gone[:, :, k] <= place
        ends.append(np.take_along_axis(ascending, place, axis=1))
    return np.asarray((ends[0] + ends[1]) / 2)


def _losses(columns: FloatArray, centres: FloatArray, better: str) -> FloatArray:
    gap = centres - columns if better == "higher" else columns - centres
    apart = np.maximum(gap, 0).mean(axis=0)
    union = np.maximum(columns, centres).mean(axis=0)
    share: FloatArray = np.zeros_like(apart)
    np.divide(apart, union, out=share, where=union > 0)
    return share
