"""Judge the test in which all nodes send to one at once (incast), and one to all (`pair_plans.fans`).

`pair_group` finds the slow nodes by it, and `pair_fixtures` excuses those that only waited for a slow one. A
fan is timed until its last block has arrived, by the node in its middle. How evenly the senders share the
receiver is Jain's index of their rates x, (sum x)^2 / (n sum x^2): 1 if all are the same, 1 / n if one of n
gets everything (Jain, Chiu and Hawe, "A quantitative measure of fairness and discrimination for resource
allocation in shared computer systems", DEC TR-301, 1984).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pytest_anubis.fleet.links.attribution import Accusation, Matrix, attribute_ports, typical_rates

WAITING = 1.2
"""A node limits another's fan if its rate is below this many times its even share of that fan. Without noise
the factor would be 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FanRates:
    """The rates of all nodes."""

    receiving: Matrix  # bytes per second by repeat and node, when all others send to it at once
    sending: Matrix  # the same when it sends to all others at once
    # Jain's index of each node's senders, 1 / n to 1, the median of the repeats
    fairness: tuple[float, ...]

    def guilty(self, ports: Sequence[float] = ()) -> list[Accusation]:
        """Return the nodes, or directions of their ports, that are slower (`attribute_ports`)."""
        return attribute_ports(typical_rates(self.sending), typical_rates(self.receiving), ports)


def fan_rates(
    rates: Sequence[Sequence[Sequence[float]]], together: Sequence[Sequence[float]]
) -> FanRates:
    """Return the rates of nodes, alternately measured with all others sending to one and one to all others.

    Args:
        rates: Bytes per second of each way, by repeat, sender and receiver; the diagonal is nan.
        together: Bytes per second of all ways of a node, by repeat and node.
    """
    inward = np.asarray(rates, dtype=float)[0::2]
    whole = np.asarray(together, dtype=float)
    others = inward.shape[-1] - 1
    even = np.nansum(inward, axis=1) ** 2 / (others * np.nansum(inward**2, axis=1))
    return FanRates(
        receiving=whole[0::2], sending=whole[1::2], fairness=tuple(np.median(even, axis=0).tolist())
    )


def slowed_by(accusation: Accusation, count: int) -> bool:
    """Return whether a part is so slow that other nodes' fans wait for it.

    In another node's fan each of the other `count` - 1 nodes has to send an even share of that node's rate. A
    node that cannot limits the whole fan; its loss is understated, as it lowers the rates that it is compared
    with.
    """
    return (1 - max(accusation.losses)) * (count - 1) < WAITING
