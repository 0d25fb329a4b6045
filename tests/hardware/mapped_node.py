"""The recorded node of eight cards with a map: two sockets, and four PCIe switches with two cards each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pytest_anubis.core.inventory import Inventory
from pytest_anubis.hardware.telemetry.recorded_node import Recorded, recording_text, replay
from tests.places import RECORDED

SWITCHES = ("0000:16:00.0", "0000:38:00.0", "0000:98:00.0", "0000:b8:00.0")
"""Upstream ports of the switches; the first two hang on NUMA node 0."""


def place(number: int) -> dict[str, Any]:
    """Return the place of the card, port or disk of a number: each has its own port of a switch."""
    switch = SWITCHES[number // 2]
    bus = switch[5:7]
    bridges = (f"0000:{bus}:0{1 + number % 2}.0", switch, f"0000:{bus[0]}0:01.0")
    return {"numa_node": number // 4, "bridges": bridges}


def mapped(inventory: Inventory) -> Inventory:
    """Return the inventory with the place of each card and network port."""
    return replace(
        inventory,
        accelerators=tuple(
            replace(one, **place(n)) for n, one in enumerate(inventory.accelerators)
        ),
        nics=tuple(replace(one, **place(n)) for n, one in enumerate(inventory.nics)),
    )


def mapped_recording() -> str:
    """Return the text of the recorded node's file with the map, and without telemetry."""
    return recording_text(Recorded(inventory=mapped(replay(RECORDED).inventory)))
