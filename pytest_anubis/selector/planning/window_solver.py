"""Choose what each node runs in a window, so that most incidents are spared within the shared resources.

Lagrangian relaxation of the shared resources (Geoffrion 1974; Fisher 1981): at prices of lanes and pools each
node chooses by itself, and the dual prices are those at which demand meets capacity. Nodes choose among
columns: sets of benchmarks that a greedy choice makes for a sample of nodes at many price levels. The dual
function is then a few matrix products, minimised by cutting planes (Kelley 1960). At the final prices, local
search improves each node's choice. `backfill` and `window_solution` use it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_anubis.selector.planning.fleet_coverage import Bools, Floats
from pytest_anubis.selector.planning.window_problem import Ints, NodeGroup

SAMPLE = 120
"""Nodes of a class for which columns are made, evenly from the least to the most risky."""
LEVELS = (0.0, 0.02, 0.05, 0.1, 0.2, 0.35, 0.6, 1.0, 1.7, 3.0, 6.0, 12.0)
"""Price levels of all resources at which columns are made, relative to what a second spares on average in the
full set of the riskiest tenth of the sample."""
SINGLE_LEVELS = (0.35, 1.0, 3.0, 12.0)
"""The same of one resource alone: these columns only show which benchmarks do without it."""
NEAR_LEVELS = (0.7, 1.0, 1.4)
"""Levels relative to the dual prices at which column generation adds columns."""
SEARCH_ROUNDS = 3
"""Passes of the local search over all benchmarks; it stops earlier if nothing changes."""
MAX_COLUMNS = 1500
"""Columns of a class: the value of each on each node is kept, 4 bytes."""
MAX_CUTS = 80
"""Cutting planes; with one to four resources some twenty are enough."""
DUAL_GAP = 2e-4
"""Relative gap between the best dual value and its lower bound at which the prices are good enough."""
_TINY = 1e-9


@dataclass(slots=True, eq=False)
class Columns:
    """Candidate sets of benchmarks of one node group: the columns of the master problem."""

    sets: Bools  # shape (l, b); the first one is empty
    # Shape (n, l): what each spares on each node less the worth of its time; -inf if it takes
    # longer than the node has
    value: npt.NDArray[np.floating[Any]]
    use: Floats  # shape (l, resources): resource seconds of each
    # Shape (n, l, resources) or None: the part of it that a node's pinned benchmarks hold
    pinned_use: Floats | None
    seconds: Floats  # shape (l,)

    def best(self, prices: Floats) -> tuple[Ints, Floats]:
        """Return the column that each node chooses at prices, and its reduced value, shape (n,) each."""
        reduced = self.value - (self.use @ prices).astype(np.float32)[None, :]
        if self.pinned_use is not None:
            reduced += (self.pinned_use @ prices).astype(np.float32)
        choice = np.argmax(reduced, axis=1)
        return choice, reduced[np.arange(len(reduced)), choice].astype(np.float64)

    def demand(self, choice: Ints) -> Floats:
        """Return the resource seconds that the nodes' choices use, shape (resources,)."""
        total = self.use[choice].sum(axis=0)
        if self.pinned_use is not None:
            total = total - self.pinned_use[np.arange(len(choice)), choice].sum(axis=0)
        return np.asarray(total)


def greedy_sets(group: NodeGroup, prices: Floats, rows: Ints) -> Bools:
    """Return the set that a greedy choice makes for each node, shape (rows, b), without pinned benchmarks.

    It chooses by spared seconds per price; `prices`, shape (b,), include the worth of time.
    """
    chosen = np.zeros((len(rows), len(group.benchmarks)), dtype=np.bool_)
    left = group.weights[rows].copy()
    room = group.limit[rows].copy()
    free = ~group.pins[rows]
    active = np.arange(len(rows))
    floor = max(float(prices.max(initial=0.0)) * _TINY, _TINY)
    for _ in range(len(group.benchmarks)):
        gains = left[active] @ group.hits
        fits = group.seconds[None, :] <= room[active, None]
        allowed = free[active] & fits & (gains > prices + _TINY)
        rate = np.where(allowed, gains / np.maximum(prices, floor), -1.0)
        best = np.argmax(rate, axis=1)
        on = rate[np.arange(len(active)), best] > 0
        active, best = active[on], best[on]
        if not len(active):
            break
        chosen[active, best] = True
        free[active, best] = False
        room[active] -= group.seconds[best]
        left[active] *= 1 - group.hits[:, best].T
    return chosen


def local_search(group: NodeGroup, chosen: Bools, prices: Floats, rows: Ints) -> Bools:
    """Improve sets, shape (rows, b), by adding, dropping and exchanging benchmarks while that pays.

    `prices`, shape (b,), include the worth of time.
    """
    chosen = chosen.copy()
    weights, free, limit = group.weights[rows], ~group.pins[rows], group.limit[rows]
    hit_count = chosen.astype(np.float64) @ group.hits.T
    time = chosen @ group.seconds
    for _ in range(SEARCH_ROUNDS):
        changed = False
        for out in range(len(group.benchmarks)):
            # Take the benchmark out where it is in, and put in whichever pays most, possibly the same.
            had = chosen[:, out]
            without = hit_count - had[:, None] * group.hits[:, out]
            gains = (weights * (without < 0.5)) @ group.hits - prices
            time_without = time - had * group.seconds[out]
            taken = chosen.copy()
            taken[:, out] = False
            fits = time_without[:, None] + group.seconds <= limit[:, None] + _TINY
            gains[~(free & ~taken & fits)] = -np.inf
            present = np.where(had, gains[:, out], 0.0)
            best = np.argmax(gains, axis=1)
            value = gains[np.arange(len(rows)), best]
            better = np.maximum(value, 0.0) > present + 1e-7 * np.abs(present) + _TINY
            if not better.any():
                continue
            changed = True
            at = np.flatnonzero(better)
            chosen[at, out] = False
            new = at[value[at] > _TINY]
            chosen[new, best[new]] = True
            hit_count[at] = chosen[at].astype(np.float64) @ group.hits.T
            time[at] = chosen[at] @ group.seconds
        if not changed:
            break
    return chosen


def make_columns(group: NodeGroup, time_worth: float) -> Columns:
    """Return sets that are good for some nodes at some prices."""
    rows = _sample(group)
    total = max(float(group.seconds.sum()), _TINY)
    riskiest = np.sort(group.weights.sum(axis=1)[rows])[-max(1, len(rows) // 10) :]
    usual = float(riskiest.mean()) / total
    resources = group.use.shape[1]
    found = [np.zeros((1, len(group.benchmarks)), dtype=np.bool_)]
    # All resources together and each by itself: which one is scarce is known only later.
    levels = [(level, np.ones(resources)) for level in (LEVELS if resources else LEVELS[:1])]
    if resources > 1:
        levels += [(level, part) for part in np.eye(resources) for level in SINGLE_LEVELS]
    for level, part in levels:
        prices = time_worth * group.seconds + level * usual * (group.use @ part)
        found.append(greedy_sets(group, prices, rows))
    return _valued(group, _most_frequent(np.concatenate(found)), time_worth)


def add_columns(group: NodeGroup, columns: Columns, prices: Floats, time_worth: float) -> Columns:
    """Return the columns with those that nodes would choose near the dual prices, shape (resources,).

    This is the other half of the cutting planes: column generation (Gilmore & Gomory 1961).
    """
    rows = _sample(group)
    found = []
    for level in NEAR_LEVELS:
        full_prices = time_worth * group.seconds + group.use @ (level * prices)
        found.append(local_search(group, greedy_sets(group, full_prices, rows), full_prices, rows))
    fresh = np.concatenate(found)
    # Counted twice, so that the new sets are kept first where there are too many.
    sets = _most_frequent(np.concatenate([columns.sets, fresh, fresh]))
    return _valued(group, sets, time_worth)


def _sample(group: NodeGroup) -> Ints:
    order = np.argsort(group.before, kind="stable")
    count = min(SAMPLE, len(order))
    return np.asarray(order[np.unique(np.linspace(0, len(order) - 1, count).astype(np.int64))])


def _most_frequent(found: Bools) -> Bools:
    """Return each set once, at most `MAX_COLUMNS`, those that were found most often; the empty one first."""
    sets, counts = np.unique(found, axis=0, return_counts=True)
    frequent = np.argsort(-counts, kind="stable")[:MAX_COLUMNS]
    empty = ~sets.any(axis=1)
    kept = sets[np.unique(np.concatenate([np.flatnonzero(empty), frequent]))]
    return np.asarray(kept[np.argsort(kept.sum(axis=1), kind="stable")])


def _valued(group: NodeGroup, sets: Bools, time_worth: float) -> Columns:
    """Return sets, shape (l, b), with their value on every node."""
    hit = ((sets.astype(np.float32) @ group.hits.T.astype(np.float32)) > 0).astype(np.float32)
    seconds = sets @ group.seconds
    value = group.weights.astype(np.float32) @ hit.T - (time_worth * seconds).astype(np.float32)
    unpinned_seconds = np.broadcast_to(seconds, value.shape)
    pinned_use = None
    if group.pins.any():
        pins = group.pins.astype(np.float64)
        unpinned_seconds = seconds[None, :] - (pins * group.seconds) @ sets.T.astype(np.float64)
        value += (time_worth * (seconds[None, :] - unpinned_seconds)).astype(np.float32)
        parts = [
            (pins * group.use[:, resource]) @ sets.T.astype(np.float64)
            for resource in range(group.use.shape[1])
        ]
        pinned_use = np.stack(parts, axis=2) if parts else None
    value[unpinned_seconds > group.limit[:, None] + _TINY] = -np.inf
    return Columns(sets, value, sets @ group.use, pinned_use, seconds)


def dual_prices(columns: Sequence[Columns], capacity: Floats) -> Floats:
    """Return the price of a second of each resource that minimises the Lagrangian dual.

    `columns` are those of all groups; `capacity`, shape (resources,), are the seconds available, positive.
    """
    from scipy.optimize import linprog

    count = len(capacity)
    if not count:
        return np.zeros(0)
    scaled = np.zeros(count)  # prices times capacity: the worth of each whole resource
    best, best_at = np.inf, scaled
    slopes: list[list[float]] = []
    offsets: list[float] = []
    top = 0.0
    for _ in range(MAX_CUTS):
        value, slope = float(scaled.sum()), np.ones(count)
        for each in columns:
            choice, reduced = each.best(scaled / capacity)
            value += float(reduced.sum())
            slope -= each.demand(choice) / capacity
        top = top or max(value, _TINY)
        if value < best:
            best, best_at = value, scaled
        slopes.append([*slope.tolist(), -1.0])
        offsets.append(float(slope @ scaled) - value)
        found = linprog(
            [*[0.0] * count, 1.0],
            A_ub=slopes,
            b_ub=offsets,
            bounds=[*[(0.0, top)] * count, (None, None)],
            method="highs",
        )
        if found.x is None or best - found.fun <= DUAL_GAP * max(abs(best), _TINY):
            break
        scaled = np.asarray(found.x[:count])
    return np.asarray(best_at / capacity)


def choose_all(
    groups: Sequence[NodeGroup],
    columns: Sequence[Columns],
    capacity: Floats,
    prices: Floats,
    time_worth: float,
) -> list[Bools]:
    """Return each node's choice, shape (n, b) of each group, such that all fit into the capacity.

    `capacity` and the dual `prices` of a second have the shape (resources,).
    """
    wanted = []
    for group, own in zip(groups, columns, strict=True):
        full_prices = time_worth * group.seconds + group.use @ prices
        start = own.sets[own.best(prices)[0]] & ~group.pins
        wanted.append(local_search(group, start, full_prices, np.arange(len(group.names))))
    if _fits(_use(groups, wanted), capacity):
        return wanted

    def fits_at(factor: float) -> bool:
        demands = [each.demand(each.best(prices * factor)[0]) for each in columns]
        return _fits(np.asarray(np.sum(demands, axis=0)), capacity)

    low, high = 1.0, 2.0
    while not fits_at(high):
        high *= 2
        if high > 2**20:  # a resource without a price is short of what the columns did not foresee
            none = [np.zeros_like(choice) for choice in wanted]
            return _fill_up(groups, none, wanted, capacity, prices, time_worth)
    for _ in range(12):  # to a four-thousandth of the prices
        middle = (low + high) / 2
        low, high = (low, middle) if fits_at(middle) else (middle, high)
    chosen = [each.sets[each.best(prices * high)[0]] for each in columns]
    return _fill_up(groups, chosen, wanted, capacity, prices, time_worth)


def _use(groups: Sequence[NodeGroup], chosen: Sequence[Bools]) -> Floats:
    parts = [(own @ group.use).sum(axis=0) for group, own in zip(groups, chosen, strict=True)]
    return np.asarray(np.sum(parts, axis=0))


def _fits(demand: Floats, capacity: Floats) -> bool:
    return bool((demand <= capacity * (1 + _TINY) + _TINY).all())


def _fill_up(
    groups: Sequence[NodeGroup],
    chosen: Sequence[Bools],
    wanted: Sequence[Bools],
    capacity: Floats,
    prices: Floats,
    time_worth: float,
) -> list[Bools]:
    """Replace choices by those wanted at the lower prices, best return first, while capacity is left."""
    final = [own & ~group.pins for own, group in zip(chosen, groups, strict=True)]
    room = capacity - _use(groups, final)
    steps: list[tuple[float, int, int, Floats]] = []
    for place, group in enumerate(groups):
        more = wanted[place] @ group.use - final[place] @ group.use
        gain = group.value(wanted[place]) - group.value(final[place])
        gain = gain - time_worth * (wanted[place] @ group.seconds - final[place] @ group.seconds)
        cost = more @ prices
        for row in np.flatnonzero((gain > 0) & more.any(axis=1)).tolist():
            steps.append((-float(gain[row] / max(cost[row], _TINY)), place, row, more[row]))
    for _, place, row, more in sorted(steps, key=lambda step: step[:3]):
        if (more <= room + _TINY).all():
            final[place][row] = wanted[place][row]
            room = room - more
    return final
