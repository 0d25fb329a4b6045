"""Nominal rates of links and ports: by what a part could do, and none where that is not known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_anubis.core.inventory import Accelerator, Nic
from pytest_anubis.hardware.nominal_rates import (
    adapters_rate,
    nvlink_rate,
    pcie_rate,
    port_rate,
    slowest_nvlink_rate,
)

CARD = Accelerator(
    index=0,
    vendor="nvidia",
    name="H100",
    link_generation_max=5,
    link_width_max=16,
    nvlinks=18,
    nvlink_speed=26562,
    fabric="completed",
)


@pytest.mark.parametrize(
    ("generation", "width", "gigabytes", "name"),
    [
        (1, 16, 4.0, "PCIe 1.0 x16"),
        (3, 16, 15.75, "PCIe 3.0 x16"),
        (4, 8, 15.75, "PCIe 4.0 x8"),
        (5, 16, 63.02, "PCIe 5.0 x16"),
        (6, 16, 121.0, "PCIe 6.0 x16"),
    ],
)
def test_pcie_carries_its_lanes(generation: int, width: int, gigabytes: float, name: str) -> None:
    rate = pcie_rate(replace(CARD, link_generation_max=generation, link_width_max=width))
    assert rate is not None
    assert rate.of == name
    assert rate.value / 1e9 == pytest.approx(gigabytes, rel=1e-3)


def test_a_link_that_trained_down_keeps_its_nominal_rate() -> None:
    assert pcie_rate(replace(CARD, link_generation=1, link_width=4)) == pcie_rate(CARD)


@pytest.mark.parametrize(
    "card",
    [
        replace(CARD, link_generation_max=None),
        replace(CARD, link_width_max=None),
        replace(CARD, link_generation_max=9),
    ],
)
def test_a_link_without_generation_or_width_has_none(card: Accelerator) -> None:
    assert pcie_rate(card) is None


def test_nvlinks_add_up_behind_switches_only() -> None:
    rate = nvlink_rate(CARD)
    assert rate is not None
    assert rate.value == pytest.approx(18 * 26.562e9)
    for fabric in (None, "in progress", "failed (NVML error 3)"):
        assert nvlink_rate(replace(CARD, fabric=fabric)) is None


def test_the_slowest_card_counts_and_an_unknown_one_hides_it() -> None:
    slow = replace(CARD, nvlinks=9)
    assert slowest_nvlink_rate([CARD, slow, CARD]) == nvlink_rate(slow)
    assert slowest_nvlink_rate([CARD, replace(CARD, nvlinks=None)]) is None
    assert slowest_nvlink_rate([]) is None


def test_a_port_has_the_rate_of_its_link() -> None:
    ports = [Nic(name="eth0", speed=10.0), Nic(name="ib0", speed=400.0), Nic(name="eth1")]
    fastest, named = port_rate(ports), port_rate(ports, "eth0")
    assert fastest is not None
    assert named is not None
    assert (fastest.value, named.value) == (50e9, 1.25e9)
    assert port_rate(ports, "eth1") is port_rate(ports, "eth7") is None


def test_a_port_carries_no_more_than_its_slot() -> None:
    port = Nic(name="eth0", speed=200.0, link_generation_max=3, link_width_max=16)
    assert port_rate([port]) == pcie_rate(port)
    for slot in (replace(port, link_generation_max=4), replace(port, link_width_max=None)):
        rate = port_rate([slot])
        assert rate is not None
        assert rate.value == 25e9


FAST = [
    Nic(
        name=f"mlx5_{i}/1",
        kind="infiniband",
        state="active",
        speed=400.0,
        pci=f"{i}:00.0",
        model="a",
    )
    for i in range(4)
]


def test_a_card_has_its_share_of_the_adapters_one_port_each() -> None:
    cards = [CARD] * 8
    second = replace(FAST[0], name="mlx5_9/1", pci="0:00.1")  # the other port of the first adapter
    storage = replace(FAST[0], name="mlx5_8/1", speed=800.0, pci="8:00.0", model="b")
    others = [second, storage, Nic(name="eth0", speed=800.0), replace(storage, driver="efa")]
    rate = adapters_rate([*FAST, *others], cards)
    assert rate is not None
    assert rate.value == 4 * 50e9 / 8
    for worse in (replace(FAST[3], speed=100.0), replace(FAST[3], speed=None, state="down")):
        assert adapters_rate([*FAST[:3], worse, *others], cards) == rate
    assert adapters_rate([Nic(name="eth0", speed=800.0)], cards) is adapters_rate(FAST, []) is None


def test_a_card_gets_no_more_of_the_adapters_than_its_slot_carries() -> None:
    assert adapters_rate(FAST, [CARD] * 2) == pcie_rate(CARD)
    unknown = replace(CARD, link_width_max=None)
    rate = adapters_rate(FAST, [unknown] * 2)
    assert rate is not None
    assert rate.value == 2 * 50e9
