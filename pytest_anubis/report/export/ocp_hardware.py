"""The node under test as ``dutInfo`` of OCP Test & Validation: its parts, their firmware, its software.

An inventory is data of a file, so every shape of it is accepted, and what has another shape is left out.
`ocp_export` and `ocp_steps` use it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pytest_anubis.core.inventory import REDACTED
from pytest_anubis.core.node_map import card_number
from pytest_anubis.core.run import RunRecord

SERIAL = "serial"
"""A trait that is left out: the inventory has it, unless the run was redacted."""

_MAIN_MEMORY = "main memory"


@dataclass(frozen=True, slots=True, kw_only=True)
class TestedNode:
    """A node under test.

    Attributes:
        info: Its ``dutInfo`` as plain data.
        parts: Name of a device in the run -> id of its ``hardwareInfo``.
    """

    __test__ = False

    info: Mapping[str, Any]
    parts: Mapping[str, str]


def tested_node(record: RunRecord) -> TestedNode:
    """Return the node of a run, with a part for every device that the run names."""
    inventory = record.inventory
    devices = list(dict.fromkeys(filter(None, _devices(record))))
    hardware = _host(inventory)
    ids = {name: name for name in hardware}
    software = _software(inventory)
    cards = _items(inventory, "accelerators")
    named = {place: name for name in reversed(devices) if (place := card_number(name)) is not None}
    for place, card in enumerate(cards):
        part = named.get(place, f"accelerator:{place}")
        hardware[part] = _card(card)
        software |= _firmware(part, {"vbios": card.get("vbios"), "firmware": card.get("firmware")})
    for kind, key in (("disk", "disks"), ("network port", "nics")):
        for one in _items(inventory, key):
            part = _text(one.get("name"))
            if (
                part and part not in hardware
            ):  # no name in the inventory replaces a card or the host
                hardware[part] = _other(one, kind)
                software |= _firmware(part, {"firmware": one.get("firmware")})
    for device in devices:
        place = card_number(device)
        slot = next(
            (i for i, c in enumerate(cards) if (pci := _text(c.get("pci"))) and pci in device), None
        )
        place = slot if place is None else place
        if place is not None and place < len(cards):
            ids[device] = named.get(place, f"accelerator:{place}")
        else:
            ids[device] = device
            hardware.setdefault(device, {"name": device})
    traits = {name: text for name, text in record.traits.items() if name != SERIAL}
    system = inventory.get("system")
    product = _text(system.get("product")) if isinstance(system, Mapping) else ""
    info = {
        "dutInfoId": record.node or "unnamed",
        "name": record.node or None,
        "platformInfos": [{"info": product}] if product else None,
        "softwareInfos": [{"softwareInfoId": key, **one} for key, one in software.items()] or None,
        "hardwareInfos": [{"hardwareInfoId": key, **one} for key, one in hardware.items()] or None,
        "metadata": {  # which may not be nested
            "hardware_class": record.hardware_class or None,
            **{f"attribute {name}": text for name, text in record.attributes.items()},
            **{f"trait {name}": text for name, text in traits.items()},
        },
    }
    return TestedNode(info=info, parts=ids)


def _devices(record: RunRecord) -> Iterable[str]:
    yield from record.devices
    yield from (plan.device for plan in record.planned)
    yield from (one.device for one in record.measurements)
    yield from (one.device for one in record.verdicts)
    yield from (one.device for one in record.hardware)


def _host(inventory: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the chassis, the processor and the main memory by their names in a run."""
    system, processor, memory = (
        found if isinstance(found := inventory.get(key), Mapping) else {}
        for key in ("system", "processor", "memory")
    )
    return {
        "node": {
            "name": _text(system.get("product")) or "node",
            "manufacturer": _known(system.get("vendor")),
            "serialNumber": _known(system.get("serial")),
            "partType": "chassis",
        },
        "cpu": {
            "name": _text(processor.get("model")) or "cpu",
            "manufacturer": _known(processor.get("vendor")),
            "revision": _known(processor.get("microcode")),
            "partType": "CPU",
        },
        "memory": {
            "name": _MAIN_MEMORY,
            "version": f"{size} bytes" if (size := _text(memory.get("total"))) else None,
            "partType": "memory",
        },
    }


def _card(card: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": _text(card.get("name")) or "accelerator",
        "manufacturer": _known(card.get("vendor")),
        "serialNumber": _known(card.get("serial")),
        "partNumber": _known(card.get("part")),
        "location": _known(card.get("pci")),
        "partType": "accelerator",
    }


def _other(part: Mapping[str, Any], kind: str) -> dict[str, Any]:
    return {
        "name": _text(part.get("model")) or _text(part.get("name")),
        "serialNumber": _known(part.get("serial")),
        "location": _known(part.get("pci")),
        "partType": kind,
    }


def _firmware(part: str, versions: Mapping[str, object]) -> dict[str, dict[str, Any]]:
    return {
        f"{name}:{part}": {"name": f"{name} of {part}", "version": text, "softwareType": "FIRMWARE"}
        for name, version in versions.items()
        if (text := _known(version))
    }


def _software(inventory: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    system = inventory.get("system")
    bios = system.get("bios") if isinstance(system, Mapping) else None
    groups: tuple[tuple[str, str, object], ...] = (
        ("bios", "FIRMWARE", {"bios": bios}),
        ("os", "SYSTEM", {"kernel": inventory.get("kernel"), "os": inventory.get("os")}),
        ("driver", "SYSTEM", inventory.get("drivers")),
        ("software", "APPLICATION", inventory.get("software")),
    )
    return {
        f"{group}:{name}": {"name": str(name), "version": text, "softwareType": kind}
        for group, kind, versions in groups
        if isinstance(versions, Mapping)
        for name, version in versions.items()
        if (text := _known(version))
    }


def _items(inventory: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    found = inventory.get(key)
    return (
        [one for one in found if isinstance(one, Mapping)]
        if isinstance(found, list | tuple)
        else []
    )


def _text(value: object) -> str:
    """Return a cell of an inventory as text; empty if it is unknown or redacted."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    text = str(value).strip()
    return "" if text == REDACTED else text


def _known(value: object) -> str | None:
    return _text(value) or None
