"""List the versions and settings by which the nodes of one hardware class can differ, as text by name."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any

from pytest_anubis.core.inventory import Inventory
from pytest_anubis.hardware.inventory.golden_inventory import OWN

_PLACE = {"name", "pci", "index", "unreadable", "usable"}
"""Fields for a part's place, which are equal on all nodes or not comparable."""


def node_facts(inventory: Inventory) -> dict[str, str]:
    """Return an inventory as facts that nodes can share, without serial numbers, counters or loads.

    Returns:
        Name -> value, e.g. ``accelerator vbios``, ``bios``, ``driver nvidia``, ``kernel``. Different values
        of parts of one kind are joined.
    """
    facts: dict[str, str] = {}
    for name, parts in (
        ("", (inventory.system,)),
        ("cpu", (inventory.processor,)),
        ("accelerator", inventory.accelerators),
        ("disk", inventory.disks),
        ("nic", inventory.nics),
    ):
        facts.update(_part_facts(name, parts))
    for name, value in (
        ("kernel", inventory.kernel),
        ("os", inventory.os),
        *((f"driver {key}", value) for key, value in sorted(inventory.drivers.items())),
        *((f"software {key}", value) for key, value in sorted(inventory.software.items())),
    ):
        if value:
            facts[name] = value
    return facts


def _part_facts(name: str, parts: Iterable[Any]) -> Iterator[tuple[str, str]]:
    found: dict[str, set[str]] = {}
    for part in parts:
        for field in dataclasses.fields(part):
            value = getattr(part, field.name)
            if value is not None and field.name not in OWN | _PLACE:
                found.setdefault(field.name, set()).add(_text(value))
    for field_name, values in found.items():
        yield f"{name} {field_name.replace('_', ' ')}".strip(), " + ".join(sorted(values))


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:g}" if isinstance(value, float) else str(value)
