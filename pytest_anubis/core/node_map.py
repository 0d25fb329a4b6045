"""Where on a node things are: PCIe bridges and NUMA node of each device, and the memory rows with errors.

`places_of` reads the places from an inventory. `validator.surveying.shared_parts` finds the `SharedPart` that
slow devices have in common, `hardware.telemetry.error_places` the `ModuleErrors`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pytest_anubis.core.field_types import Count, Share

PartKind = Literal["switch", "socket", "all"]
Spread = Literal["row", "scattered"]

_SORTS = ("accelerators", "disks", "nics")
"""Lists of devices in an inventory."""

MAX_BRIDGES = 32
"""Bridges above a device that are read from an inventory; real ones have about five."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a device is on its node."""

    sort: str  # list of the inventory that has it: ``accelerators``, ``disks`` or ``nics``
    numa_node: int | None = None  # its NUMA node; None if unknown
    # PCI addresses of the bridges above it, the nearest first, the root port last
    bridges: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedPart:
    """A part of a node that explains by itself why all devices below it are slow; it decides nothing."""

    # ``switch``: a PCIe bridge; ``socket``: a NUMA node; ``all``: what all devices of a kind share
    kind: PartKind
    name: str  # PCI address of the bridge, or number of the NUMA node; empty for ``all``
    devices: tuple[str, ...]  # the devices below it, in order
    components: tuple[str, ...]  # what they are slow in, the most certain one first
    loss: Share  # their typical relative loss there: .2 is 20 %
    confidence: Share  # posterior probability that this part is to blame, and no other part or none
    alone: bool  # nothing else of these components is slow
    alike: Count  # how many parts of this kind the node has
    # Number of the NUMA node of which a switch has all devices; None if there is none
    socket: int | None = None

    @property
    def called(self) -> str:
        """Its name: ``PCIe switch 0000:58:00.0``, ``NUMA node 1``; of all devices what these share."""
        if self.kind == "switch":
            return f"PCIe switch {self.name}"
        return (
            f"NUMA node {self.name}" if self.kind == "socket" else "power, cooling, driver and host"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleErrors:
    """Where the corrected errors of one memory module are; it decides nothing."""

    module: str  # the module, as the kernel's EDAC driver names it
    errors: Count  # lines of the kernel log that name a row of it
    spread: Spread  # ``row``: one row explains them; ``scattered``: no row does


def card_number(device: str) -> int | None:
    """Return the place of a card among the node's accelerators, 3 of ``cuda:3``; None of another device."""
    kind, _, number = device.partition(":")
    return int(number) if kind.isalpha() and number.isdecimal() and len(number) < 6 else None


def places_of(inventory: Mapping[str, Any], devices: Iterable[str]) -> dict[str, Place]:
    """Return device -> its place, for devices of which a node's inventory, plain data of any shape, has it.

    ``cuda:3`` is the accelerator of this number, other devices have the inventory's name.
    """
    listed = {sort: _parts(inventory.get(sort)) for sort in _SORTS}
    named = {
        str(part["name"]): (sort, part)
        for sort in ("disks", "nics")
        for part in listed[sort]
        if part.get("name")
    }
    found = {}
    cards = listed["accelerators"]
    for device in dict.fromkeys(devices):
        number = card_number(device)
        sort, part = named.get(device, ("", {}))
        if number is not None and number < len(cards):
            sort, part = "accelerators", cards[number]
        place = _place(sort, part)
        if place is not None:
            found[device] = place
    return found


def _parts(listed: Any) -> list[Mapping[str, Any]]:
    if not isinstance(listed, list | tuple):
        return []
    return [part if isinstance(part, Mapping) else {} for part in listed]


def _place(sort: str, part: Mapping[str, Any]) -> Place | None:
    """Return the place that a part's fields give; None without any."""
    node, bridges = part.get("numa_node"), part.get("bridges")
    known = bridges if isinstance(bridges, list | tuple) else ()
    place = Place(
        sort=sort,
        numa_node=node if isinstance(node, int) and not isinstance(node, bool) else None,
        bridges=tuple(one for one in known[:MAX_BRIDGES] if isinstance(one, str)),
    )
    return None if place.numa_node is None and not place.bridges else place
