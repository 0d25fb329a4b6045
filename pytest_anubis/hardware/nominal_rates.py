"""What links and ports could deliver at best, in bytes per second, by an inventory.

A PCIe link counts with what its card and its slot could do, so that one that trained down shows by the share
that it reaches. A port counts with its present speed, and NVLinks with that of the slowest which is up, since
nothing says what they could do at most: one that trained down lowers its nominal rate. `device_parameters`,
`fixtures` and `pair_fixtures` use it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pytest_anubis.core.inventory import Accelerator, Nic
from pytest_anubis.core.nominal_rate import NominalRate

_LANE = {
    1: 2.5e9 / 8 * 8 / 10,
    2: 5e9 / 8 * 8 / 10,
    3: 8e9 / 8 * 128 / 130,
    4: 16e9 / 8 * 128 / 130,
    5: 32e9 / 8 * 128 / 130,
    6: 64e9 / 8 * 242 / 256,
}
"""Bytes per second of one lane one way by generation: transfers per second of the PCI Express specifications
1.0 to 6.0, times the share that their line codes leave (8b/10b, 128b/130b, 242 of 256 bytes of a flit).
Headers of packets are included."""

TCP = 25e9 / 8
"""Rate of a port up to which one process reaches most of it by TCP. What it reaches of a faster one depends
on the processor, so that the port's rate says nothing about it."""


def pcie_rate(part: Accelerator | Nic) -> NominalRate | None:
    """Return what a PCIe link carries one way; None if its generation or width is unknown."""
    generation, width = part.link_generation_max, part.link_width_max
    lane = _LANE.get(generation or 0)
    if lane is None or not width:
        return None
    return NominalRate(value=lane * width, of=f"PCIe {generation}.0 x{width}")


def nvlink_rate(card: Accelerator) -> NominalRate | None:
    """Return what all NVLinks of a card carry one way; None without a fabric of switches.

    Without switches, cards are joined in pairs by some of their links, and the inventory does not say which.
    """
    if not card.nvlinks or not card.nvlink_speed or card.fabric != "completed":
        return None
    return NominalRate(
        value=card.nvlinks * card.nvlink_speed * 1e6,
        of=f"{card.nvlinks} NVLinks of {card.nvlink_speed / 1e3:.3g} GB/s",
    )


def slowest_nvlink_rate(cards: Iterable[Accelerator]) -> NominalRate | None:
    """Return the least `nvlink_rate` of some cards; None if one of them is unknown, or there are none."""
    rates = [nvlink_rate(card) for card in cards]
    known = [rate for rate in rates if rate is not None]
    if not known or len(known) < len(rates):
        return None
    return min(known, key=lambda rate: rate.value)


def port_rate(ports: Iterable[Nic], name: str = "") -> NominalRate | None:
    """Return what a network port carries one way, and no more than its slot.

    Args:
        ports: Those of the inventory.
        name: The port; empty: the fastest one of which the speed is known.
    """
    known = [port for port in ports if port.speed and name in ("", port.name)]
    fastest = max(known, key=lambda port: port.speed or 0.0, default=None)
    if fastest is None or fastest.speed is None:
        return None
    rate = NominalRate(
        value=fastest.speed * 1e9 / 8, of=f"port {fastest.name} of {fastest.speed:g} Gbit/s"
    )
    return min((rate, pcie_rate(fastest) or rate), key=lambda rate: rate.value)


def adapters_rate(ports: Iterable[Nic], cards: Sequence[Accelerator]) -> NominalRate | None:
    """Return what a card's share of the RDMA adapters carries one way; None without adapters or cards.

    Only the most frequent model of adapter counts, since storage often has others of its own. Each has the
    speed of the fastest port of that model, also while it is down or slower, and counts with one port, since
    its slot may carry no more. A card gets no more than its PCIe link carries.

    Args:
        ports: Those of the inventory.
        cards: All accelerators of the node, which share the adapters.
    """
    models: dict[str | None, dict[str, float]] = {}
    for port in ports:
        if port.kind in ("infiniband", "roce") and port.driver != "efa":
            adapter = port.pci.rpartition(".")[0] if port.pci else port.name.partition("/")[0]
            speeds = models.setdefault(port.model, {})
            speeds[adapter] = max(port.speed or 0.0, speeds.get(adapter, 0.0))
    adapters = max(
        models.values(), key=lambda speeds: (len(speeds), max(speeds.values())), default={}
    )
    speed = max(adapters.values(), default=0.0)
    if not speed or not cards:
        return None
    share = NominalRate(
        value=len(adapters) * speed * 1e9 / 8 / len(cards),
        of=f"a share of 1/{len(cards)} of {len(adapters)} adapters of {speed:g} Gbit/s",
    )
    slots = [rate for card in cards if (rate := pcie_rate(card)) is not None]
    return min([share, *slots], key=lambda rate: rate.value)
