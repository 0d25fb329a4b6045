"""Rates of each node with all others at once, from those of the single ways of a fan (`pair_plans.fans`).

A fan has ended when its last block has arrived, so that its rate is that of all blocks over the longest time.
How evenly the senders share the receiver is Jain's index of their rates x, (sum x)^2 / (n sum x^2): 1 if all
are the same, 1 / n if one of n gets everything (Jain, Chiu and Hawe, "A quantitative measure of fairness and
discrimination for resource allocation in shared computer systems", DEC TR-301, 1984).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pytest_anubis.fleet.links.attribution import (
    Accusation,
    Matrix,
    attribute_ports,
    typical_rates,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FanRates:
    """The rates of all nodes.

    Attributes:
        receiving: Bytes per second by repeat and node, when all others send to it at once.
        sending: The same when it sends to all others at once.
        fairness: Jain's index of each node's senders, 1 / n to 1, the median of the repeats.
    """

    receiving: Matrix
    sending: Matrix
    fairness: tuple[float, ...]

    def guilty(self) -> list[Accusation]:
        """Return the nodes, or directions of their ports, that are slower than the others."""
        return attribute_ports(typical_rates(self.sending), typical_rates(self.receiving))


def fan_rates(rates: Sequence[Sequence[Sequence[float]]]) -> FanRates:
    """Return the rates of nodes from those of single ways.

    Args:
        rates: Bytes per second by repeat, sender and receiver, of blocks of one size: alternately while all
            send to the receiver, and while the sender sends to all. The diagonal is nan.
    """
    table = np.asarray(rates, dtype=float)
    others = table.shape[-1] - 1
    inward, outward = table[0::2], table[1::2]
    even = np.nansum(inward, axis=1) ** 2 / (others * np.nansum(inward**2, axis=1))
    return FanRates(
        receiving=others * np.nanmin(inward, axis=1),
        sending=others * np.nanmin(outward, axis=2),
        fairness=tuple(np.median(even, axis=0).tolist()),
    )


def slowed_by(accusation: Accusation, count: int) -> bool:
    """Return whether a part is so slow that other nodes' fans wait for it.

    In the fan of another of `count` nodes it has a share of 1 / (count - 1) of that node's rate.
    """
    return (1 - max(accusation.losses)) * (count - 1) < 1
