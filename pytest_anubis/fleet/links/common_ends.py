"""Which end several bad ways have in common: a node that sends on all of them, or one that receives.

Ways are bad that changed bytes (`pair_group`) or on which TCP sent segments again (`retransmissions`).
"""

from __future__ import annotations

import numpy as np

from pytest_anubis.fleet.links.attribution import Cells, Part

MIN_WAYS = 2
"""Bad ways from which on an end is named: the cause of a single one may be its other end."""


def common_ends(bad: Cells, known: Cells, *, share: float = 0.0) -> list[Part]:
    """Return the directions of nodes that bad ways have in common, as parts `send` and `receive`.

    The one with the largest share of its ways comes first, on a tie a sender. Its ways then count for no
    other, since each of the nodes at their other ends has one of them.

    Args:
        bad: N x N, the bad ways from the row's node to the column's.
        known: N x N, the ways that were measured.
        share: Share of its ways that have to be more than this.
    """
    left = bad.copy()
    measured = np.maximum([known.sum(axis=1), known.sum(axis=0)], 1)
    found: list[Part] = []
    while True:
        ways = np.array([left.sum(axis=1), left.sum(axis=0)])
        shares = np.where(ways >= MIN_WAYS, ways / measured, 0.0)
        end, node = divmod(int(shares.argmax()), len(bad))
        if shares[end, node] <= share:
            return found
        found.append(Part("receive" if end else "send", (node,)))
        left[(slice(None), node) if end else node] = False
