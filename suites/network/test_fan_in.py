"""All hosts to one and back, each host in turn: what a port that many send to at once gets."""

from __future__ import annotations

import pytest

from pytest_anubis import NodeFixture, PairsFixture

REPEATS = {"smoke": 3, "standard": 3, "soak": 20}
"""Runs of the plan: 32 hosts have 64 rounds of 31 blocks, 200 MB together."""


@pytest.mark.anubis(
    component="network.fan",
    scope="node",
    cost="12s",
    deadline="1800s",
    profiles=("standard", "soak"),
    metrics=["fan_in_rate", "fan_out_rate"],
    goal="Every host can be the one to which all others send, as where activations are gathered",
    question="How many bytes a second reach each host from all others at once, and all others from it, and "
    "which host is slower than the rest?",
    action="Of receiving: drops and queues of the switch's port (`ethtool -S` on both sides), flow control, "
    "the host's receive buffers. Of sending: cable, transceiver and link speed there (`ethtool`)",
)
def test_fan_in(anubis_pairs: PairsFixture, anubis_node: NodeFixture) -> None:
    """Every host gets a block from all others at once and sends one to each, and every byte arrives."""
    anubis_pairs.fan_in(repeats=anubis_node.pick(**REPEATS))
