"""Hardware classes: which nodes may be compared with each other, as one readable key."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping

from pytest_anubis.core.baseline import VIRTUAL
from pytest_anubis.core.inventory import Inventory, Processor

_GIB = 1 << 30
# File systems allow names of 255 bytes; a part is cut long before eight of them could reach that.
_PART_LENGTH = 28

# Attributes that may differ between a node and its own class when hardware is missing or its driver was
# changed; all others must agree before one class's golden inventory says anything about a node.
_LIBRARIES = ("cuda", "rocm", "nccl", "rccl")
_LOSABLE = ("count", "cores", "memory", "fabric", "driver", "torch", "lanes", *_LIBRARIES)

ALONE, SIDE_BY_SIDE = "one at a time", "side by side"
"""How the accelerators of a node are measured: never two at once, or in several lanes at the same time."""


def hardware_class(
    inventory: Inventory, profile: str, *, lanes: str = ALONE
) -> tuple[str, dict[str, str]]:
    """Return the key of a node's hardware class and what it is made of.

    The key is safe as a file name. It is the same on one machine whatever its load, its uptime and the
    state of its links; it changes with every attribute below. A CPU quota is no part of it: it is a
    disturbance that measurements are labelled with. Neither is the memory of a virtual machine, which its
    hypervisor may change at any time.

    With accelerators the minor versions count that move their speed by several percent, and whether they are
    measured one at a time or side by side: what was learned in one way says nothing of the other. Without
    any, torch's major version is enough.

    Args:
        inventory: The node.
        profile: ``smoke``, ``standard`` or ``soak``.
        lanes: `ALONE` or `SIDE_BY_SIDE`.

    Returns:
        The key, and the attributes ``accelerator``, ``count``, ``cpu``, ``cores``, ``memory``,
        ``fabric``, ``driver``, ``torch`` and ``profile``; with accelerators also ``lanes`` and, where they
        are known, ``cuda`` or ``rocm`` and ``nccl`` or ``rccl``.
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
    """Find the class that a node most probably belongs to although its own key has no baseline.

    A node that lost an accelerator or a memory module has another key than its healthy siblings. Its
    measurements are not comparable with theirs, but its inventory is.

    Args:
        attributes: The node's attributes.
        candidates: Key -> attributes of the classes that have a golden inventory.

    Returns:
        The key of the class with the fewest differences, or None when each of them differs in more than
        what a node can lose, or two are equally close.
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
    """Return the key that `hardware_class` makes of its attributes."""
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
    "accelerator",
    "count",
    "cpu",
    "cores",
    "memory",
    "fabric",
    "driver",
    "torch",
    "profile",
)
CLASS_ATTRIBUTES = frozenset((*_HARDWARE, "lanes", *_LIBRARIES))
"""What `hardware_class` makes a key of; what else a node's attributes hold was added."""


def extended_key(attributes: Mapping[str, str], added: Mapping[str, str]) -> str:
    """Return the key of a class with what hooks added, or what it is split by."""
    return "_".join([class_key(attributes), *_parts(added)])


def split_key(key: str, attributes: Mapping[str, str], more: Mapping[str, str]) -> str:
    """Return the key that a recorded run's class would have had, had these attributes been added then.

    Args:
        key: The key that it had.
        attributes: The run's attributes, with those that were added; empty where nobody knows them.
        more: Those to be added.
    """
    known = {name: value for name, value in attributes.items() if name in CLASS_ATTRIBUTES}
    if not known.keys() >= set(_HARDWARE):  # an import: it has a class, and nobody says of what
        return "_".join([key, *_parts(more)])
    added = {name: value for name, value in attributes.items() if name not in known}
    return extended_key(known, added | dict(more))


def split_by(names: Collection[str], facts: Mapping[str, str]) -> dict[str, str]:
    """Return the attributes that split a class; what a node does not know of itself is ``unknown``."""
    return {name: facts.get(name) or "unknown" for name in names}


def _parts(added: Mapping[str, str]) -> list[str]:
    return [slug(f"{name} {added[name]}") for name in sorted(added)]


def slug(text: str) -> str:
    """Return text as lower-case letters, digits, dots and dashes; a long one ends with a digest."""
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
    """Return the CPU's name without frills; with family and model where hypervisors hide the name."""
    name = re.sub(
        r"\((R|TM|r|tm)\)|\bCPU\b|\bProcessor\b|@.*|(?<!\d)\d+-Core", " ", processor.model or ""
    )
    name = " ".join(name.split()) or "unknown cpu"
    if not re.search(r"\d", name) and processor.family and processor.model_number:
        name += f" f{processor.family}m{processor.model_number}"
    return name


def _memory(total: int | None) -> str:
    """Round up to the next of 1, 1.5, 2, 3, 4, 6, ... GiB.

    The kernel always shows a few percent less than what is installed, and installed sizes lie on these
    steps, so one machine never falls on both sides of a step; a missing module is the gate's business.
    """
    if not total:
        return "unknown"
    step = 0.25
    while total > step * _GIB:
        step = step * 4 / 3 if _is_three(step) else step * 1.5
    return f"{step:g} GiB" if step < 1024 else f"{step / 1024:g} TiB"


def _is_three(step: float) -> bool:
    """Say whether a step is 3 times a power of two."""
    return (step / 3).hex().startswith("0x1.0000000000000")


def _fabric(inventory: Inventory) -> str:
    """Return what connects accelerators and nodes; hardware that exists, whether its links are up or not."""
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
    """Return the minor versions of torch and of what it computes and communicates with."""
    found = {"torch": _minor(software.get("torch"))}
    for name in _LIBRARIES:
        brought = [v for key, v in sorted(software.items()) if key.startswith(f"nvidia-{name}-cu")]
        version = brought[0] if brought else software.get(name)
        if version:
            found[name] = _minor(version)
    return found


def _minor(version: str | None) -> str:
    numbers = re.match(r"\d+(?:\.\d+)?", version or "")
    return numbers[0] if numbers else _major(version)


def _major(version: str | None) -> str:
    return version.partition(".")[0].partition("+")[0] if version else "none"
