"""Several machines of one name among collected runs: told, and never taken for one."""

from __future__ import annotations

import dataclasses
import hashlib

from pytest_anubis.core.identity.machine_marks import another_machine, identity_marks
from pytest_anubis.core.run import RunRecord

_LETTERS = 4
"""Letters that tell machines of one name apart: a name has two or three of them, not hundreds."""


@dataclasses.dataclass(slots=True)
class Namesakes:
    """What is known of the machines behind each node's name; the first one that is met keeps the name."""

    _known: dict[str, list[tuple[str, frozenset[str]]]] = dataclasses.field(default_factory=dict)

    def told_apart(self, record: RunRecord, warnings: list[str]) -> RunRecord:
        """Return the run under a name of its machine alone; a new one is told in one line.

        What is known of a machine grows with its runs, as not each of them can read all of it.
        """
        name, marks = record.node, identity_marks(record.inventory)
        machines = self._known.setdefault(name, [])
        for i, (called, known) in enumerate(machines):
            if not another_machine(known, marks):
                machines[i] = (called, known | marks)
                return record if called == name else _renamed(record, called)
        called = f"{name}~{_letters(marks)}" if machines else name
        machines.append((called, marks))
        if called == name:
            return record
        warnings.append(
            f"{record.run}: another machine is called {name} too; this one is {called} here, and nothing of "
            "the two is mixed: give each a name of its own (--anubis-node)"
        )
        return _renamed(record, called)


def _letters(marks: frozenset[str]) -> str:
    return hashlib.sha256(" ".join(sorted(marks)).encode()).hexdigest()[:_LETTERS]


def _renamed(record: RunRecord, name: str) -> RunRecord:
    """Return the run with another name of its node, in its verdicts too."""
    said = record.node_verdict
    if said is not None:
        headline = said.headline.replace(f"node {record.node} ", f"node {name} ", 1)
        said = dataclasses.replace(said, node=name, headline=headline)
    verdicts = tuple(
        dataclasses.replace(one, node=name) if one.node == record.node else one
        for one in record.verdicts
    )
    return dataclasses.replace(record, node=name, node_verdict=said, verdicts=verdicts)
