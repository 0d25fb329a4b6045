"""The identity of a device from the inventory: slot, serial number and model of the card to pull.

`html_blocks` uses it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_anubis.core.node_map import card_number

_CARD = (
    *(("name", "model"), ("pci", "slot"), ("serial", "serial number"), ("part", "part number")),
    *(("uuid", "UUID"), ("vbios", "VBIOS"), ("firmware", "firmware")),
)


def identity(device: str, inventory: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return a device's entries in the inventory as (label, text) pairs, the most important first.

    Args:
        device: ``cuda:3``, ``cpu``, ``node``, ...; an accelerator has its number on the node, or its slot.
        inventory: A node's inventory as plain data; may be empty or of another shape.
    """
    number = card_number(device)
    listed = inventory.get("accelerators")
    cards = listed if isinstance(listed, list | tuple) else ()
    if number is not None and number < len(cards):
        return _pairs(cards[number], _CARD)
    if device.partition(":")[0] == "cpu":
        labels = (("model", "model"), ("microcode", "microcode"), ("sockets", "sockets"))
        return _pairs(inventory.get("processor"), labels)
    # The gate names a card by its slot: "GPU 2 (0000:3a:00.0)".
    for card in cards:
        if isinstance(card, Mapping) and card.get("pci") and str(card["pci"]) in device:
            return _pairs(card, _CARD)
    labels = (("product", "product"), ("serial", "serial number"), ("bios", "BIOS"))
    return _pairs(inventory.get("system"), labels)


def identity_text(device: str, inventory: Mapping[str, Any]) -> str:
    """Return the identity in one line; empty if nothing is known."""
    return ", ".join(
        value if label == "model" else f"{label} {value}"
        for label, value in identity(device, inventory)
    )


def _pairs(part: Any, labels: tuple[tuple[str, str], ...]) -> list[tuple[str, str]]:
    if not isinstance(part, Mapping):
        return []
    return [(label, str(part[key])) for key, label in labels if part.get(key) not in (None, "")]
