"""How a machine is known again: by its chassis, cards, network ports and, last, its operating system."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from pytest_anubis.core.inventory import REDACTED
from pytest_anubis.core.run import RunRecord

_MARK = 12
"""Hexadecimal digits of a mark: one in 2^48 is alike by chance."""
_LEAST = 4
"""Characters of the shortest number that tells machines apart; ``0`` and ``n/a`` are none."""
_PLACEHOLDERS = {"0123456789", "123456789", "1234567890", "chassis serial number 1"}
_SYSTEM = "system:"


def machine_marks(inventory: Mapping[str, Any]) -> frozenset[str]:
    """Return how a machine is known again, whatever it is called: by its chassis, cards and network ports.

    A mark is ``kind:`` with a piece of a digest, so that a file which holds it spells no serial number;
    whoever guesses one (the addresses of a maker's ports are few) can see that the guess is right.
    Addresses that software made up, and the words that makers leave in place of a number, are none.

    Args:
        inventory: Plain data of any shape; may be empty.
    """
    found: list[tuple[str, object]] = []
    system = inventory.get("system")
    if isinstance(system, Mapping):
        found.append(("chassis", system.get("serial")))
    found += [
        ("card", card.get(key))
        for card in _parts(inventory, "accelerators")
        for key in ("uuid", "serial")
    ]
    found += [
        ("port", nic.get("address"))
        for nic in _parts(inventory, "nics")
        if _burnt_in(nic.get("address"))
    ]
    return frozenset(
        f"{kind}:{hashlib.sha256(text.encode()).hexdigest()[:_MARK]}"
        for kind, value in found
        if isinstance(value, str)
        and len(text := value.strip().lower()) >= _LEAST
        and any(mark.isdigit() for mark in text)
        and len(set(text)) > 2
        and text not in _PLACEHOLDERS
    )


def identity_marks(inventory: Mapping[str, Any]) -> frozenset[str]:
    """Return a machine's marks, and that of its installation (machine id), as far as they are known.

    Images and clones share a machine id, so it proves nobody to be the same (`lasting_marks`).
    """
    found = inventory.get("machine")
    known = set()
    if isinstance(found, str) and found not in ("", REDACTED):
        known.add(f"{_SYSTEM}{found[:_MARK]}")
    return machine_marks(inventory) | known


def marks_of(run: RunRecord) -> frozenset[str]:
    """Return the marks of the machine that a run measured; none if its inventory may be another one's."""
    return frozenset() if run.replayed else identity_marks(run.inventory)


def another_machine(one: AbstractSet[str], other: AbstractSet[str]) -> bool:
    """Say whether two sets of `identity_marks` under one name are known to be of two machines."""
    return bool(what_differs(one, other))


def what_differs(one: AbstractSet[str], other: AbstractSet[str]) -> str:
    """Return what tells two sets of `identity_marks` apart, in words; empty if they may be of one machine.

    A chassis decides where both know theirs; else one card or port in common makes them the same, different
    ones two. Where nothing of the kind is known of one of them, the machine ids are all there is.
    """
    chassis = chassis_of(one), chassis_of(other)
    if all(chassis):
        return "" if chassis[0] & chassis[1] else "chassis"
    systems = [{mark for mark in marks if mark.startswith(_SYSTEM)} for marks in (one, other)]
    parts = one - systems[0] - chassis[0], other - systems[1] - chassis[1]
    if all(parts):
        return "" if parts[0] & parts[1] else "set of cards and ports"
    return "machine id" if all(systems) and not systems[0] & systems[1] else ""


def chassis_of(marks: AbstractSet[str]) -> set[str]:
    """Return the marks of the chassis among a machine's marks."""
    return {mark for mark in marks if mark.startswith("chassis:")}


def lasting_marks(marks: AbstractSet[str]) -> set[str]:
    """Return the marks of a machine's parts, of which one in common proves two machines to be the same."""
    return {mark for mark in marks if not mark.startswith(_SYSTEM)}


def _parts(inventory: Mapping[str, Any], name: str) -> Iterable[Mapping[str, Any]]:
    parts = inventory.get(name)
    return (
        [one for one in parts if isinstance(one, Mapping)]
        if isinstance(parts, list | tuple)
        else ()
    )


def _burnt_in(address: object) -> bool:
    """Say whether a network address was given by a maker: in others the second lowest bit is set."""
    if not isinstance(address, str):
        return False
    first = address.partition(":")[0]
    try:
        return not int(first[:2], 16) & 0b10
    except ValueError:
        return False
