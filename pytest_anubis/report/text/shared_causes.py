"""Lines about shared causes: a batch, rack or driver whose nodes are slower than the others.

`with_shared` also puts the cause into the verdicts of nodes whose failures it explains alone. `fleet_source`,
`import_judging` and `node_text` use it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from pytest_anubis.core.asking.next_step import as_shared
from pytest_anubis.core.blocker import Blocker, Hindrance
from pytest_anubis.core.fleet_survey import SLOW_PART, TraitShift
from pytest_anubis.core.metric import first_of, metric_name
from pytest_anubis.core.verdict import Decision, NodeVerdict
from pytest_anubis.report.text.node_row import NodeRow, explained_by
from pytest_anubis.report.text.numbers import count_text

MAX_CAUSES = 4
"""Shared causes with a line of their own."""
MAX_NAMES = 3
"""Metrics, or repaired nodes, named of each cause."""
SOFTWARE = ("driver", "firmware", "bios", "kernel", "image", "version")
"""Words in the names of traits that an operator can change on a node."""


def with_shared(rows: Sequence[NodeRow], shifts: Sequence[TraitShift]) -> list[NodeRow]:
    """Return rows with the shared cause that alone explains their failures, in their verdicts as well.

    A node rejected for nothing else should not be taken out of service alone.
    """
    found = explained_by(rows, shifts)
    rejected = rejected_for(rows, found)
    causes = {
        place: Blocker(
            kind=Hindrance.SHARED,
            cause=f"as all that share it: {_what(shifts[place])}{_helped(shifts[place])}",
            act=_act(shifts[place], rejected.get(place, ())),
        )
        for place in set(found.values())
    }
    return [
        replace(row, shared=cause, verdict=_verdict(row, cause))
        if (cause := causes.get(found.get(row.unit, -1))) is not None
        else row
        for row in rows
    ]


def _verdict(row: NodeRow, cause: Blocker) -> NodeVerdict:
    if row.verdict.decision is Decision.REJECTED:
        return as_shared(row.verdict, cause)
    return replace(row.verdict, noted=(str(cause), *row.verdict.noted))


def rejected_for(
    rows: Iterable[NodeRow], shared: Mapping[tuple[str, str], int]
) -> dict[int, list[str]]:
    """Return index of a shared cause -> the nodes rejected for it alone, the largest loss first."""
    found: dict[int, list[str]] = {}
    for row in sorted(rows, key=lambda row: row.verdict.severity[2:]):
        if row.verdict.decision is Decision.REJECTED and row.unit in shared:
            found.setdefault(shared[row.unit], []).append(row.verdict.node)
    return found


def cause_lines(
    shifts: Sequence[TraitShift],
    rejected: Mapping[int, Sequence[str]] = MappingProxyType({}),
    *,
    verbose: bool = False,
) -> list[str]:
    """Return a line for each trait whose nodes are slower, or are rejected more often, than the others.

    Traits of slow nodes come first. `rejected` has index in `shifts` -> the nodes that are rejected for
    nothing else.
    """
    several = len({shift.hardware_class for shift in shifts}) > 1
    lines = [
        cause_text(shift, rejected.get(place, ()))
        + (f" [{shift.hardware_class}]" if several else "")
        for place, shift in enumerate(shifts)
        if shift.worse or shift.others_value
    ]
    left = len(lines) - MAX_CAUSES
    if verbose or left <= 0:
        return lines
    return [*lines[:MAX_CAUSES], f"... and {count_text(left, 'shared cause')} more (-v)"]


def cause_text(shift: TraitShift, rejected: Sequence[str] = ()) -> str:
    """Return a cause and its action: ``batch C (50 nodes): pcie 4.5 % slower; 3 nodes rejected ... -> ...``.

    The slower of two groups is named, and the other group's value if all its nodes have the same.
    """
    only = f"; {count_text(len(rejected), 'node')} rejected for nothing else" if rejected else ""
    return f"{_what(shift)}{only}{_helped(shift)} -> {_act(shift, rejected)}"


def _helped(shift: TraitShift) -> str:
    """Return which nodes have been repaired since they showed this loss; empty if none."""
    if not shift.mended:
        return ""
    names = first_of(shift.mended, MAX_NAMES)
    verb = "is" if len(shift.mended) == 1 else "are"
    with_it = f" with {value}" if (value := _given(shift)) else ""
    return f"; {names}, which had it, {verb} as good as the others since{with_it}"


def _what(shift: TraitShift) -> str:
    """Return the trait, its nodes, and their losses."""
    value, count, than = shift.value, len(shift.nodes), shift.others_value
    if not shift.worse:  # the others are the slower ones
        value, count, than = shift.others_value, shift.others, shift.value
    same = [one for one in shift.metrics if one.worse is shift.worse]
    named = [
        f"{metric_name(one.benchmark.rpartition('::')[2], one.metric.name)} {one.size}"
        for one in same[:MAX_NAMES]
    ]
    if len(same) > MAX_NAMES:
        named.append(count_text(len(same) - MAX_NAMES, "more metric"))
    words = ", ".join(named) + (f" than {than}" if than and named else "")
    if not named:
        words = f"{shift.rejected} rejected, of the {shift.others} others {shift.rejected_others}"
    alike = f" (the same nodes: {', '.join(shift.aliases)})" if shift.aliases else ""
    return f"{shift.trait} {value} ({count_text(count, 'node')}){alike}: {words}"


def _act(shift: TraitShift, rejected: Sequence[str]) -> str:
    """Return how to find the shared cause on one of the slower nodes that still has it."""
    if shift.mended:
        given = f": {shift.trait} {value}" if (value := _given(shift)) else ""
        return f"do to the others what helped {shift.mended[0]}{given}, and measure them again"
    node = next(iter(rejected), shift.nodes[0])
    slow = node if shift.worse else "one of them"
    if shift.trait == SLOW_PART:
        return (
            f"find what is wrong with it on {slow}: board revision, firmware, BIOS settings, cables"
        )
    compare = f"compare firmware, cables, power and cooling of {slow} with another {shift.trait}'s"
    software = [one for one in shift.aliases if _names_software(one)]
    if software and not _names_software(shift.trait):
        return f"try {slow} without {software[0]}, and measure it again; if that changes nothing, {compare}"
    if _names_software(shift.trait):
        fast = _given(shift)
        return f"give {slow} the {shift.trait} of the others{fast and f', {fast}'}, and measure it again"
    return f"{compare}, mend what differs, and measure it again"


def _names_software(trait: str) -> bool:
    return any(word in trait.lower() for word in SOFTWARE)


def _given(shift: TraitShift) -> str:
    """Return the better value of a trait of software; empty for hardware, or if it has several values."""
    better = shift.others_value if shift.worse else shift.value
    return better if _names_software(shift.trait) else ""
