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

_OTHER = {"serialNumber": "serial", "location": "pci"}
_CARD = {
    "manufacturer": "vendor",
    "serialNumber": "serial",
    "partNumber": "part",
    "location": "pci",
}
_CHASSIS = {"manufacturer": "vendor", "serialNumber": "serial"}
_PROCESSOR = {"manufacturer": "vendor", "revision": "microcode"}
"""Field of the format -> reading of the inventory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TestedNode:
    """A node under test."""

    __test__ = False

    info: Mapping[str, Any]  # its ``dutInfo`` as plain data
    parts: Mapping[str, str]  # name of a device in the run -> id of its ``hardwareInfo``


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
        hardware[part] = _part("accelerator", _text(card.get("name")), card, _CARD)
        software |= _firmware(part, {"vbios": card.get("vbios"), "firmware": card.get("firmware")})
    for kind, key in (("disk", "disks"), ("network port", "nics")):
        for one in _items(inventory, key):
            part = _text(one.get("name"))
            # No name in the inventory replaces a card or the host.
            if part and part not in hardware:
                hardware[part] = _part(kind, _text(one.get("model")) or part, one, _OTHER)
                software |= _firmware(part, {"firmware": one.get("firmware")})
    for device in devices:
        place = card_number(device)
        if place is None:
            slots = (
                i for i, c in enumerate(cards) if (pci := _text(c.get("pci"))) and pci in device
            )
            place = next(slots, None)
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
        "node": _part("chassis", _text(system.get("product")) or "node", system, _CHASSIS),
        "cpu": _part("CPU", _text(processor.get("model")) or "cpu", processor, _PROCESSOR),
        "memory": {
            "name": "main memory",
            "version": f"{size} bytes" if (size := _text(memory.get("total"))) else None,
            "partType": "memory",
        },
    }


def _part(
    kind: str, name: str, found: Mapping[str, Any], fields: Mapping[str, str]
) -> dict[str, Any]:
    """Return a part of the node; `fields` are the names of the format and of the inventory."""
    known = {field: _known(found.get(key)) for field, key in fields.items()}
    return {"name": name or kind, **known, "partType": kind}


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
