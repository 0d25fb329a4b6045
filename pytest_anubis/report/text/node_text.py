"""Lines about many nodes for the terminal: each node with its worst finding, then the counts.

`anubis judge`, `anubis report` and `anubis fleet verdict` print them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain

from pytest_anubis.core.asking.next_step import next_step, next_steps, shared_act
from pytest_anubis.core.fleet_survey import TraitShift
from pytest_anubis.core.metric import first_of
from pytest_anubis.core.verdict import LOOK, Decision, Reason, Trouble
from pytest_anubis.report.text.failure_text import worst_text
from pytest_anubis.report.text.node_row import (
    BAD,
    WORDS,
    NodeRow,
    counted_words,
    explained_by,
)
from pytest_anubis.report.text.numbers import count_text
from pytest_anubis.report.text.part_lines import part_lines
from pytest_anubis.report.text.safe_text import plain_line
from pytest_anubis.report.text.shared_causes import cause_lines, rejected_for
from pytest_anubis.report.text.shared_lines import after_name
from pytest_anubis.report.text.summary_text import without_folders
from pytest_anubis.report.text.text_table import clip, wrap

MAX_NODES_LISTED = 18
"""Nodes listed without ``-v``: with shared causes and absent benchmarks fewer than thirty lines."""
MAX_ABSENT = 4
"""Benchmarks named of those that never ran on most nodes."""
MAX_NAMES = 6
"""Names of nodes in one line about many."""
MAX_OWN_LINES = 3
"""Accepted nodes of one kind, to look at or waived, that have lines of their own."""
MIN_OVERVIEW, MAX_OVERVIEW = 6, 40
"""With more rejected nodes than the first, and at most the second, a line lists them by component."""
MAX_CLASS = 40
"""Characters of a class after a node's name."""
MAX_LINES = 3
"""Lines of one node without ``-v``; its dossier has the whole text."""


def traits_text(traits: Mapping[str, str]) -> str:
    """Return a node's registered traits in one line: ``batch C, rack r03, serial S7000``."""
    return plain_line(", ".join(f"{name} {text}" for name, text in sorted(traits.items())))


def fleet_lines(
    rows: Iterable[NodeRow],
    shifts: Sequence[TraitShift] = (),
    *,
    besides: Sequence[str] = (),
    out: Collection[str] = (),
    width: int | None = None,
    verbosity: int = 0,
) -> list[str]:
    """Return the lines about many nodes: the worst first, then the counts.

    Nodes with a missing device come first, then shared causes, then the other nodes. Without ``-v`` one line
    covers the nodes that lack the same, are slow for the same shared cause, or are simply accepted; with it
    each node has a line, and below it all of its findings.

    Args:
        rows: One for each node and hardware class.
        shifts: Traits that separate nodes, slow ones first.
        besides: Further lines about many nodes, printed after the shared causes.
        out: Nodes that somebody has taken out of service already.
        width: Columns of the terminal; None if unknown: a node is one line then.
        verbosity: From 1 everything.
    """
    verbose = verbosity > 0
    ordered = sorted(rows, key=lambda row: row.verdict.severity)
    shared = explained_by(ordered, shifts)
    causes = cause_lines(shifts, rejected_for(ordered, shared), verbose=verbose)
    causes += [*besides, *_by_component(ordered, shared)]
    groups = [[row] for row in ordered] if verbose else _groups(ordered, shared)
    shown = groups if verbose else groups[:MAX_NODES_LISTED]
    classes: dict[str, list[str]] = {}
    for row in ordered:
        classes.setdefault(row.verdict.node, []).append(row.hardware_class)
    column = max((len(group[0].trouble) for group in shown), default=0)
    blocks = []
    for group in shown:
        why = shared.get(group[0].unit)
        names = [_name(row, classes) for row in group]
        text = _row(group, names, column, None if why is None else shifts[why])
        block = wrap(text, width, indent="    ")
        if verbose:
            block += _wrapped(_details(group[0]), width, indent="      ")
        elif len(block) > MAX_LINES:
            block[MAX_LINES - 1 :] = [f"{block[MAX_LINES - 1]} …"]
        blocks.append(block)
    gone = sum(bool(group[0].verdict.gone) for group in shown)
    blocks.insert(gone, _wrapped(causes, width, indent="    "))
    lines = list(chain.from_iterable(blocks))
    if left := sum(map(len, groups[len(shown) :])):
        lines.append(f"... and {count_text(left, 'node')} more (-v shows all)")
    return [
        *lines,
        _counts(ordered),
        *_way_out(ordered),
        *_out_of_service(ordered, out),
        *_shared_only(ordered, shared, shifts),
    ]


def _wrapped(texts: Iterable[str], width: int | None, indent: str) -> list[str]:
    return [part for text in texts for part in wrap(text, width, indent=indent)]


def _counts(ordered: Iterable[NodeRow]) -> str:
    """Return the line that counts the nodes by word, each once by its worst class."""
    worst: dict[str, NodeRow] = {}
    for row in ordered:
        worst.setdefault(row.verdict.node, row)
    parts = [f"{count} {word}" for word, count in counted_words(worst.values())]
    if waived := [node for node, row in worst.items() if row.waived]:
        names = first_of(waived, MAX_NAMES)
        parts.append(f"{len(waived)} of them with failures that are waived ({names})")
    return f"{count_text(len(worst), 'node')}: {', '.join(parts)}"


def _by_component(rows: Sequence[NodeRow], shared: Mapping[tuple[str, str], int]) -> list[str]:
    """Return one line that lists the rejected nodes by component, if there are many."""
    own = (row for row in rows if row.unit not in shared)
    rejected = [row.verdict for row in own if row.verdict.decision is Decision.REJECTED]
    if not MIN_OVERVIEW < len(rejected) <= MAX_OVERVIEW:
        return []
    found: dict[str, list[str]] = {}
    for verdict in rejected:
        found.setdefault(next(iter(verdict.components), "other"), []).append(verdict.node)
    parts = (f"{part}: {', '.join(dict.fromkeys(nodes))}" for part, nodes in found.items())
    called = Counter({verdict.node: verdict.word for verdict in reversed(rejected)}.values())
    count = ", ".join(f"{called[word]} {word}" for word in WORDS if called[word])
    words = " for faults of their own" if shared else ""
    return [f"{count}{words}, by component: {'; '.join(parts)}"]


def _way_out(rows: Sequence[NodeRow]) -> list[str]:
    """Return how to accept the nodes that lack only benchmarks that never ran on them; none if none do."""
    nodes = sum(row.only_absent for row in rows)
    if not nodes:
        return []
    return [
        f"{count_text(nodes, 'node')} undecided only for benchmarks that did not run there: run them, or "
        "say what a node must have run: --require NAME (a component, benchmark or metric; can be given "
        "again; --require any: whatever it ran)"
    ]


def _out_of_service(rows: Sequence[NodeRow], out: Collection[str]) -> list[str]:
    """Return a line to copy with the nodes that are rejected for sure, unless they are too many.

    Those that are out of service already have a line of their own.
    """
    sure = {row.verdict.node: None for row in rows if row.word == Decision.REJECTED.value}
    parts = {
        "take out of service": [node for node in sure if node not in out],
        "out of service already": [node for node in sure if node in out],
    }
    least = 1 if parts["out of service already"] else 2
    return [
        f"{what}: {','.join(nodes)}"
        for what, nodes in parts.items()
        if least <= len(nodes) <= MAX_OVERVIEW
    ]


def _shared_only(
    rows: Sequence[NodeRow], shared: Mapping[tuple[str, str], int], shifts: Sequence[TraitShift]
) -> list[str]:
    """Return a line about the nodes that only a shared cause rejects; none if there are none."""
    found = [
        f"{shifts[place].trait} {shifts[place].value} ({count_text(len(nodes), 'node')})"
        for place, nodes in rejected_for(rows, shared).items()
    ]
    if not found:
        return []
    return [f"rejected for nothing but a shared cause, find that first: {', '.join(found)}"]


def _groups(
    ordered: Sequence[NodeRow], shared: Mapping[tuple[str, str], int]
) -> list[list[NodeRow]]:
    """Group the nodes that share a line, in order; a rejected node shares only its shared cause's line."""
    many = sum(row.verdict.decision is Decision.ACCEPTED for row in ordered) > MAX_NAMES
    groups: dict[tuple[object, ...], list[NodeRow]] = {}
    looks = waived = 0
    for number, row in enumerate(ordered):
        key: tuple[object, ...] = (number,)
        why = shared.get(row.unit)
        if why is not None:
            key = (row.verdict.decision, "shared", why)
        elif row.only_absent:
            key = (Decision.UNDECIDED,)
        elif row.only_missing:
            key = (Trouble.MISSING,)
        elif row.moved_alike:
            key = (Reason.CLASS_SHIFT, row.verdict.blocking[0].benchmark, row.rest)
        elif row.verdict.decision is Decision.UNDECIDED:
            key = (Decision.UNDECIDED, row.cause, row.rest)
        elif row.to_look_at is not None:
            looks += 1
            key = (LOOK,) if looks > MAX_OWN_LINES else key
        elif row.waived:  # never merged with nodes that have no failure
            waived += 1
            key = (Reason.WAIVED,) if waived > MAX_OWN_LINES else key
        elif many and row.verdict.decision is Decision.ACCEPTED:
            key = (Decision.ACCEPTED, bool(row.verdict.absent))
        groups.setdefault(key, []).append(row)
    return list(groups.values())


def _name(row: NodeRow, classes: Mapping[str, Sequence[str]]) -> str:
    """Return a node's name, followed by what distinguishes its class if it is in several."""
    name, key = row.verdict.node, row.hardware_class
    others = [set(one.split("_")) for one in classes[name] if one != key]
    own = [part for part in key.split("_") if any(part not in other for other in others)]
    return f"{name} ({clip('_'.join(own) or key, MAX_CLASS)})" if others else name


def _row(
    group: Sequence[NodeRow], called: Sequence[str], column: int, why: TraitShift | None = None
) -> str:
    """Return the line of a group of nodes, by their names in `called`.

    `column` is the width of the kinds of trouble, 0 if the line has none; `why` is the shared cause that
    explains all of their failures, None if there is none.
    """
    first = group[0]
    names = called[0]
    if len(group) > 1:
        more = f", and {len(group) - MAX_NAMES} more" if len(group) > MAX_NAMES else ""
        names = f"{len(group)} nodes ({', '.join(called[:MAX_NAMES])}{more})"
    kind = f"{first.trouble:{column}} " if column else ""
    head = f"{first.word:9} {kind}{names}"
    only = f"; as all of {why.trait} {why.value}, and nothing else" if why is not None else ""
    if len(group) > 1 and (text := _group_text(group, only)):
        return head + text
    rest = f"; also {first.rest}" if first.rest else ""
    return f"{head}: {first.cause}{only}{rest}{first.act}"


def _group_text(group: Sequence[NodeRow], only: str) -> str:
    """Return what several nodes of one line have in common; empty if their first node's cause says it.

    `only` is their shared cause in words; may be empty.
    """
    first = group[0]
    if only:
        return f": slower{only}{first.act}"
    if first.to_look_at is not None:
        return ", too; -v says what, and what to do"
    if first.only_missing:
        counts = sorted({row.missing for row in group})
        many = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
        return f": {many} of their values missing each; nothing that is there has failed{first.act}"
    if first.moved_alike:
        name = without_folders(first.verdict.blocking[0].benchmark)
        return f": {name} is worse on most of the class alike, see the finding{first.act}"
    if first.waived:
        return ": with failures that are waived, too; -v says which"
    if first.verdict.decision is Decision.ACCEPTED:
        if first.verdict.absent:
            return f": {_absence(group)}, which was not required"
        (text, count), *_ = Counter(after_name(row.verdict) for row in group).most_common(1)
        return f": {'' if count == len(group) else 'mostly '}{plain_line(text)}"
    if first.only_absent:
        return f": {_absence(group)}; nothing that ran has failed -> run these there, or --require NAME"
    return ""


def _absence(group: Sequence[NodeRow]) -> str:
    """Return how many benchmarks never ran on each node of a group, and the most frequent of them."""
    counts = sorted({len(row.verdict.absent) for row in group})
    many = count_text(counts[-1], "benchmark")
    many = f"{counts[0]} to {many}" if len(counts) > 1 else many
    often = Counter(name for row in group for name in row.verdict.absent).most_common(MAX_ABSENT)
    named = ", ".join(f"{without_folders(name)} on {nodes}" for name, nodes in often)
    return f"{many} of the baseline did not run on each, or left no result (most often {named})"


def _details(row: NodeRow) -> list[str]:
    """Return all findings about a node, its next steps and its blockers, one line each."""
    found = sorted((v for v in row.verdicts if v.outcome in BAD), key=lambda v: v.severity)
    column = max((len(v.trouble.value) for v in found), default=0)
    lines = [
        f"  {v.outcome.value:8} {v.trouble.value:{column}} {worst_text(v, row.cards)}"
        for v in found
    ]
    steps = list(next_steps(found)) or list(filter(None, map(next_step, found[:1])))
    if shared := shared_act(row.verdict):
        steps = [shared]
    lines += [f"  next step: {plain_line(step)}" for step in steps]
    for title, texts in (
        ("in the way of acceptance", list(map(str, row.verdict.blocking))),
        ("not judged, does not block", row.verdict.listed),
        ("seen, does not block", (*part_lines(row.verdict), *row.verdict.noted)),
    ):
        lines += [f"  {title}: {plain_line(text)}" for text in texts]
    return lines
