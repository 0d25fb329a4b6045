"""Derive the golden inventory of a hardware class from the majority of its nodes.

`anubis learn` keeps it in the baseline, and the gate compares a node with it.
"""

from __future__ import annotations

import dataclasses
import re
import statistics
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, TypeVar

from pytest_anubis.core.inventory import (
    Accelerator,
    Disk,
    Inventory,
    Memory,
    Nic,
    Processor,
    System,
)

T = TypeVar("T")
P = TypeVar("P")

# Fields of one node or one moment, for which a majority is meaningless: identities, counters, places on the
# bus, and values that depend on the load. The gate compares counters with limits instead.
OWN = frozenset((
    "serial", "uuid", "hip_id", "hip_uuid", "address", "unreadable", "ecc_corrected", "ecc_uncorrected",
    "ecc_uncorrected_lifetime", "remapped_corrected", "remapped_uncorrected", "remap_pending", "remap_failed",
    "retired_pages", "spares_low", "spares_none", "sram_threshold", "recovery_action", "memory_free",
    "nvlink_errors", "pcie_replays", "block_errors", "performance_state", "corrected", "uncorrected", "wear",
    "media_errors", "quota", "limit", "numa_node", "bridges",
))  # fmt: skip

# systemd names ports without a slot, such as on USB, by their address, which no other node has.
_NAMED_BY_ADDRESS = re.compile(r"(?:en|wl|ww|ib)x[0-9a-f]{12,}")

# Measured values, which may differ by a few bytes: their median is used.
_MEDIAN = {"total"}


def golden_inventory(inventories: Sequence[Inventory]) -> Inventory:
    """Return for each field the value that more than half of the nodes have.

    A field without such a majority is None, and is not checked. Accelerators are matched by slot, network
    ports by name, and disks by model and size, because their names depend on the order in which they start at
    boot.

    Args:
        inventories: Nodes of one hardware class, each once; a single one is its own golden inventory.

    Returns:
        An inventory with the node name ``golden``, without serial numbers and counters.

    Raises:
        ValueError: There is no inventory.
    """
    if not inventories:
        raise ValueError("a golden inventory needs at least one node's inventory")
    return Inventory(
        node="golden",
        system=_part(System, [i.system for i in inventories]),
        processor=_part(Processor, [i.processor for i in inventories]),
        memory=_part(Memory, [i.memory for i in inventories]),
        accelerators=_accelerators(inventories),
        on_bus=_majority([i.on_bus for i in inventories]),
        disks=_disks(inventories),
        nics=_nics(inventories),
        kernel=_majority([i.kernel for i in inventories]),
        os=_majority([i.os for i in inventories]),
        architecture=_majority([i.architecture for i in inventories]),
        drivers=_table([i.drivers for i in inventories]),
        software=_table([i.software for i in inventories]),
    )


def _majority(values: Iterable[T]) -> T | None:
    """Return the value that more than half share, else None."""
    found = list(values)
    value, count = Counter(found).most_common(1)[0]
    return value if 2 * count > len(found) else None


def _part(cls: type[P], parts: Sequence[P], **fixed: Any) -> P:
    """Merge parts of one kind field by field."""
    values: dict[str, Any] = dict(fixed)
    for field in dataclasses.fields(cls):  # type: ignore[arg-type]  # P is one of our dataclasses
        if field.name in OWN or field.name in fixed:
            continue
        readings = [getattr(part, field.name) for part in parts]
        if field.name in _MEDIAN:
            known = [reading for reading in readings if reading is not None]
            values[field.name] = statistics.median_low(known) if known else None
        else:
            values[field.name] = _majority(readings)
    return cls(**values)


def _accelerators(inventories: Sequence[Inventory]) -> tuple[Accelerator, ...]:
    """Merge the cards by slot if the nodes use the same slots, else by position."""
    count = _majority([len(i.accelerators) for i in inventories])
    groups = _grouped(
        inventories, lambda i: {card.pci: card for card in i.accelerators if card.pci}
    )
    if count is not None and len(groups) != count:
        groups = _grouped(inventories, lambda i: dict(enumerate(i.accelerators)))
    cards = []
    for index, cards_here in enumerate(groups.values()):
        names = Counter(card.name for card in cards_here)
        fixed = {
            "index": index,
            "vendor": cards_here[0].vendor,
            "name": names.most_common(1)[0][0],
        }
        cards.append(_part(Accelerator, cards_here, **fixed))
    return tuple(cards)


def _nics(inventories: Sequence[Inventory]) -> tuple[Nic, ...]:
    groups = _grouped(
        inventories,
        lambda i: {
            nic.name: nic for nic in i.nics if _NAMED_BY_ADDRESS.fullmatch(nic.name) is None
        },
    )
    return tuple(
        _part(Nic, nics, name=name, kind=nics[0].kind)
        for name, nics in groups.items()
        if isinstance(name, str)
    )


def _disks(inventories: Sequence[Inventory]) -> tuple[Disk, ...]:
    """Return the models and sizes of disks that most nodes have, with the usual firmware of each model."""
    sets = [tuple(sorted((d.model or "", d.size or 0) for d in i.disks)) for i in inventories]
    usual = _majority(sets)
    if usual is None:
        return ()
    found = []
    for disk in inventories[sets.index(usual)].disks:
        alike = [
            d for i in inventories for d in i.disks if (d.model, d.size) == (disk.model, disk.size)
        ]
        found.append(_part(Disk, alike, name=disk.name, pci=None))
    return tuple(found)


def _grouped(
    inventories: Sequence[Inventory], parts: Callable[[Inventory], dict[Any, T]]
) -> dict[Hashable, list[T]]:
    """Return key -> parts of all nodes with that key, for keys that more than half of the nodes have."""
    groups: dict[Hashable, list[T]] = {}
    for inventory in inventories:
        for key, part in parts(inventory).items():
            groups.setdefault(key, []).append(part)
    return {key: found for key, found in groups.items() if 2 * len(found) > len(inventories)}


def _table(tables: Sequence[Any]) -> dict[str, str]:
    names = sorted({name for table in tables for name in table})
    merged = ((name, _majority([table.get(name) for table in tables])) for name in names)
    return {name: value for name, value in merged if value is not None}
