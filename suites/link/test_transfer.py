"""The way between host and device, of each device alone and of all together."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from pytest_anubis import DeviceFixture, MetricFixture, NodeFixture

SIZES = {"smoke": 256 << 20, "standard": 1 << 30, "soak": 1 << 30}
LOADED = {"smoke": 0.2, "standard": 0.5, "soak": 1.0}
"""Seconds of copies of one value of all cards: the processes begin within a millisecond of each other."""

ACTION = (
    "Compare the negotiated width and generation of the PCIe link with what the slot has, read "
    "its replay count, and reseat the device"
)

pytestmark = pytest.mark.anubis(
    component="memory.transfer", goal="Data reaches every device at the rate of its link"
)


@pytest.mark.anubis(
    scope="device",
    cost="5s",
    cards=1,
    timing="host",
    metrics=["host_to_device_rate", "device_to_host_rate"],
    question="Does the link between host and device deliver its full rate, both ways?",
    action=ACTION,
)
@pytest.mark.usefixtures("torch_settings")
def test_host_device_copy(
    anubis_metric: MetricFixture, anubis_device: DeviceFixture, anubis_node: NodeFixture
) -> None:
    """Large copies run at the link's rate, and every byte comes back."""
    from suites.link.transfer import Transfer

    size = anubis_node.pick(**SIZES)
    transfer = Transfer(size, anubis_device.torch)
    for name, move in (
        ("host_to_device_rate", transfer.to_device),
        ("device_to_host_rate", transfer.to_host),
    ):
        anubis_metric.measure(
            name,
            move,
            work=float(size),
            unit="GB/s",
            better="higher",
            nominal=anubis_device.nominal("pcie"),
        )
    wrong = transfer.wrong_bytes(anubis_device.synchronize)
    assert wrong == 0, f"{wrong} of {size} bytes differ after a copy there and back"


@pytest.mark.anubis(
    scope="device",
    cost="2.5s",
    cards=1,
    timing="host",
    metrics=["both_ways_rate"],
    question="Does the link between host and device deliver its full rate both ways at the same time?",
    action=ACTION + "; one way alone normal: the copy engines, or the memory of the host",
)
@pytest.mark.usefixtures("torch_settings")
def test_both_ways(
    anubis_metric: MetricFixture, anubis_device: DeviceFixture, anubis_node: NodeFixture
) -> None:
    """Copies there and back at once run at the link's rate, the sum of both, and every byte arrives."""
    if anubis_device.kind not in ("cuda", "xpu"):
        pytest.skip("not applicable: an accelerator with one queue")
    from suites.link.transfer import Transfer

    size = anubis_node.pick(**SIZES)
    transfer = Transfer(size, anubis_device.torch)
    # Without nominal=: the host's bridges and memory may carry less than both ways of the link.
    anubis_metric.measure(
        "both_ways_rate", transfer.both_ways, work=2.0 * size, unit="GB/s", better="higher"
    )
    wrong = transfer.wrong_bytes_of_both(anubis_device.synchronize)
    assert wrong == 0, f"{wrong} of twice {size} bytes differ after copies both ways at once"


@pytest.mark.anubis(
    scope="device",
    cost="30s",
    cards=1,
    profiles=("standard", "soak"),
    timing="host",
    metrics=["pageable_to_device_rate", "pageable_to_host_rate"],
    question="How quickly does data reach the device, and the host, from memory that is not locked?",
    action="If the copies of page-locked memory are normal, it is the host: clock of its cores, memory "
    "bandwidth, NUMA placement, an IOMMU that translates every page",
)
@pytest.mark.usefixtures("torch_settings")
def test_pageable_copy(
    anubis_metric: MetricFixture, anubis_device: DeviceFixture, anubis_node: NodeFixture
) -> None:
    """Copies from and to ordinary memory run at the class's rate, and every byte comes back."""
    from suites.link.transfer import Transfer

    size = anubis_node.pick(**SIZES)
    transfer = Transfer(size, anubis_device.torch, locked=False)
    moves: list[tuple[str, Callable[[], None]]] = [
        ("pageable_to_device_rate", transfer.to_device),
        ("pageable_to_host_rate", transfer.to_host),
    ]
    for name, move in moves:
        anubis_metric.measure(
            name, move, work=float(size), unit="GB/s", better="higher", clock="host"
        )
    wrong = transfer.wrong_bytes(anubis_device.synchronize)
    assert wrong == 0, f"{wrong} of {size} bytes differ after a copy there and back"


@pytest.mark.anubis(
    scope="node",
    cost={"cpu": "0.1s", "accelerator": {1: "0.1s", 2: "12s", 8: "20s"}},
    cards=2,
    deadline="420s",
    metrics=["all_to_device_rate", "all_to_host_rate", "all_both_ways_rate"],
    question="Does every card keep the rate of its link while all of them copy at once?",
    action="The test's output names the slowest card. If it is normal alone, compare what it "
    "shares with its neighbours: PCIe switch, socket, memory channels; else " + ACTION,
)
def test_copies_of_all_cards(
    anubis_metric: MetricFixture,
    anubis_node: NodeFixture,
    record_property: Callable[[str, object], None],
) -> None:
    """All cards copy at once, each from a process near it: the slowest has its rate, every byte arrives."""
    import torch

    kind = "cuda" if torch.cuda.device_count() else "xpu"
    count = getattr(torch, kind).device_count()
    if count < 2:
        pytest.skip("not applicable: fewer than two accelerators of one kind")
    from suites.link.all_cards import WAYS, AllCards, Slowest

    size, loaded = anubis_node.pick(**SIZES), anubis_node.pick(**LOADED)
    with AllCards(kind, count, size) as cards:
        for way in WAYS:
            slowest = Slowest(cards, way, cards.times_within(way, loaded))
            # Without nominal=: cards may share the link above a switch.
            anubis_metric.collect(f"all_{way}_rate", slowest, unit="GB/s", better="higher")
            record_property(f"slowest_{way}", slowest.text)
            sys.stdout.write(f"all_{way}_rate: slowest was {slowest.text}\n")
        wrong = {f"{kind}:{card}": bad for card, bad in enumerate(cards.wrong_bytes()) if bad}
    assert not wrong, f"bytes that arrived changed while all cards copied: {wrong}"
