"""Find metrics that move together from node to node, and metrics in which all nodes are the same."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pytest_anubis.core.sample import FloatArray

ALIKE = 0.9
"""Rank correlation from which metrics move together: they share four fifths of the variance between nodes."""
MIN_NODES = 20
"""Fewest nodes that are compared. Two independent metrics of as many nodes are that much alike in fewer than
one of ten million cases, and a wide table has a million pairs."""


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
