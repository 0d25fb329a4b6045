"""Exact metrics (``better="equal"``): error counts and the like, where every difference is a failure."""

from __future__ import annotations

import numpy as np

from pytest_anubis.core.sample import Population
from pytest_anubis.validator.similarity.usable_rows import BoolArray, Rows


def learn_constant(population: Population, rows: Rows) -> tuple[float | None, BoolArray]:
    """Return the value that at least half of the units always show, and which units differ from it.

    Args:
        population: Samples of an exact metric.
        rows: Its usable rows.

    Returns:
        The value, None if no value has a majority; and a mask of shape (n,) of the units that showed
        anything else at least once.
    """
    low, high = np.full(rows.total, np.nan), np.full(rows.total, np.nan)
    for block in rows.blocks:
        low[block.index] = block.values[:, 0]
        high[block.index] = block.values[:, -1]
    constant_rows = rows.usable & (low == high)
    values, counts = np.unique(low[constant_rows], return_counts=True)
    if not len(values) or 2 * int(counts.max()) < int(rows.usable.sum()):
        return None, np.zeros(rows.total, dtype=np.bool_)
    constant = float(values[counts.argmax()])
    return constant, rows.usable & ~((low == constant) & (high == constant))
