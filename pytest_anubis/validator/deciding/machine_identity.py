"""Recognise the machine of a baseline that was learned on one machine.

Its limits and what it expects are those of that machine, not of a class, so it applies to no other machine.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from pytest_anubis.core.baseline import Baseline
from pytest_anubis.core.machine_marks import lasting_marks, what_differs

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
    return not baseline.nodes or node in baseline.nodes
