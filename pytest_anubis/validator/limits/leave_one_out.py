"""Distances of healthy units to a centre that was learned without their own node."""

from __future__ import annotations

import numpy as np

from pytest_anubis.core.sample import FloatArray, IntArray, Population
from pytest_anubis.validator.similarity.centre import FEWEST
from pytest_anubis.validator.similarity.usable_rows import BoolArray, Rows, name_codes

LARGEST = 1 << 22
"""Beyond this many quantiles of units (16,384 units of 256) one node hardly moves the median, and sorting
them all would cost more memory than learning does."""


def affordable(rows: Rows) -> bool:
    """Say whether a population is small enough for centres without each node."""
    return rows.grid() * rows.total <= LARGEST


def leave_one_out_losses(
    population: Population, rows: Rows, losses: FloatArray, members: BoolArray
) -> FloatArray:
    """Return every usable unit's one-sided loss to the median centre of all other nodes, shape (n,).

    The members are the units whose median the common centre is, and no others: where noise is wider than the
    practical threshold, the median of all healthy units lies elsewhere, and what is judged is not seen.

    The median without a node follows from the sorted columns: taking k of n values away moves its place
    by the number of those removed at or before it. Units are compared on the learning grid. Of very large
    populations, of a medoid and of nodes without a member the loss to the common centre is returned.

    Args:
        population: What was learned from.
        rows: Its usable rows.
        losses: Shape (n,), one-sided losses to the common centre.
        members: Shape (n,), the units whose median the common centre is; none of a medoid.
    """
    out = losses.copy()
    if not affordable(rows):
        return out
    size = rows.grid()
    every = rows.quantile_columns(size)
    columns = every[:, members].astype(np.float64)
    _, codes = name_codes(population.nodes)
    here = codes[members]
    each = np.bincount(here, minlength=int(codes.max()) + 1)
    place = np.cumsum(each > 0) - 1
    owner, counts = place[here], each[each > 0]
    if len(counts) < FEWEST:
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
        population.metric.better,
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
