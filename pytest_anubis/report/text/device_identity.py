"""Which piece of hardware a device name means: what someone needs who must pull the right card."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_CARD = (
    *(("name", "model"), ("pci", "slot"), ("serial", "serial number"), ("part", "part number")),
    *(("uuid", "UUID"), ("vbios", "VBIOS"), ("firmware", "firmware")),
)


def identity(device: str, inventory: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return what the inventory says about a device, as (label, text) pairs, most telling first.

    Args:
        device: ``cuda:3``, ``cpu``, ``node``, ...; accelerators are counted over the whole node, or known
            by their slot.
        inventory: A node's inventory as plain data; may be empty or of another shape.
    """
    kind, _, number = device.partition(":")
    listed = inventory.get("accelerators")
    cards = listed if isinstance(listed, list | tuple) else ()
    if number.isdecimal() and int(number) < len(cards):
        return _pairs(cards[int(number)], _CARD)
    if kind == "cpu":
        labels = (("model", "model"), ("microcode", "microcode"), ("sockets", "sockets"))
        return _pairs(inventory.get("processor"), labels)
    # The inventory's gate calls a card "GPU 2 (0000:3a:00.0)": by its slot.
    for card in cards:
        if isinstance(card, Mapping) and card.get("pci") and str(card["pci"]) in device:
            return _pairs(card, _CARD)
    labels = (("product", "product"), ("serial", "serial number"), ("bios", "BIOS"))
    return _pairs(inventory.get("system"), labels)


def identity_text(device: str, inventory: Mapping[str, Any]) -> str:
    """Return the identity in one line, empty when nothing is known."""
    return ", ".join(
        value if label == "model" else f"{label} {value}"
        for label, value in identity(device, inventory)
    )


def _pairs(part: Any, labels: tuple[tuple[str, str], ...]) -> list[tuple[str, str]]:
    if not isinstance(part, Mapping):
        return []
    return [(label, str(part[key])) for key, label in labels if part.get(key) not in (None, "")]
