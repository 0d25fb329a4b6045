"""What no plan of a window can beat: the dual value at given prices, bounded from above node by node.

Each node's own problem at prices is a maximum of coverage less price: an uncapacitated facility location
whose clients are patterns. Its dual is an upper bound for any multipliers ``0 <= m_p <= w_p`` and ``s >= 0``:

    sum_p (w_p - m_p) + s * limit + sum_b max(0, sum_{p hit by b} m_p - price_b - s * seconds_b)

They start from a dual ascent (Erlenkotter 1978) and are improved by subgradients with Polyak's step (1969),
whose aim is the value of the choice that was found.
"""

from __future__ import annotations

import numpy as np

from pytest_anubis.selector.planning.fleet_coverage import Bools, Floats
from pytest_anubis.selector.planning.window_problem import Population

STEPS = 200
"""Subgradient steps at most; nodes whose bound is met take part in none."""
CLOSE = 5e-4
"""Of a node's value: what its bound may be off; far within the two percent that are asked for."""
BLOCK = 4096
"""Nodes at a time: arrays of a few hundred patterns each."""
_TINY = 1e-9


def node_bounds(pop: Population, prices: Floats, chosen: Bools) -> Floats:
    """Return, shape (n,), what no choice of each node can be worth at prices, beside its pinned benchmarks.

    Args:
        pop: The nodes.
        prices: Shape (b,): price of each benchmark, its time's worth included.
        chosen: Shape (n, b): the choices that were found, whose value is what the bounds aim at.
    """
    found = pop.value(chosen) - chosen @ prices
    parts = [
        _bounds(pop, prices, found, slice(start, start + BLOCK))
        for start in range(0, len(pop.names), BLOCK)
    ]
    return np.concatenate(parts) if parts else np.zeros(0)


def _bounds(pop: Population, prices: Floats, aim: Floats, rows: slice) -> Floats:
    weights, limit, aim = pop.weights[rows], pop.limit[rows], np.maximum(aim[rows], 0.0)
    tight = float(pop.seconds.sum()) > float(limit.min(initial=np.inf))
    multipliers = _ascent(weights, pop.hits, prices)
    own = np.zeros(len(weights))  # of a node's own time
    best = _value(pop, weights, multipliers, prices, own, limit)[0]
    # Nobody is worth more than everything that it could expose for nothing.
    best = np.minimum(best, weights.sum(axis=1))
    active = np.flatnonzero(best - aim > CLOSE * aim + _TINY)
    m, s = multipliers[active], own[active]
    for _ in range(STEPS):
        if not len(active):
            break
        value, on = _value(pop, weights[active], m, prices, s, limit[active])
        best[active] = np.minimum(best[active], value)
        slope = on @ pop.hits.T - (m < weights[active])
        slope[(m <= 0) & (slope > 0)] = 0.0  # a step there would be taken back
        of_time = (limit[active] - on @ pop.seconds) if tight else np.zeros(len(active))
        of_time[(s <= 0) & (of_time > 0)] = 0.0
        # A multiplier of time weighs as many seconds as the window has: both are made alike.
        length = limit[active].mean() + _TINY
        square = (slope**2).sum(axis=1) + (of_time / length) ** 2
        step = (value - aim[active]) / np.maximum(square, _TINY)
        m = np.clip(m - step[:, None] * slope, 0.0, weights[active])
        s = np.maximum(0.0, s - step * of_time / length**2)
        still = best[active] - aim[active] > CLOSE * aim[active] + _TINY
        active, m, s = active[still], m[still], s[still]
    return np.asarray(best, dtype=np.float64)


def _value(
    pop: Population, weights: Floats, m: Floats, prices: Floats, own: Floats, limit: Floats
) -> tuple[Floats, Floats]:
    """Return the bound of each row, and which benchmarks, as 0 and 1, are worth their price."""
    over = m @ pop.hits - prices - own[:, None] * pop.seconds
    on = over > 0
    total = (weights - m).sum(axis=1) + own * limit + np.where(on, over, 0.0).sum(axis=1)
    return total, on.astype(np.float64)


def _ascent(weights: Floats, hits: Floats, prices: Floats) -> Floats:
    """Raise the multipliers, those of the fewest benchmarks first, until a price is used up."""
    slack = np.tile(prices, (len(weights), 1))
    multipliers = np.zeros_like(weights)
    sizes = hits.sum(axis=1)
    for pattern in np.argsort(sizes, kind="stable").tolist():
        members = np.flatnonzero(hits[pattern])
        if not len(members):
            continue
        raised = np.minimum(weights[:, pattern], slack[:, members].min(axis=1))
        multipliers[:, pattern] = raised
        slack[:, members] -= raised[:, None]
    # What is left beyond the slack exposes nothing more: the bound takes it as it is.
    return multipliers
