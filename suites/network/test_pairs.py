"""Every host to every other: the links, ports and switches between the nodes of one launch."""

from __future__ import annotations

import pytest

from pytest_anubis import NodeFixture, PairsFixture

SECONDS = {"smoke": 0.05, "standard": 0.1, "soak": 1.0}
"""Aimed length of one transfer."""

REPEATS = {"smoke": 3, "standard": 3, "soak": 10}
"""Runs of the plan: 32 hosts have 62 rounds of one direction, in `standard` 20 seconds in all."""


@pytest.mark.anubis(
    component="network.pairs",
    scope="node",
    cost="20s",
    deadline="1800s",
    profiles=("standard", "soak"),
    metrics=["pair_rate"],
    goal="Every host reaches every other one at the rate of its port, in each direction",
    question="How many bytes a second go from each host to each other one while all of them are busy, and "
    "which part is to blame where it is fewer?",
    action="Of a node or one direction of its port: cable, transceiver, port errors and link speed there "
    "(`ethtool -S`, `ethtool`), the switch's port. Of a link or one way of it: the path between the two, a "
    "trunk or a route that only they use",
)
def test_pairs(anubis_pairs: PairsFixture, anubis_node: NodeFixture) -> None:
    """Every pair of hosts reaches its rate each way, and every byte arrives."""
    anubis_pairs.measure(seconds=anubis_node.pick(**SECONDS), repeats=anubis_node.pick(**REPEATS))
