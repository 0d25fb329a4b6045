"""Where tables are kept: whole on one rank, by the work of their lookups, or by rows on all of them."""

from __future__ import annotations

from collections.abc import Sequence

BY_ROWS = -1
"""Instead of a rank: the table's rows are shared out over all ranks."""

STEPS = 100_000
"""Placements of one table that are tried at most, beyond the first ones: all for ten tables on four ranks.
What is best until then is taken."""


def placed(work: Sequence[float], ranks: int) -> list[int]:
    """Return the rank of each table, or `BY_ROWS`, so that whole tables are shared out as evenly as possible.

    A table with more work than a rank's share is kept by rows. The others are placed by branch and bound:
    those with the most work first, each on the rank with the least so far, which is what a greedy placement
    does; then other ranks are tried as long as they can still be better.

    Args:
        work: Of each table, such as the bytes of the rows that a step looks up.
        ranks: How many there are.
    """
    share = sum(work) / ranks
    order = [table for table in range(len(work)) if work[table] <= share]
    order.sort(key=lambda table: -work[table])
    chosen, best = [BY_ROWS] * len(work), [BY_ROWS] * len(work)
    loads, least, tried = [0.0] * ranks, float("inf"), 0

    def place(depth: int) -> None:
        nonlocal least, tried
        if depth == len(order):
            least, best[:] = max(loads), chosen
            return
        table, seen = order[depth], set[float]()
        for rank in sorted(range(ranks), key=loads.__getitem__):
            load = loads[rank] + work[table]
            if load >= least or (tried >= STEPS and least < float("inf")):
                break
            if load in seen:  # on a rank with as much work it is the same
                continue
            seen.add(load)
            tried += 1
            before, loads[rank], chosen[table] = loads[rank], load, rank
            place(depth + 1)
            loads[rank] = before

    place(0)
    return best
