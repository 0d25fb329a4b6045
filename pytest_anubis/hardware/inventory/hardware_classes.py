"""Name the hardware class of a node, as a readable key: only nodes of one class are compared.

`node_facts` lists the versions and settings by which nodes of one class can differ.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from pytest_anubis.core.baseline import VIRTUAL
from pytest_anubis.core.inventory import Inventory, Processor
from pytest_anubis.hardware.inventory.golden_inventory import OWN

_GIB = 1 << 30
# Maximum length of a part of the key: file systems allow names of 255 bytes, which eight parts stay below.
_PART_LENGTH = 28

# Attributes in which a node may differ from its own class because hardware is missing or its driver was
# changed. All others must agree before the class's golden inventory applies to the node.
_LIBRARIES = ("cuda", "rocm", "nccl", "rccl")
_LOSABLE = ("count", "cores", "memory", "fabric", "driver", "torch", "lanes", *_LIBRARIES)

ALONE, SIDE_BY_SIDE = "one at a time", "side by side"
"""How a node's accelerators are measured: never two at once, or in several lanes at the same time."""


def hardware_class(
    inventory: Inventory, profile: str, *, lanes: str = ALONE
) -> tuple[str, dict[str, str]]:
    """Return the key of a node's hardware class and the attributes that it is made of.

    The key is safe as a file name. It does not depend on a machine's load, its uptime or the state of its
    links, and changes with every attribute below. A CPU quota is not included, because it is a disturbance
    with which measurements are labelled. A virtual machine's memory is not included either, because the
    hypervisor may change it at any time.

    With accelerators, minor versions that change the speed by several percent are included. So is whether the
    accelerators are measured one at a time or side by side, since the results are not comparable. Without
    accelerators torch's major version is enough.

    Args:
        inventory: The node.
        profile: ``smoke``, ``standard`` or ``soak``.
        lanes: `ALONE` or `SIDE_BY_SIDE`.

    Returns:
        The key, and the attributes ``accelerator``, ``count``, ``cpu``, ``cores``, ``memory``,
        ``fabric``, ``driver``, ``torch`` and ``profile``; with accelerators also ``lanes`` and, if known,
        ``cuda`` or ``rocm`` and ``nccl`` or ``rccl``.
    """
    attributes = {
        "accelerator": _accelerator(inventory),
        "count": str(len(inventory.accelerators)),
        "cpu": _cpu(inventory.processor),
        "cores": str(inventory.processor.usable or inventory.processor.threads or "unknown"),
        "memory": VIRTUAL if inventory.system.virtual else _memory(inventory.memory.total),
        "fabric": _fabric(inventory),
        "driver": _driver(inventory),
        "torch": _major(inventory.software.get("torch")),
        "profile": profile,
    }
    if inventory.accelerators:
        attributes |= _accelerator_software(inventory.software) | {"lanes": lanes}
    return class_key(attributes), attributes


def closest_class(
    attributes: Mapping[str, str], candidates: Mapping[str, Mapping[str, str]]
) -> str | None:
    """Find the class to which a node probably belongs although its own key has no baseline.

    A node that lost an accelerator or a memory module has another key than the healthy nodes of its class.
    Its measurements are not comparable with theirs, but its inventory is.

    Args:
        attributes: The node's attributes.
        candidates: Key -> attributes of the classes that have a golden inventory.

    Returns:
        The key of the class with the fewest differences. None if every class differs in an attribute that a
        node cannot lose, or if two classes are equally close.
    """
    ranked = []
    for key, other in candidates.items():
        differing = [n for n in {*attributes, *other} if attributes.get(n) != other.get(n)]
        if all(name in _LOSABLE for name in differing):
            ranked.append((len(differing), key))
    ranked.sort()
    if not ranked or (len(ranked) > 1 and ranked[0][0] == ranked[1][0]):
        return None
    return ranked[0][1]


def class_key(attributes: Mapping[str, str]) -> str:
    """Return the key for the attributes of `hardware_class`."""
    count = attributes["count"]
    card = slug(attributes["accelerator"])
    parts = [
        f"{count}x-{card}" if count != "0" else "no-accelerator",
        f"{slug(attributes['cpu'])}-{slug(attributes['cores'])}c",
        slug(attributes["memory"]),
        *([slug(attributes["fabric"])] if attributes["fabric"] != "none" else []),
        *([slug(attributes["driver"])] if attributes["driver"] != "none" else []),
        "-".join(
            f"{name}{slug(attributes[name])}"
            for name in ("torch", *_LIBRARIES)
            if name in attributes
        ),
        *([slug(SIDE_BY_SIDE)] if attributes.get("lanes") == SIDE_BY_SIDE else []),
        slug(attributes["profile"]),
    ]
    return "_".join(parts)


_HARDWARE = (
    "accelerator", "count", "cpu", "cores", "memory", "fabric", "driver", "torch", "profile",
)  # fmt: skip
CLASS_ATTRIBUTES = frozenset((*_HARDWARE, "lanes", *_LIBRARIES))
"""Attributes of `hardware_class`; all others of a node were added by hooks or splits."""


def extended_key(attributes: Mapping[str, str], added: Mapping[str, str]) -> str:
    """Return the key of a class with attributes that hooks added or that split the class."""
    return "_".join([class_key(attributes), *_parts(added)])


def split_key(key: str, attributes: Mapping[str, str], more: Mapping[str, str]) -> str:
    """Return the key that a recorded run's class has with further attributes.

    Args:
        key: The recorded key.
        attributes: The run's attributes, including added ones; empty if unknown.
        more: The further attributes.
    """
    known = {name: value for name, value in attributes.items() if name in CLASS_ATTRIBUTES}
    if not known.keys() >= set(_HARDWARE):  # an imported run, whose class has unknown attributes
        return "_".join([key, *_parts(more)])
    added = {name: value for name, value in attributes.items() if name not in known}
    return extended_key(known, added | dict(more))


def split_by(names: Collection[str], facts: Mapping[str, str]) -> dict[str, str]:
    """Return the attributes that split a class; a fact that a node lacks is ``unknown``."""
    return {name: facts.get(name) or "unknown" for name in names}


def _parts(added: Mapping[str, str]) -> list[str]:
    return [slug(f"{name} {added[name]}") for name in sorted(added)]


def slug(text: str) -> str:
    """Return text as lower-case letters, digits, dots and dashes; a long text ends with a digest."""
    plain = re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-.") or "unknown"
    if len(plain) <= _PART_LENGTH:
        return plain
    digest = hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:6]
    return f"{plain[: _PART_LENGTH - 7].rstrip('-.')}-{digest}"


def _accelerator(inventory: Inventory) -> str:
    names = sorted({card.name for card in inventory.accelerators})
    partitioned = any(card.mig for card in inventory.accelerators)
    return " + ".join(names) + (" MIG" if partitioned else "") if names else "none"


def _cpu(processor: Processor) -> str:
    """Return the CPU's name without trademarks; with family and model if a hypervisor hides the name."""
    name = re.sub(
        r"\((R|TM|r|tm)\)|\bCPU\b|\bProcessor\b|@.*|(?<!\d)\d+-Core", " ", processor.model or ""
    )
    name = " ".join(name.split()) or "unknown cpu"
    if not re.search(r"\d", name) and processor.family and processor.model_number:
        name += f" f{processor.family}m{processor.model_number}"
    return name


def _memory(total: int | None) -> str:
    """Round up to the next of 1, 1.5, 2, 3, 4, 6, ... GiB.

    Installed sizes are on these steps, and the kernel always shows a few percent less, so a machine's size is
    always rounded to the same step. The gate reports a missing module.
    """
    if not total:
        return "unknown"
    power = 0.25
    while total > power * _GIB:
        power *= 2
    step = 0.75 * power if power > 0.25 and total <= 0.75 * power * _GIB else power
    return f"{step:g} GiB" if step < 1024 else f"{step / 1024:g} TiB"


def _fabric(inventory: Inventory) -> str:
    """Return the hardware that connects accelerators and nodes, whether its links are up or not."""
    parts = []
    links = max((card.nvlinks or 0 for card in inventory.accelerators), default=0)
    if links:
        parts.append(f"nvlink{links}")
    adapters: dict[str, int] = {}
    for nic in inventory.nics:
        if nic.kind in ("infiniband", "roce"):
            name = f"{'ib' if nic.kind == 'infiniband' else 'roce'}-{nic.model or 'unknown'}"
            adapters[name] = adapters.get(name, 0) + 1
    parts.extend(f"{number}x{name}" for name, number in sorted(adapters.items()))
    return " ".join(parts) or "none"


def _driver(inventory: Inventory) -> str:
    for name in ("nvidia", "amdgpu"):
        if name in inventory.drivers:
            return f"{name}{_major(inventory.drivers[name])}"
    return "none"


def _accelerator_software(software: Mapping[str, str]) -> dict[str, str]:
    """Return the minor versions of torch and of its libraries for computation and communication."""
    found = {"torch": _minor(software.get("torch"))}
    for name in _LIBRARIES:
        wheels = [v for key, v in sorted(software.items()) if key.startswith(f"nvidia-{name}-cu")]
        version = wheels[0] if wheels else software.get(name)
        if version:
            found[name] = _minor(version)
    return found


def _minor(version: str | None) -> str:
    numbers = re.match(r"\d+(?:\.\d+)?", version or "")
    return numbers[0] if numbers else _major(version)


def _major(version: str | None) -> str:
    return version.partition(".")[0].partition("+")[0] if version else "none"


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
                found.setdefault(field.name, set()).add(words(value))
    for field_name, values in found.items():
        yield f"{name} {field_name.replace('_', ' ')}".strip(), " + ".join(sorted(values))


def words(value: object) -> str:
    """Return a field's value as text."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:g}" if isinstance(value, float) else str(value)
