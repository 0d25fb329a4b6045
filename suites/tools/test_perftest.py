"""perftest: RDMA through every port of the node and back, from the host's memory and from the cards'."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from pytest_anubis import MetricFixture, NodeFixture
from pytest_anubis.benchmarking.tools import find_tool, tool_version
from suites.tools.nics import (
    Port,
    active_ports,
    adapters,
    both_ends,
    card_options,
    help_of,
    only_here,
    why_not,
)

HINT = "apt install perftest"
VERSION = r"[Vv]ersion:? *(\d[\w.]*)"
LARGE = 8 << 20
"""Bytes of a message where the rate counts: SuperBench and Azure's checks take the same."""

pytestmark = pytest.mark.anubis(
    component="network.rdma",
    scope="node",
    profiles=["standard", "soak"],
    metrics=["ports_up"],
    resources=["network"],
    action="Read speed and width of the port (ibstat) and of its slot (lspci -vv), its error counters, cable "
    "and firmware; compare the port with its neighbours; from cards: is nvidia-peermem loaded, and ACS off?",
)


@pytest.fixture
def ports(anubis_metric: MetricFixture) -> list[Port]:
    """The ports that perftest can loop back, of those whose link is up, whose number is recorded.

    Without an adapter the test does not apply; where perftest is for none of the ports it is not made.
    """
    if not adapters():
        pytest.skip("not applicable: no RDMA adapter")
    up = active_ports()
    anubis_metric.record("ports_up", float(len(up)), unit="count", better="equal")
    left_out = {port: why_not(port) for port in up}
    found = [port for port in up if not left_out[port]]
    if up and not found:
        pytest.skip(left_out[up[0]])
    for why in filter(None, left_out.values()):
        sys.stdout.write(f"not measured: {why}\n")
    return found


@pytest.mark.anubis(
    cost="30s",
    deadline="30min",
    goal="Every adapter moves data at the full rate of its port and its slot",
    question="Which rate does perftest report of each port, looped back?",
)
@pytest.mark.parametrize("program", ["ib_write_bw", "ib_read_bw"])
def test_rdma_bandwidth(
    anubis_metric: MetricFixture,
    anubis_node: NodeFixture,
    record_property: Callable[[str, object], None],
    ports: list[Port],
    program: str,
) -> None:
    """Every port carries large messages at its rate."""
    tool = find_tool(program, hint=HINT)
    version = tool_version(tool, pattern=VERSION, record_property=record_property)
    waits = only_here(help_of(tool))
    times = anubis_node.pick(smoke=1, standard=3, soak=10)
    options = ["--report_gbits", "--size", str(LARGE), "--iters", "5000"]
    for port in ports:
        rates = [both_ends(tool, version, port, options, waits).bandwidth for _ in range(times)]
        assert all(rates), f"{port}: no rate"
        values = [rate for rate in rates if rate is not None]
        rating = anubis_node.nominal("port", f"{port.device}/{port.number}")
        anubis_metric.record(f"rate_{port}", values, unit="Gbit/s", better="higher", nominal=rating)


@pytest.mark.anubis(
    cost="30s",
    deadline="30min",
    goal="Small messages pass every adapter as quickly as on the class's nodes",
    question="Which latency does perftest report of each port, looped back?",
)
def test_rdma_latency(
    anubis_metric: MetricFixture,
    anubis_node: NodeFixture,
    record_property: Callable[[str, object], None],
    ports: list[Port],
) -> None:
    """A message of two bytes passes every port in its time."""
    tool = find_tool("ib_write_lat", hint=HINT)
    version = tool_version(tool, pattern=VERSION, record_property=record_property)
    waits = only_here(help_of(tool))
    times = anubis_node.pick(smoke=1, standard=5, soak=10)
    for port in ports:
        small = ["--size", "2"]
        found = [both_ends(tool, version, port, small, waits).latency for _ in range(times)]
        assert all(found), f"{port}: no latency"
        values = [latency for latency in found if latency is not None]
        anubis_metric.record(f"latency_{port}", values, unit="us", better="lower")


@pytest.mark.anubis(
    cost="3min",
    deadline="60min",
    goal="Every card reaches every adapter at the rate of its class, without the host's memory",
    question="Which rate does perftest report of each pair of a card and a port?",
)
def test_rdma_from_cards(
    anubis_metric: MetricFixture,
    record_property: Callable[[str, object], None],
    ports: list[Port],
    cards: int,
) -> None:
    """Every pair of a card and a port carries large messages at its rate."""
    import torch

    amd = torch.version.hip is not None
    tool = find_tool("ib_write_bw", hint=f"{HINT}, built with {'ROCm' if amd else 'CUDA'}")
    version = tool_version(tool, pattern=VERSION, record_property=record_property)
    help_text = help_of(tool)
    of_card, why = card_options(help_text, amd=amd)
    if why:
        pytest.skip(f"ib_write_bw {why}")
    options = ["--report_gbits", "--size", str(LARGE), "--iters", "2000"]
    for port in ports:
        for card in range(cards):
            there = [option.replace("=0", f"={card}") for option in of_card]
            line = both_ends(tool, version, port, [*options, *there], only_here(help_text))
            assert line.bandwidth, f"{port} and card {card}: no rate"
            name = f"rate_{port}_card_{card}"
            # Without nominal=: between two sockets or switches the host may carry less than the port.
            anubis_metric.record(name, line.bandwidth, unit="Gbit/s", better="higher")
