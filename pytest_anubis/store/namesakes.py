"""Distinguish several machines that use one node name, among collected runs, by marks of their identity.

A history does so for filed runs, with the same rules (`history/machine_owners`). `kept_names` finds the other
confusion: one host under several names.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Collection, Sequence

from pytest_anubis.core.machine_marks import another_machine, marks_of
from pytest_anubis.core.run import RunRecord

Machine = tuple[str, frozenset[str]]
"""A machine's name, and all marks that identify it."""

_LETTERS = 4
"""Letters that distinguish machines of one name, of which there are two or three, not hundreds."""


@dataclasses.dataclass(slots=True)
class NodeNames:
    """The machines behind each node's name; the first one that is seen keeps the name."""

    # Name -> its machines, the one that keeps the name first; grows with every run
    known: dict[str, list[Machine]] = dataclasses.field(default_factory=dict)

    def disambiguate(self, record: RunRecord, warnings: list[str]) -> RunRecord:
        """Return the run under its machine's unique name, and add a warning about a new name.

        The marks of a machine accumulate over its runs, since a run may be unable to read all of them.
        """
        name = record.node
        marks = marks_of(record)
        machines = self.known.setdefault(name, [])
        found = machine_of(machines, marks)
        if found is not None:
            called, known = machines[found]
            machines[found] = (called, known | marks)
            return renamed(record, called)
        taken = {one for one, _ in machines}
        called = name
        if machines:
            called = next(one for one in names_of_another(name, marks) if one not in taken)
        machines.append((called, marks))
        if called != name:
            warnings.append(
                f"{record.run}: another machine is called {name} too; this one is {called} here, and nothing "
                "of the two is mixed: give each a name of its own (--anubis-node)"
            )
        return renamed(record, called)


def kept_names(names: Collection[str]) -> dict[str, str]:
    """Return name -> name to use instead, of hosts that are named in several ways.

    A host's short name replaces its full name if both occur and no second full name does; the spelling with
    more small letters replaces others that differ in capital letters only.
    """
    spelled = {name.lower(): name for name in sorted(set(names))}
    of_short: dict[str, list[str]] = {}
    for name in spelled:
        short, dot, _ = name.partition(".")
        if dot and short in spelled and not short.isdecimal():  # an address has no short name
            of_short.setdefault(short, []).append(name)
    short_of = {full[0]: short for short, full in of_short.items() if len(full) == 1}
    kept = {name: spelled[short_of.get(name.lower(), name.lower())] for name in names}
    return {name: other for name, other in kept.items() if name != other}


def machine_of(machines: Sequence[Machine], marks: frozenset[str]) -> int | None:
    """Return the place of the machine with these marks among those of one name; None if it is another one.

    A machine that shares a mark comes before one that is merely not known to be another.
    """
    like = [i for i, (_, known) in enumerate(machines) if not another_machine(known, marks)]
    return next((i for i in like if machines[i][1] & marks), like[0] if like else None)


def names_of_another(name: str, marks: frozenset[str]) -> list[str]:
    """Return possible names of a further machine: with ever more letters of a digest of its marks."""
    letters = hashlib.sha256(" ".join(sorted(marks)).encode()).hexdigest()
    return [f"{name}~{letters[:length]}" for length in range(_LETTERS, len(letters) + 1)]


def renamed(record: RunRecord, name: str) -> RunRecord:
    """Return the run with another name of its node, also in its verdicts."""
    if name == record.node:
        return record
    said = record.node_verdict
    if said is not None:
        headline = said.headline.replace(f"node {record.node} ", f"node {name} ", 1)
        said = dataclasses.replace(said, node=name, headline=headline)
    verdicts = tuple(
        dataclasses.replace(one, node=name) if one.node == record.node else one
        for one in record.verdicts
    )
    return dataclasses.replace(record, node=name, node_verdict=said, verdicts=verdicts)
