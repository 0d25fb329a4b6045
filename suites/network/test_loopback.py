"""TCP through the loopback interface: the host's network stack, without a wire."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from itertools import cycle
from typing import TYPE_CHECKING

import pytest

from pytest_anubis import MetricFixture, NodeFixture

if TYPE_CHECKING:
    from suites.network.loopback import Loopback

MIB = 1 << 20

CONNECTIONS = 5
"""Connections whose round trips are measured in turn. On one in ten a message takes a quarter longer while
its two processes live, whatever the hardware does; a median over five is rarely that of such ones."""

pytestmark = pytest.mark.anubis(
    component="network.loopback",
    scope="node",
    resources=["cpu", "network"],
    goal="The host moves network data as quickly as its class does",
    action="Look for traffic shaping and firewall rules on lo, compare kernel and CPU settings with a "
    "healthy node, and look for a process that occupies a core",
)


@pytest.fixture
def link() -> Iterator[Loopback]:
    """A connection between two processes, open until the test is torn down."""
    from suites.network.loopback import Loopback

    with Loopback() as connected:
        yield connected


@pytest.fixture
def links() -> Iterator[list[Loopback]]:
    """Connections between two processes each, open until the test is torn down."""
    from suites.network.loopback import Loopback

    with ExitStack() as stack:
        yield [stack.enter_context(Loopback()) for _ in range(CONNECTIONS)]


@pytest.mark.anubis(
    cost="2s",
    metrics=["tcp_rate"],
    version=2,  # the kernel's rate, without Python between two parts of a block
    question="How many bytes a second does one TCP connection carry between two processes?",
)
def test_tcp_rate(anubis_metric: MetricFixture, anubis_node: NodeFixture, link: Loopback) -> None:
    """One connection carries its rate, and what arrives is what was sent."""
    size = anubis_node.pick(smoke=96 * MIB, standard=512 * MIB, soak=2048 * MIB)
    link.rate(size)  # opens the windows
    anubis_metric.collect("tcp_rate", partial(rate, link, size), unit="GB/s", better="higher")
    assert link.intact(64 * MIB), "the bytes that arrived are not the bytes that were sent"


@pytest.mark.anubis(
    cost={"cpu": "2s", "accelerator": "18s"},
    # Where there are accelerators to test `smoke` leaves it to longer profiles.
    profiles={"cpu": ("smoke", "standard", "soak"), "accelerator": ("standard", "soak")},
    metrics=["tcp_round_trip"],
    version=2,  # over several connections
    question="How long does a short message take there and back?",
)
def test_tcp_round_trip(
    anubis_metric: MetricFixture, anubis_node: NodeFixture, links: list[Loopback]
) -> None:
    """A short message is back in time and unchanged."""
    count = anubis_node.pick(smoke=3000, standard=10_000, soak=10_000)
    for link in links:
        link.round_trip(count)
    turns = cycle(links)
    anubis_metric.collect(
        "tcp_round_trip", lambda: round_trip(next(turns), count), unit="us", better="lower"
    )
    intact = [link.intact(MIB) for link in links]
    assert all(intact), "the bytes that arrived are not the bytes that were sent"


@pytest.mark.anubis(
    cost="8s",
    deadline="300s",
    profiles=("standard", "soak"),
    metrics=["socket_rate", "socket_round_trip", "ring_rate", "ring_round_trip"],
    question="How quickly do two processes exchange the same bytes without TCP, and through memory?",
    action="Low with TCP only: filters, shaping or settings of TCP (`tc qdisc show dev lo`, `nft list "
    "ruleset`). Low with the socket, too: the kernel (version, mitigations, security modules). `ring_rate` "
    "low, too: the core or its memory (`ring_round_trip` has notices by the kernel's sockets)",
)
def test_without_tcp(anubis_metric: MetricFixture, anubis_node: NodeFixture) -> None:
    """A socket without TCP, or memory, carries its rate and messages, and what arrives is what was sent."""
    from suites.network.loopback import Loopback

    size = anubis_node.pick(smoke=96 * MIB, standard=512 * MIB, soak=2048 * MIB)
    count = anubis_node.pick(smoke=3000, standard=10_000, soak=10_000)
    for way in ("socket", "ring"):
        with Loopback(way) as link:
            link.rate(size)
            anubis_metric.collect(
                f"{way}_rate", partial(rate, link, size), unit="GB/s", better="higher"
            )
            anubis_metric.collect(
                f"{way}_round_trip", partial(round_trip, link, count), unit="us", better="lower"
            )
            assert link.intact(64 * MIB), f"by {way} other bytes arrived than were sent"


def rate(link: Loopback, size: int) -> float:
    """Return the rate of one transfer in GB/s."""
    return link.rate(size) / 1e9


def round_trip(link: Loopback, count: int) -> float:
    """Return the mean microseconds of so many messages there and back."""
    return link.round_trip(count) * 1e6
