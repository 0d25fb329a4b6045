"""Receiving ports to which TCP had to send segments again, although no two senders shared them.

In a round of pairs every port sends or receives one transfer, so that no queue can overflow where all ports
have the same rate: such traffic needs no congestion control. That is why a study found RoCE's schemes without
effect on training (Khan and others, "Impact of RoCE congestion control policies on distributed training of
DNNs", HOTI 2022). Segments that are lost all the same point at the port where the ways of many senders end: a
short queue, a wrong threshold, a bad receiver. This is evidence and decides nothing. `pair_fixtures` uses it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pytest_anubis.fleet.links.attribution import common_ends


@dataclass(frozen=True, slots=True, kw_only=True)
class ResendingPort:
    """A receiving port that lost segments of most senders."""

    node: int
    ways: int  # ways to it on which TCP sent segments again in most repeats
    measured: int  # how many ways to it were measured
    segments: int  # segments that were sent again to it, in all repeats together

    def text(self, names: Sequence[str]) -> str:
        """Return one line: the port, how much was sent again, and on how many ways."""
        ways = f"{self.ways} of {self.measured} ways"
        return f"receiving of {names[self.node]}: TCP sent {self.segments} segments again on {ways} to it"


def resending_ports(resent: Sequence[Sequence[Sequence[float]]]) -> tuple[ResendingPort, ...]:
    """Return the receiving ports that lost segments of more than half of their senders.

    A way counts if segments were sent again in most of its repeats, so that a lost one now and then names no
    port. Neither do senders that lose segments to most others (`common_ends`).

    Args:
        resent: TCP segments that were sent again, by repeat, sender and receiver; nan if not measured.
    """
    table = np.asarray(resent, dtype=float)
    if table.ndim < 3:
        return ()
    known = ~np.isnan(table).any(axis=0)
    lost = known & (np.median(np.nan_to_num(table), axis=0) > 0)
    found = [
        ResendingPort(
            node=node,
            ways=int(lost[:, node].sum()),
            measured=int(known[:, node].sum()),
            segments=int(np.nansum(table[:, :, node])),
        )
        for part in common_ends(lost, known, share=0.5)
        for node in part.nodes
        if part.kind == "receive"
    ]
    return tuple(sorted(found, key=lambda one: -one.segments))
