"""Marks by which a machine is recognised: its chassis, cards, network ports and operating system.

`machine_mismatch` reports that a baseline learned on one machine alone is used on another, whose limits it
does not know. The store compares marks (`another_machine`) to keep two machines of one name apart.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from pytest_anubis.core.baseline import Baseline
from pytest_anubis.core.inventory import REDACTED
from pytest_anubis.core.run import RunRecord

_MARK = 12
"""Hexadecimal digits of a mark: the marks of two parts are equal with a chance of 2^-48."""
_MIN_LENGTH = 4
"""Characters of the shortest serial number that identifies a machine; ``0`` and ``n/a`` do not."""
_PLACEHOLDERS = {"0123456789", "123456789", "1234567890", "chassis serial number 1"}
_SYSTEM = "system:"
_NAME = "name:"


def machine_marks(inventory: Mapping[str, Any]) -> frozenset[str]:
    """Return the marks of a machine's chassis, cards and network ports, from plain data of any shape.

    A mark is ``kind:`` with a part of a digest, so that a file with marks contains no serial number. A guess
    can be verified with it, since the addresses of a maker's ports are few. Addresses assigned by software
    and placeholders for serial numbers yield no marks.
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
        and len(text := value.strip().lower()) >= _MIN_LENGTH
        and any(mark.isdigit() for mark in text)
        and len(set(text)) > 2
        and text not in _PLACEHOLDERS
    )


def identity_marks(inventory: Mapping[str, Any]) -> frozenset[str]:
    """Return a machine's marks, and that of its installation (machine id), as far as they are known.

    Images and clones share a machine id, so it does not prove that two machines are one (`lasting_marks`).
    """
    found = inventory.get("machine")
    known = set()
    if isinstance(found, str) and found not in ("", REDACTED):
        known.add(f"{_SYSTEM}{found[:_MARK]}")
    return machine_marks(inventory) | known


def marks_of(run: RunRecord) -> frozenset[str]:
    """Return the marks of the machine that a run measured; none if its inventory may be of another one."""
    return frozenset() if run.replayed else identity_marks(run.inventory)


def another_machine(one: AbstractSet[str], other: AbstractSet[str]) -> bool:
    """Return whether two sets of `identity_marks` under one name are known to be of two machines."""
    return bool(what_differs(one, other))


def what_differs(one: AbstractSet[str], other: AbstractSet[str]) -> str:
    """Return what distinguishes two sets of `identity_marks`, in words; empty if they may be of one machine.

    The chassis decides if both have one. Otherwise a card or port in common proves one machine, and none two.
    If one set has neither, the machine ids decide.
    """
    chassis = chassis_of(one), chassis_of(other)
    if all(chassis):
        return "" if chassis[0] & chassis[1] else "chassis"
    systems = [{mark for mark in marks if mark.startswith(_SYSTEM)} for marks in (one, other)]
    parts = lasting_marks(one) - chassis[0], lasting_marks(other) - chassis[1]
    if all(parts):
        return "" if parts[0] & parts[1] else "set of cards and ports"
    return "machine id" if all(systems) and not systems[0] & systems[1] else ""


def chassis_of(marks: AbstractSet[str]) -> set[str]:
    """Return the marks of the chassis among a machine's marks."""
    return {mark for mark in marks if mark.startswith("chassis:")}


def lasting_marks(marks: AbstractSet[str]) -> set[str]:
    """Return the marks of a machine's parts; one in common proves that two machines are the same."""
    return {mark for mark in marks if not mark.startswith((_SYSTEM, _NAME))}


def name_mark(full_name: str) -> str:
    """Return the mark of a host's full name, which distinguishes machines with the same short name."""
    return f"{_NAME}{full_name.lower()}"


def is_of_another_name(marks: AbstractSet[str], full_name: str) -> bool:
    """Return whether a machine is known by another full name than this one."""
    names = {mark for mark in marks if mark.startswith(_NAME)}
    return bool(names) and name_mark(full_name) not in names


def _parts(inventory: Mapping[str, Any], name: str) -> Iterable[Mapping[str, Any]]:
    parts = inventory.get(name)
    if not isinstance(parts, list | tuple):
        return ()
    return [one for one in parts if isinstance(one, Mapping)]


def _burnt_in(address: object) -> bool:
    """Return whether the maker assigned a network address: in others the second lowest bit is set."""
    if not isinstance(address, str):
        return False
    first = address.partition(":")[0]
    try:
        return not int(first[:2], 16) & 0b10
    except ValueError:
        return False


def _equal_hosts(name: str, other: str) -> bool:
    return name.lower() == other.lower()


def are_of_one_host(
    name: str, other: str, alike: Callable[[str, str], bool] = _equal_hosts
) -> bool:
    """Return whether two names are alike, or may be one host's short and full name.

    An address such as 10.0.0.1 has no short name.
    """
    (host, _, domain), (host_too, _, domain_too) = name.partition("."), other.partition(".")
    short = bool(domain) != bool(domain_too) and not host.isdecimal()
    return alike(name, other) or (short and alike(host, host_too))


STRANGE_ACT = (
    "learn one here or of several machines ('anubis learn'), or accept by it all the same "
    "(--anubis-other-machine; 'anubis judge': --other-machine)"
)
"""What to do if the baseline is of another machine."""


def machine_mismatch(baseline: Baseline | None, node: str, *machines: AbstractSet[str]) -> str:
    """Say that a baseline of one machine is used on another one; empty if it is not.

    If both chassis are known, they decide. Otherwise one common card or network port is enough, since cards
    are exchanged and machines renamed. If no such part is known, the name decides, unless the machine ids
    differ. `machines` are the marks (`identity_marks`) of each of its runs, all of which have to match.
    """
    if baseline is None or not baseline.one_node:
        return ""
    if all(_same(baseline, node, machine) for machine in machines or (frozenset(),)):
        return ""
    name = ", ".join(baseline.nodes) or "another machine"
    called = " (another machine of this name)" if node in baseline.nodes else ""
    return f"the baseline knows {name}{called} alone, and this is another machine"


def _same(baseline: Baseline, node: str, machine: AbstractSet[str]) -> bool:
    learned = set(baseline.machine)
    if what_differs(learned, machine):
        return False
    if lasting_marks(learned) & lasting_marks(machine):
        return True
    return not baseline.nodes or any(are_of_one_host(node, one) for one in baseline.nodes)
