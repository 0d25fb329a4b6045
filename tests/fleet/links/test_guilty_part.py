"""On real sockets between simulated hosts, the part of the network that is slow is named, and no other."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from pytest_anubis.benchmarking.hosts.pair_group import PairGroup
from pytest_anubis.benchmarking.hosts.simulated_hosts import SimulatedHosts
from pytest_anubis.fleet.links.attribution import Part
from pytest_anubis.fleet.links.pair_plans import round_robin
from tests.benchmarking.hosts.connected_hosts import connected_hosts

HOSTS, RATE = 4, 12.5e6


def slow_node(hosts: SimulatedHosts) -> None:
    hosts.shape(1, send=RATE / 2, receive=RATE * 0.6)


def slow_sending(hosts: SimulatedHosts) -> None:
    hosts.shape(2, send=RATE / 2)


def slow_receiving(hosts: SimulatedHosts) -> None:
    hosts.shape(3, receive=RATE / 2)


@pytest.fixture(scope="module")
def network() -> Iterator[tuple[SimulatedHosts, PairGroup]]:
    """Hosts and their processes, which have met."""
    with connected_hosts(HOSTS, RATE) as found:
        yield found


@pytest.mark.alone
@pytest.mark.parametrize(
    ("shape", "guilty"),
    [
        (SimulatedHosts.reset, []),
        (slow_node, [Part("node", (1,))]),
        (slow_sending, [Part("send", (2,))]),
    ],
    ids=["nothing", "node", "sending"],
)
def test_the_slow_part_of_a_network_is_named(
    network: tuple[SimulatedHosts, PairGroup],
    shape: Callable[[SimulatedHosts], object],
    guilty: list[Part],
) -> None:
    hosts, group = network
    hosts.reset()
    shape(hosts)
    plan = round_robin(HOSTS)
    _, found = group.find_guilty(plan, size=group.size_for(plan, 0.04), repeats=3)
    assert [one.part for one in found] == guilty


@pytest.mark.alone
def test_the_slow_direction_is_named_when_all_send_to_one_at_once(
    network: tuple[SimulatedHosts, PairGroup],
) -> None:
    hosts, group = network
    hosts.reset()
    slow_receiving(hosts)
    for _ in range(3):  # what others do may hide it
        _, found = group.find_guilty_hosts(size=1 << 18, repeats=3)
        if found:
            break
    assert [one.part for one in found] == [Part("receive", (3,))]
