"""The Lagrangian bound of a window: at given prices, what no choice of a node can exceed.

Each node's problem at prices, coverage less price, is an uncapacitated facility location problem whose
clients are patterns. Its dual is an upper bound for all multipliers ``0 <= m_p <= w_p`` and ``s >= 0``:

    sum_p (w_p - m_p) + s * limit + sum_b max(0, sum_{p hit by b} m_p - price_b - s * seconds_b)

The multipliers start from a dual ascent (Erlenkotter 1978). Subgradient steps of Polyak's length (1969),
aimed at the value of the choice that was found, then improve them. The bounds of all nodes and the worth of
the resources limit every plan (`window_solution`), so a plan can state its gap.
"""

from __future__ import annotations

import numpy as np

from pytest_anubis.selector.planning.fleet_coverage import Bools, Floats
from pytest_anubis.selector.planning.window_problem import NodeGroup

MAX_STEPS = 200
"""Subgradient steps; a node takes part until its gap is closed."""
GAP = 5e-4
"""Share of a node's value at which its gap counts as closed; far within the 2 % wanted of a plan."""
BLOCK = 4096
"""Nodes handled at a time, to bound memory: arrays of a few hundred patterns each."""
_TINY = 1e-9


def node_bounds(group: NodeGroup, prices: Floats, chosen: Bools) -> Floats:
    """Return what no choice of each node can be worth, without its pinned benchmarks, shape (n,).

    `prices`, shape (b,), include the worth of time; `chosen`, shape (n, b), are the choices that were found.
    """
    found = group.value(chosen) - chosen @ prices
    parts = [
        _block_bounds(group, prices, found, slice(start, start + BLOCK))
        for start in range(0, len(group.names), BLOCK)
    ]
    return np.concatenate(parts) if parts else np.zeros(0)


def _block_bounds(group: NodeGroup, prices: Floats, found: Floats, rows: slice) -> Floats:
    weights, limit, aim = group.weights[rows], group.limit[rows], np.maximum(found[rows], 0.0)
    time_limited = float(group.seconds.sum()) > float(limit.min(initial=np.inf))
    multipliers = _dual_ascent(weights, group.hits, prices)
    time_prices = np.zeros(len(weights))
    best = _dual_value(group, weights, multipliers, prices, time_prices, limit)[0]
    # No node is worth more than all its patterns exposed for free.
    best = np.minimum(best, weights.sum(axis=1))
    active = np.flatnonzero(best - aim > GAP * aim + _TINY)
    m, s = multipliers[active], time_prices[active]
    for _ in range(MAX_STEPS):
        if not len(active):
            break
        value, on = _dual_value(group, weights[active], m, prices, s, limit[active])
        best[active] = np.minimum(best[active], value)
        slope = on @ group.hits.T - (m < weights[active])
        slope[(m <= 0) & (slope > 0)] = 0.0  # the multiplier is at its lower limit
        time_slope = (limit[active] - on @ group.seconds) if time_limited else np.zeros(len(active))
        time_slope[(s <= 0) & (time_slope > 0)] = 0.0
        # A price of time applies to as many seconds as the window has: scale it to the other multipliers.
        length = limit[active].mean() + _TINY
        square = (slope**2).sum(axis=1) + (time_slope / length) ** 2
        step = (value - aim[active]) / np.maximum(square, _TINY)
        m = np.clip(m - step[:, None] * slope, 0.0, weights[active])
        s = np.maximum(0.0, s - step * time_slope / length**2)
        still = best[active] - aim[active] > GAP * aim[active] + _TINY
        active, m, s = active[still], m[still], s[still]
    return np.asarray(best, dtype=np.float64)


def _dual_value(
    group: NodeGroup, weights: Floats, m: Floats, prices: Floats, time_prices: Floats, limit: Floats
) -> tuple[Floats, Floats]:
    """Return each row's bound, and which benchmarks (0 or 1) are worth their price."""
    over = m @ group.hits - prices - time_prices[:, None] * group.seconds
    on = over > 0
    total = (weights - m).sum(axis=1) + time_prices * limit + np.where(on, over, 0.0).sum(axis=1)
    return total, on.astype(np.float64)


def _dual_ascent(weights: Floats, hits: Floats, prices: Floats) -> Floats:
    """Return multipliers, each raised until a price is used up, patterns of the fewest benchmarks first."""
    slack = np.tile(prices, (len(weights), 1))
    multipliers = np.zeros_like(weights)
    for pattern in np.argsort(hits.sum(axis=1), kind="stable").tolist():
        members = np.flatnonzero(hits[pattern])
        if not len(members):
            continue
        raised = np.minimum(weights[:, pattern], slack[:, members].min(axis=1))
        multipliers[:, pattern] = raised
        slack[:, members] -= raised[:, None]
    return multipliers
