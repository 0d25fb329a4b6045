"""What many nodes of a fleet share, in lines: a batch, rack or driver that is slower than the others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from pytest_anubis.core.asking.next_step import as_shared
from pytest_anubis.core.blocker import Blocker, Hindrance
from pytest_anubis.core.metric import first_of, metric_name
from pytest_anubis.core.survey.fleet_survey import TraitShift
from pytest_anubis.core.verdict import Decision, NodeVerdict
from pytest_anubis.report.text.node_row import NodeRow, explained_by
from pytest_anubis.report.text.numbers import count_text

SHOWN = 4
"""Shared causes with a line of their own."""
METRICS = 3
"""Metrics named of one of them."""
SOFTWARE = ("driver", "firmware", "bios", "kernel", "image", "version")
"""Words of the names of traits that can be given to a node, and taken from it again."""


def with_shared(rows: Sequence[NodeRow], shifts: Sequence[TraitShift]) -> list[NodeRow]:
    """Return nodes with the shared cause that alone explains what is bad on them.

    Who is rejected for nothing else is not to be taken out of service by itself: its verdict says so.
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
    """Return place of a shared cause -> the nodes that are rejected for it alone, the largest loss first."""
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

    Args:
        shifts: What separates nodes, slow ones first.
        rejected: Place in `shifts` -> the nodes that are rejected for nothing else.
        verbose: All of them.
    """
    several = len({shift.hardware_class for shift in shifts}) > 1
    lines = [
        cause_text(shift, rejected.get(place, ()))
        + (f" [{shift.hardware_class}]" if several else "")
        for place, shift in enumerate(shifts)
        if shift.worse or shift.beside
    ]
    left = 0 if verbose else len(lines) - SHOWN
    return (
        lines
        if left <= 0
        else [*lines[:SHOWN], f"... and {count_text(left, 'shared cause')} more (-v)"]
    )


def cause_text(shift: TraitShift, rejected: Sequence[str] = ()) -> str:
    """Return a shared cause: ``batch C (50 nodes): pcie 4.5 % slower``, with whom it alone rejects.

    The slower of two groups is named, with the value of the others where they all have the same.
    """
    only = f"; {count_text(len(rejected), 'node')} rejected for nothing else" if rejected else ""
    return f"{_what(shift)}{only}{_helped(shift)} -> {_act(shift, rejected)}"


def _helped(shift: TraitShift) -> str:
    """Say which nodes have lost this loss since they were measured with it; empty of none."""
    if not shift.mended:
        return ""
    names, one = first_of(shift.mended, METRICS), len(shift.mended) == 1
    with_it = f" with {value}" if (value := _given(shift)) else ""
    return f"; {names}, which had it, {'is' if one else 'are'} as good as the others since{with_it}"


def _what(shift: TraitShift) -> str:
    """Return the trait, its nodes, and what they lose."""
    better = not shift.worse
    value, count = (shift.beside, shift.others) if better else (shift.value, len(shift.nodes))
    than = shift.value if better else shift.beside
    same = [one for one in shift.metrics if one.worse is not better]
    named = [
        f"{metric_name(one.benchmark.rpartition('::')[2], one.metric.name)} {one.size}"
        for one in same[:METRICS]
    ]
    named += [f"{count_text(len(same) - METRICS, 'more metric')}"] if len(same) > METRICS else []
    words = ", ".join(named) + (f" than {than}" if than and named else "")
    if not named:
        words = f"{shift.rejected} rejected, of the {shift.others} others {shift.rejected_others}"
    alike = f" (the same nodes: {', '.join(shift.aliases)})" if shift.aliases else ""
    return f"{shift.trait} {value} ({count_text(count, 'node')}){alike}: {words}"


def _act(shift: TraitShift, rejected: Sequence[str]) -> str:
    """Return how the cause is found that the slower nodes share, on one of them that still has it."""
    if shift.mended:
        given = f": {shift.trait} {value}" if (value := _given(shift)) else ""
        return f"do to the others what helped {shift.mended[0]}{given}, and measure them again"
    node = next(iter(rejected), shift.nodes[0])
    slow = node if shift.worse else "one of them"
    if _is_software(shift):
        fast = _given(shift)
        return f"give {slow} the {shift.trait} of the others{fast and f', {fast}'}, and measure it again"
    return (
        f"compare firmware, cables, power and cooling of {slow} with another {shift.trait}'s, mend what "
        "differs, and measure it again"
    )


def _is_software(shift: TraitShift) -> bool:
    return any(word in shift.trait.lower() for word in SOFTWARE)


def _given(shift: TraitShift) -> str:
    """Return the better value, which can be given to a node; empty of hardware, or of several values."""
    better = shift.beside if shift.worse else shift.value
    return better if _is_software(shift) else ""
