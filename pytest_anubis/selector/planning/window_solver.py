"""Who runs what in a window: the choice for all nodes that spares most, within what they share.

Lagrangian relaxation of the shared resources (Geoffrion 1974; Fisher 1981): at prices for lanes and pools
each node chooses for itself, and the prices are those at which demand meets what there is. Nodes choose out
of sets that a greedy choice makes for a sample of them at many levels of prices, so that the dual function
is a few matrix products; the prices come from cutting planes (Kelley 1960). At the final prices every node's
choice is improved by adding, dropping and exchanging benchmarks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_anubis.selector.planning.fleet_coverage import Bools, Floats
from pytest_anubis.selector.planning.window_problem import Ints, Population

SAMPLE = 120
"""Nodes of a class for whom sets are made at each level of the prices: all kinds, risks from end to end."""
LEVELS = (0.0, 0.02, 0.05, 0.1, 0.2, 0.35, 0.6, 1.0, 1.7, 3.0, 6.0, 12.0)
"""Prices of a second of a lane or a pool at which sets are made, relative to what a second spares on average
in the full set of the riskiest tenth of the sample."""
SINGLE = (0.35, 1.0, 3.0, 12.0)
"""The same of one resource alone: it only has to show which benchmarks go without it."""
NEAR = (0.7, 1.0, 1.4)
"""Relative to the prices that were found: where the sets are made that these still lack."""
MOST_SETS = 1500
"""Sets of a class: the value of each for each node is held, 4 bytes."""
CUTS = 80
"""Cutting planes at most; with one to four resources some twenty are enough."""
CLOSE = 2e-4
"""Relative distance of the best dual value from its lower bound at which the prices are good enough."""
_TINY = 1e-9


@dataclass(slots=True, eq=False)
class Library:
    """Sets of benchmarks of one population, and what they are good for.

    Attributes:
        sets: Shape (l, b); the first one is empty.
        worth: Shape (n, l): what each spares on each node less the worth of its time; -inf if it takes longer
            than the node has.
        use: Shape (l, resources): what each takes.
        rebate: Shape (n, l, resources) or None: what of it a node's pinned benchmarks take already.
        seconds: Shape (l,).
    """

    sets: Bools
    worth: npt.NDArray[np.floating[Any]]
    use: Floats
    rebate: Floats | None
    seconds: Floats

    def best(self, prices: Floats) -> tuple[Ints, Floats]:
        """Return, shape (n,) each, the set that each node chooses at prices, and its net worth."""
        net = self.worth - (self.use @ prices).astype(np.float32)[None, :]
        if self.rebate is not None:
            net += (self.rebate @ prices).astype(np.float32)
        choice = np.argmax(net, axis=1)
        return choice, net[np.arange(len(net)), choice].astype(np.float64)

    def demand(self, choice: Ints) -> Floats:
        """Return, shape (resources,), what the nodes' choices take."""
        total = self.use[choice].sum(axis=0)
        if self.rebate is not None:
            total = total - self.rebate[np.arange(len(choice)), choice].sum(axis=0)
        return np.asarray(total)


def greedy(pop: Population, prices: Floats, rows: Ints | None = None) -> Bools:
    """Choose benchmarks for nodes, each for itself, by what they spare for their price.

    Args:
        pop: The nodes.
        prices: Shape (b,): price of each benchmark, its time's worth included.
        rows: The nodes that are wanted; None: all.

    Returns:
        Shape (rows, b), the pinned benchmarks not included.
    """
    rows = np.arange(len(pop.names)) if rows is None else rows
    chosen = np.zeros((len(rows), len(pop.benchmarks)), dtype=np.bool_)
    left = pop.weights[rows].copy()
    room = pop.limit[rows].copy()
    free = ~pop.pins[rows]
    active = np.arange(len(rows))
    floor = max(float(prices.max(initial=0.0)) * _TINY, _TINY)
    for _ in range(len(pop.benchmarks)):
        gains = left[active] @ pop.hits
        may = free[active] & (pop.seconds[None, :] <= room[active, None]) & (gains > prices + _TINY)
        rate = np.where(may, gains / np.maximum(prices, floor), -1.0)
        best = np.argmax(rate, axis=1)
        on = rate[np.arange(len(active)), best] > 0
        active, best = active[on], best[on]
        if not len(active):
            break
        chosen[active, best] = True
        free[active, best] = False
        room[active] -= pop.seconds[best]
        left[active] *= 1 - pop.hits[:, best].T
    return chosen


def improved(pop: Population, chosen: Bools, prices: Floats, rows: Ints, rounds: int = 3) -> Bools:
    """Add, drop and exchange benchmarks, each node for itself, as long as it pays.

    Args:
        pop: The nodes.
        chosen: Shape (rows, b), without pinned ones.
        prices: Shape (b,): price of each benchmark.
        rows: The nodes.
        rounds: How often each benchmark is looked at.
    """
    chosen = chosen.copy()
    weights, free, limit = pop.weights[rows], ~pop.pins[rows], pop.limit[rows]
    often = chosen.astype(np.float64) @ pop.hits.T
    time = chosen @ pop.seconds
    for _ in range(rounds):
        changed = False
        for out in range(len(pop.benchmarks)):
            # Take it away where it is, and put in whatever pays most, itself again if that is best.
            had = chosen[:, out]
            without = often - had[:, None] * pop.hits[:, out]
            gains = (weights * (without < 0.5)) @ pop.hits - prices
            then = time - had * pop.seconds[out]
            taken = chosen.copy()
            taken[:, out] = False
            may = free & ~taken & (then[:, None] + pop.seconds <= limit[:, None] + _TINY)
            gains[~may] = -np.inf
            stays = np.where(had, gains[:, out], 0.0)
            best = np.argmax(gains, axis=1)
            value = gains[np.arange(len(rows)), best]
            put = value > _TINY
            better = np.maximum(value, 0.0) > stays + 1e-7 * np.abs(stays) + _TINY
            if not better.any():
                continue
            changed = True
            at = np.flatnonzero(better)
            chosen[at, out] = False
            new = at[put[at]]
            chosen[new, best[new]] = True
            often[at] = chosen[at].astype(np.float64) @ pop.hits.T
            time[at] = chosen[at] @ pop.seconds
        if not changed:
            break
    return chosen


def make_library(pop: Population, worth: float) -> Library:
    """Return sets that are good for some nodes at some prices, and the value of each for every node."""
    rows = _sample(pop)
    total = max(float(pop.seconds.sum()), _TINY)
    usual = float(np.sort(pop.weights.sum(axis=1)[rows])[-max(1, len(rows) // 10) :].mean()) / total
    resources = pop.use.shape[1]
    found = [np.zeros((1, len(pop.benchmarks)), dtype=np.bool_)]
    # All resources at once, and each by itself: what is scarce tonight is known only later.
    asked = [(level, np.ones(resources)) for level in (LEVELS if resources else LEVELS[:1])]
    if resources > 1:
        asked += [(level, part) for part in np.eye(resources) for level in SINGLE]
    for level, part in asked:
        found.append(greedy(pop, worth * pop.seconds + level * usual * (pop.use @ part), rows))
    return evaluated(pop, _kept(np.concatenate(found)), worth)


def extended(pop: Population, library: Library, prices: Floats, worth: float) -> Library:
    """Return the sets of a library, and those that nodes would choose near some prices.

    The other half of the cutting planes: what is good at the prices that were found is looked for at them
    (column generation, Gilmore & Gomory 1961).

    Args:
        pop: The nodes.
        library: Sets, of which the prices came.
        prices: Shape (resources,): of a second of each.
        worth: Of a second of a node.
    """
    rows = _sample(pop)
    found = []
    for level in NEAR:
        of_each = worth * pop.seconds + pop.use @ (level * prices)
        found.append(improved(pop, greedy(pop, of_each, rows), of_each, rows))
    fresh = np.concatenate(found)
    # Sets of today's prices come first where there are too many.
    return evaluated(pop, _kept(np.concatenate([library.sets, fresh, fresh])), worth)


def _sample(pop: Population) -> Ints:
    order = np.argsort(pop.before, kind="stable")
    count = min(SAMPLE, len(order))
    return np.asarray(order[np.unique(np.linspace(0, len(order) - 1, count).astype(np.int64))])


def _kept(found: Bools) -> Bools:
    """Return sets, each once, those that were found most often; the empty one first."""
    sets, counts = np.unique(found, axis=0, return_counts=True)
    keep = np.argsort(-counts, kind="stable")[:MOST_SETS]
    empty = ~sets.any(axis=1)
    kept = sets[np.unique(np.concatenate([np.flatnonzero(empty), keep]))]
    return np.asarray(kept[np.argsort(kept.sum(axis=1), kind="stable")])


def evaluated(pop: Population, sets: Bools, worth: float) -> Library:
    """Return sets, shape (l, b), with their value for every node."""
    hit = ((sets.astype(np.float32) @ pop.hits.T.astype(np.float32)) > 0).astype(np.float32)
    seconds = sets @ pop.seconds
    value = pop.weights.astype(np.float32) @ hit.T - (worth * seconds).astype(np.float32)
    own = np.broadcast_to(seconds, value.shape)
    rebate = None
    if pop.pins.any():
        both = pop.pins.astype(np.float64)
        own = seconds[None, :] - (both * pop.seconds) @ sets.T.astype(np.float64)
        value += (worth * (seconds[None, :] - own)).astype(np.float32)
        parts = [
            (both * pop.use[:, r]) @ sets.T.astype(np.float64) for r in range(pop.use.shape[1])
        ]
        rebate = np.stack(parts, axis=2) if parts else None
    value[own > pop.limit[:, None] + _TINY] = -np.inf
    return Library(sets, value, sets @ pop.use, rebate, seconds)


def best_prices(libraries: Sequence[Library], capacity: Floats) -> Floats:
    """Return the prices of a second of each resource at which the dual function is smallest.

    Args:
        libraries: Of all populations.
        capacity: Shape (resources,): seconds that there are; positive.
    """
    from scipy.optimize import linprog

    count = len(capacity)
    if not count:
        return np.zeros(0)
    scaled = np.zeros(count)  # prices times capacity: what all of a resource is worth
    best, best_at = np.inf, scaled
    rows: list[list[float]] = []
    ends: list[float] = []
    most = 0.0
    for _ in range(CUTS):
        value, slope = float(scaled.sum()), np.ones(count)
        for library in libraries:
            choice, net = library.best(scaled / capacity)
            value += float(net.sum())
            slope -= library.demand(choice) / capacity
        most = most or max(value, _TINY)
        if value < best:
            best, best_at = value, scaled
        rows.append([*slope.tolist(), -1.0])
        ends.append(float(slope @ scaled) - value)
        found = linprog(
            [*[0.0] * count, 1.0],
            A_ub=rows,
            b_ub=ends,
            bounds=[*[(0.0, most)] * count, (None, None)],
            method="highs",
        )
        if found.x is None or best - found.fun <= CLOSE * max(abs(best), _TINY):
            break
        scaled = np.asarray(found.x[:count])
    return np.asarray(best_at / capacity)


def choose_all(
    populations: Sequence[Population],
    libraries: Sequence[Library],
    capacity: Floats,
    prices: Floats,
    worth: float,
) -> list[Bools]:
    """Return each node's choice, shape (n, b) of each population, that all fit into what is shared.

    Args:
        populations: The nodes.
        libraries: Their sets.
        capacity: Shape (resources,): seconds that there are.
        prices: Shape (resources,): of a second of each.
        worth: Of a second of a node.
    """
    wanted = [
        _own(pop, library, prices, worth)
        for pop, library in zip(populations, libraries, strict=True)
    ]
    if _fits(_demand(populations, wanted), capacity):
        return wanted
    low, high = 1.0, 2.0
    while not _fits(_of(libraries, prices * high), capacity):
        high *= 2
        if high > 2**20:  # a resource without a price is short of what the sets did not foresee
            none = [np.zeros_like(choice) for choice in wanted]
            return _filled(populations, none, wanted, capacity, prices, worth)
    for _ in range(12):  # a four-thousandth of the prices
        middle = (low + high) / 2
        fits = _fits(_of(libraries, prices * middle), capacity)
        low, high = (low, middle) if fits else (middle, high)
    chosen = [library.sets[library.best(prices * high)[0]] for library in libraries]
    return _filled(populations, chosen, wanted, capacity, prices, worth)


def _own(pop: Population, library: Library, prices: Floats, worth: float) -> Bools:
    of_each = worth * pop.seconds + pop.use @ prices
    rows = np.arange(len(pop.names))
    start = library.sets[library.best(prices)[0]] & ~pop.pins
    return improved(pop, start, of_each, rows)


def _of(libraries: Sequence[Library], prices: Floats) -> Floats:
    parts = [library.demand(library.best(prices)[0]) for library in libraries]
    return np.asarray(np.sum(parts, axis=0))


def _demand(populations: Sequence[Population], chosen: Sequence[Bools]) -> Floats:
    parts = [(own @ pop.use).sum(axis=0) for pop, own in zip(populations, chosen, strict=True)]
    return np.asarray(np.sum(parts, axis=0))


def _fits(demand: Floats, capacity: Floats) -> bool:
    return bool((demand <= capacity * (1 + _TINY) + _TINY).all())


def _filled(
    populations: Sequence[Population],
    chosen: Sequence[Bools],
    wanted: Sequence[Bools],
    capacity: Floats,
    prices: Floats,
    worth: float,
) -> list[Bools]:
    """Give nodes what they want at the lower prices, best return first, as long as there is room."""
    final = [own & ~pop.pins for own, pop in zip(chosen, populations, strict=True)]
    room = capacity - _demand(populations, final)
    steps: list[tuple[float, int, int, Floats]] = []
    for place, pop in enumerate(populations):
        more = wanted[place] @ pop.use - final[place] @ pop.use
        gain = pop.value(wanted[place]) - pop.value(final[place])
        gain = gain - worth * (wanted[place] @ pop.seconds - final[place] @ pop.seconds)
        cost = more @ prices
        for row in np.flatnonzero((gain > 0) & more.any(axis=1)).tolist():
            steps.append((-float(gain[row] / max(cost[row], _TINY)), place, row, more[row]))
    for _, place, row, more in sorted(steps, key=lambda step: step[:3]):
        if (more <= room + _TINY).all():
            final[place][row] = wanted[place][row]
            room = room - more
    return final
