"""Whose a baseline of one machine is: its limits are the noise of that machine, not the spread of a class."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from pytest_anubis.core.baseline import Baseline

_MARK = 12
"""Hexadecimal digits of a mark: one in 2^48 is alike by chance."""
_LEAST = 4
"""Characters of the shortest number that tells machines apart; ``0`` and ``n/a`` are none."""
_PLACEHOLDERS = {"0123456789", "123456789", "1234567890", "chassis serial number 1"}


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


def strange_to(baseline: Baseline | None, node: str, *machines: AbstractSet[str]) -> str:
    """Say that a baseline of one machine is held against another one; empty where it is not.

    A chassis decides where both sides know theirs. Else one card or network port in common is enough (cards
    are exchanged, machines renamed), and where nothing of the kind is known, the name is all there is.

    Args:
        baseline: The baseline; None and one of a fleet concern every machine.
        node: Name of the machine that is judged.
        machines: Its marks (`machine_marks`), of every run; empty where nothing is known. Two machines of
            one name are told apart, as each has to be the one that was learned.
    """
    if baseline is None or not baseline.one_machine:
        return ""
    if all(_same(baseline, node, machine) for machine in machines or (frozenset(),)):
        return ""
    name = ", ".join(baseline.nodes) or "another machine"
    called = " (another machine of this name)" if node in baseline.nodes else ""
    return (
        f"the baseline knows {name}{called} alone, and this is another machine: learn one here or of several "
        "machines ('anubis learn'), or accept by it all the same (--anubis-other-machine; 'anubis judge': "
        "--other-machine)"
    )


def _same(baseline: Baseline, node: str, machine: AbstractSet[str]) -> bool:
    learned = set(baseline.machine)
    chassis = _chassis(learned), _chassis(machine)
    if all(chassis):
        return bool(chassis[0] & chassis[1])
    if learned & machine:
        return True
    told_apart = learned - _chassis(learned) and machine - _chassis(machine)
    return not told_apart and (not baseline.nodes or node in baseline.nodes)


def _chassis(marks: AbstractSet[str]) -> set[str]:
    return {mark for mark in marks if mark.startswith("chassis:")}


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
