"""Read a node's inventory (a run does at its start and end), and convert it to plain data and back.

`anubis doctor` reads it, too.
"""

from __future__ import annotations

import os
import platform
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pytest_anubis.codec import CodecError, from_plain, shown, to_plain
from pytest_anubis.core.inventory import REDACTED, Inventory
from pytest_anubis.hardware.inventory.amd_inventory import read_amd
from pytest_anubis.hardware.inventory.frameworks import read_software
from pytest_anubis.hardware.inventory.host_inventory import (
    bus_accelerators,
    pci_place,
    read_memory,
    read_processor,
    read_system,
)
from pytest_anubis.hardware.inventory.node_name import machine_id
from pytest_anubis.hardware.inventory.nvidia_inventory import NO_ANSWER, Cards, NvidiaReading
from pytest_anubis.hardware.inventory.periphery import read_disks, read_nics
from pytest_anubis.hardware.text_files import Files, key_values

SCHEMA = 1

VENDOR_SECONDS = 60.0
"""Seconds within which a vendor's library must answer: sixteen cards need up to 48 s (NVIDIA states 1 to 3 s
for each without persistence mode), and a hanging card never answers."""


class InventoryError(ValueError):
    """Plain data that is not an inventory; the one-line message says where and why."""


def read_inventory(
    root: Path = Path("/"),
    *,
    pynvml: Any = None,
    deadline: float = VENDOR_SECONDS,
) -> Inventory:
    """Read the inventory of this machine without importing torch.

    Args:
        root: Folder of /proc and /sys; only tests pass another one.
        pynvml: NVML bindings to use; default the installed ones.
        deadline: Seconds within which each vendor's library must answer.

    Returns:
        The inventory. Hardware raises no errors: absent readings are None, failed ones are noted.
    """
    files = Files(root)
    reading = NvidiaReading(pynvml)
    nvidia, nvidia_drivers, nvidia_notes = _in_time("nvml", reading.read, deadline, reading.so_far)
    amd, amd_drivers, amd_notes = _in_time("amdsmi", lambda: read_amd(files), deadline)
    release = key_values(files.text("/etc/os-release"), "=")
    return Inventory(
        node=platform.node() or "unknown",
        machine=machine_id(files),
        taken=datetime.now(UTC).isoformat(timespec="seconds"),
        system=read_system(files),
        processor=read_processor(files),
        memory=read_memory(files),
        accelerators=tuple(replace(card, **pci_place(files, card.pci)) for card in (*nvidia, *amd)),
        on_bus=bus_accelerators(files),
        disks=read_disks(files),
        nics=read_nics(files),
        kernel=platform.release() or None,
        os=release.get("PRETTY_NAME", "").strip('"') or platform.system() or None,
        architecture=platform.machine() or None,
        drivers={**nvidia_drivers, **amd_drivers},
        software=read_software(files, os.environ),
        # Last: the readers above add to it.
        unreadable=(*nvidia_notes, *amd_notes, *files.unreadable),
    )


def inventory_to_plain(inventory: Inventory) -> dict[str, Any]:
    """Return the inventory as JSON-ready data; readings that are None are left out."""
    return {"schema": SCHEMA, **to_plain(inventory)}


def inventory_from_plain(data: Any, *, where: str = "inventory") -> Inventory:
    """Build an inventory from plain data.

    Args:
        data: Result of `inventory_to_plain`, possibly read from a file.
        where: Its origin, for the message.

    Raises:
        InventoryError: A field is missing, unknown or of the wrong type; one line that names it.
    """
    try:
        return from_plain(Inventory, inventory_fields(data, where=where), where=where)
    except CodecError as error:
        raise InventoryError(str(error)) from error


def inventory_fields(data: Any, *, where: str = "inventory") -> dict[str, Any]:
    """Return an inventory's fields from plain data, without their schema version.

    Raises:
        InventoryError: The data are no mapping, or have another schema version.
    """
    if not isinstance(data, Mapping):
        raise InventoryError(f"{where}: expected an object with the inventory's fields")
    schema = data.get("schema")
    if type(schema) is not int or schema != SCHEMA:
        raise InventoryError(
            f"{where}: the inventory's schema is {shown(schema)}, this version reads {SCHEMA}; record it "
            "again with 'anubis doctor --json', or measure again"
        )
    return {name: item for name, item in data.items() if name != "schema"}


def redact(inventory: Inventory) -> Inventory:
    """Return the inventory without serial numbers, unique ids and network addresses (``--anubis-redact``)."""

    def hide(value: str | None) -> str | None:
        return REDACTED if value is not None else None

    return replace(
        inventory,
        machine=hide(inventory.machine),
        system=replace(inventory.system, serial=hide(inventory.system.serial)),
        accelerators=tuple(
            replace(
                card,
                uuid=hide(card.uuid),
                hip_uuid=hide(card.hip_uuid),
                serial=hide(card.serial),
            )
            for card in inventory.accelerators
        ),
        disks=tuple(replace(disk, serial=hide(disk.serial)) for disk in inventory.disks),
        nics=tuple(replace(nic, address=hide(nic.address)) for nic in inventory.nics),
    )


def _in_time(
    name: str,
    read: Callable[[], Cards],
    deadline: float,
    so_far: Callable[[str], Cards] | None = None,
) -> Cards:
    """Read in a daemon thread, and leave it running if a card hangs its library."""
    found: list[Cards] = []
    failed: list[str] = []

    def work() -> None:
        try:
            found.append(read())
        except Exception as error:  # a library must never stop the inventory
            failed.append(f"{name}: {type(error).__name__}: {error}")

    thread = threading.Thread(target=work, name=f"anubis-{name}", daemon=True)
    thread.start()
    thread.join(deadline)
    if found:
        return found[0]
    reason = f"{NO_ANSWER} within {deadline:g} s"
    if so_far is not None and not failed:
        return so_far(reason)
    return (), {}, tuple(failed) or (f"{name}: {reason}",)
