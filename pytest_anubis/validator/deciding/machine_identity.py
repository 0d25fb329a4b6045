"""Whose a baseline of one machine is: its limits are the noise of that machine, not the spread of a class."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from pytest_anubis.core.baseline import Baseline
from pytest_anubis.core.identity.machine_marks import lasting_marks, what_differs

STRANGE_ACT = (
    "learn one here or of several machines ('anubis learn'), or accept by it all the same "
    "(--anubis-other-machine; 'anubis judge': --other-machine)"
)
"""What resolves that the baseline is of one other machine."""


def machine_mismatch(baseline: Baseline | None, node: str, *machines: AbstractSet[str]) -> str:
    """Say that a baseline of one machine is held against another one; empty where it is not.

    A chassis decides where both sides know theirs. Else one card or network port in common is enough (cards
    are exchanged, machines renamed), and where nothing of the kind is known, the name is all there is, unless
    the machine ids tell two of one name apart.

    Args:
        baseline: The baseline; None and one of a fleet concern every machine.
        node: Name of the machine that is judged.
        machines: Its marks (`identity_marks`), of every run; empty where nothing is known. Two machines of
            one name are distinguished, as each has to be the one that was learned.
    """
    if baseline is None or not baseline.one_machine:
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
