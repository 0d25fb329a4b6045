"""Nodes on the terminal: the worst of each first, with device, slot and size; the rest counted by kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from pytest_anubis.core.asking.next_step import next_step, next_steps, shared_act
from pytest_anubis.core.survey.fleet_survey import TraitShift
from pytest_anubis.core.verdict import (
    Decision,
    Trouble,
)
from pytest_anubis.report.text.failure_text import worst_text
from pytest_anubis.report.text.headlines import after_name
from pytest_anubis.report.text.node_row import (
    BAD,
    LOOK,
    WORDS,
    NodeRow,
    counted_words,
    explained_by,
)
from pytest_anubis.report.text.numbers import count_text
from pytest_anubis.report.text.shared_causes import cause_lines, rejected_for
from pytest_anubis.report.text.summary_text import without_folders
from pytest_anubis.report.text.text_table import clip, plain_line, wrap

SHOWN = 18
"""Nodes shown without ``-v``: with what they share and what is missing fewer than thirty lines."""
MISSED = 4
"""Benchmarks named that never ran on most of many nodes."""
NAMED = 6
"""Names of nodes in one line about many."""
LOOKED = 3
"""Accepted nodes with something to be looked at that have a line of their own."""
OVERVIEW, MOST_NAMED = 6, 40
"""Between so many rejected nodes with a line of their own, one line more has all of them by component."""
CLASS_SHOWN = 40
"""Characters of a class after a node's name."""
WAIVED = "waived"
LINES = 3
"""Lines of one node without ``-v``: a long trace is in its dossier."""


def traits_text(traits: Mapping[str, str]) -> str:
    """Return what is registered of a node in one line: ``batch C, rack r03, serial S7000``."""
    return plain_line(", ".join(f"{name} {text}" for name, text in sorted(traits.items())))


def fleet_lines(
    rows: Iterable[NodeRow],
    shifts: Sequence[TraitShift] = (),
    *,
    besides: Sequence[str] = (),
    width: int | None = None,
    verbosity: int = 0,
) -> list[str]:
    """Return the lines about many nodes: the worst first, then the count.

    Shared causes come before single nodes, after nodes with a device that is gone. Nodes that lack the
    same, or are slow for the same shared cause alone, are one line, and so are many that are accepted; ``-v``
    has a line for each, and below it everything that was found.

    Args:
        rows: One a node and hardware class.
        shifts: What separates nodes, slow ones first.
        besides: Further lines that concern many nodes, shown after the shared causes.
        width: Columns of the terminal; None where nobody knows: then a node is one line.
        verbosity: From 1 everything.
    """
    ordered = sorted(rows, key=lambda row: row.verdict.severity)
    lines: list[str] = []
    shared = explained_by(ordered, shifts)
    causes = cause_lines(shifts, rejected_for(ordered, shared), verbose=verbosity > 0)
    causes += [*besides, *_by_component(ordered, shared)]
    groups = _groups(ordered, shared, verbosity)
    shown = groups[: None if verbosity > 0 else SHOWN]
    classes: dict[str, list[str]] = {}
    for row in ordered:
        classes.setdefault(row.verdict.node, []).append(row.hardware_class)
    column = max((len(group[0].trouble) for group in shown), default=0)
    gone = sum(bool(group[0].verdict.gone) for group in shown)
    for place, group in enumerate([*shown, []]):
        if place == gone:
            lines += [part for text in causes for part in wrap(text, width, indent="    ")]
        if not group:
            break
        why = shared.get(group[0].unit)
        names = [_name(row, classes) for row in group]
        text = _row(group, names, column, None if why is None else shifts[why])
        wrapped = wrap(text, width, indent="    ")
        most = LINES if verbosity <= 0 else len(wrapped)
        lines += (
            [*wrapped[: most - 1], wrapped[most - 1] + " …"] if len(wrapped) > most else wrapped
        )
        if verbosity > 0:
            lines += [
                part for text in _details(group[0]) for part in wrap(text, width, indent="      ")
            ]
    left = groups[len(shown) :]
    if left:
        nodes = sum(map(len, left))
        lines.append(f"... and {count_text(nodes, 'node')} more (-v shows all)")
    worst: dict[str, NodeRow] = {}  # a node may be in several classes
    for row in ordered:
        worst.setdefault(row.verdict.node, row)
    parts = [f"{count} {word}" for word, count in counted_words(worst.values())]
    waived = sum(row.waived for row in worst.values())
    parts += [f"{waived} of them with failures that are waived"] if waived else []
    lines.append(f"{count_text(len(worst), 'node')}: {', '.join(parts)}")
    return [
        *lines,
        *_way_out(ordered),
        *_taken_out(ordered),
        *_as_a_group(ordered, shared, shifts),
    ]


def _by_component(rows: Sequence[NodeRow], shared: Mapping[tuple[str, str], int]) -> list[str]:
    """Return one line of the rejected nodes by component, where they have many lines of their own."""
    own = (row for row in rows if row.unit not in shared)
    rejected = [row.verdict for row in own if row.verdict.decision is Decision.REJECTED]
    if not OVERVIEW < len(rejected) <= MOST_NAMED:
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
    """Say how nodes are accepted that only lack what never ran on them; nothing where there are none."""
    nodes = sum(row.only_absent for row in rows)
    if not nodes:
        return []
    return [
        f"{count_text(nodes, 'node')} undecided only for benchmarks that did not run there: run them, or "
        "say what a node must have run: --require NAME (a component, benchmark or metric; can be given "
        "again; --require any: whatever it ran)"
    ]


def _taken_out(rows: Sequence[NodeRow]) -> list[str]:
    """Return the nodes that are rejected for sure and for themselves, to be copied; of too many none."""
    sure = {row.verdict.node: None for row in rows if row.word == Decision.REJECTED.value}
    if not 1 < len(sure) <= MOST_NAMED:
        return []
    return [f"take out of service: {','.join(sure)}"]


def _as_a_group(
    rows: Sequence[NodeRow], shared: Mapping[tuple[str, str], int], shifts: Sequence[TraitShift]
) -> list[str]:
    """Return which groups of nodes are to be decided about as a whole; empty where there is none."""
    found = [
        f"{shifts[place].trait} {shifts[place].value} ({count_text(len(nodes), 'node')})"
        for place, nodes in rejected_for(rows, shared).items()
    ]
    return (
        [f"rejected for nothing but a shared cause, find that first: {', '.join(found)}"]
        if found
        else []
    )


def _groups(
    ordered: Sequence[NodeRow], shared: Mapping[tuple[str, str], int], verbosity: int
) -> list[list[NodeRow]]:
    """Group the nodes that share a line, in order.

    Of those that are rejected each has its own, unless a shared cause explains it.
    """
    if verbosity > 0:
        return [[row] for row in ordered]
    many = sum(row.verdict.decision is Decision.ACCEPTED for row in ordered) > NAMED
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
        elif row.verdict.decision is Decision.UNDECIDED:
            key = (Decision.UNDECIDED, row.cause, row.rest)
        elif row.look is not None:
            looks += 1
            key = (LOOK,) if looks > LOOKED else key
        elif row.waived:  # somebody answers for it: never among those with nothing
            waived += 1
            key = (WAIVED,) if waived > LOOKED else key
        elif many and row.verdict.decision is Decision.ACCEPTED:
            key = (Decision.ACCEPTED, bool(row.verdict.absent))
        groups.setdefault(key, []).append(row)
    return list(groups.values())


def _name(row: NodeRow, classes: Mapping[str, Sequence[str]]) -> str:
    """Return a node's name; of one that is in several classes with what its class has and another has not."""
    name, key = row.verdict.node, row.hardware_class
    others = [set(one.split("_")) for one in classes[name] if one != key]
    own = [part for part in key.split("_") if any(part not in other for other in others)]
    return f"{name} ({clip('_'.join(own) or key, CLASS_SHOWN)})" if others else name


def _row(
    group: Sequence[NodeRow], called: Sequence[str], column: int, why: TraitShift | None = None
) -> str:
    """Return the line of a group; the kinds of trouble take a column of this width, none if it is 0.

    Args:
        group: Its nodes.
        called: Their names.
        column: That width.
        why: The shared cause that explains all that is bad on them; None where there is none.
    """
    first = group[0]
    names = called[0]
    if len(group) > 1:
        shown = ", ".join(called[:NAMED])
        more = f", and {len(group) - NAMED} more" if len(group) > NAMED else ""
        names = f"{len(group)} nodes ({shown}{more})"
    kind = f"{first.trouble:{column}} " if column else ""
    head = f"{first.word:9} {kind}{names}"
    only = f"; as all of {why.trait} {why.value}, and nothing else" if why is not None else ""
    if len(group) > 1 and why is not None:
        return f"{head}: slower{only}{first.act}"
    if len(group) > 1 and first.look is not None:
        return f"{head}, too; -v says what"
    if len(group) > 1 and first.only_missing:
        counts = sorted({row.missing for row in group})
        many = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
        return f"{head}: {many} of their values missing each; nothing that is there has failed{first.act}"
    if len(group) > 1 and first.waived:
        return f"{head}: with failures that are waived, too; -v says which"
    if len(group) > 1 and first.verdict.decision is Decision.ACCEPTED:
        absent = f": {_absence(group)}, which was not required" if first.verdict.absent else ""
        return head + (absent or _promise(group))
    if len(group) > 1 and first.only_absent:
        return f"{head}: {_absence(group)}; nothing that ran has failed -> run these there, or --require NAME"
    rest = f"; also {first.rest}" if first.rest else ""
    return f"{head}: {first.cause}{only}{rest}{first.act}"


def _promise(group: Sequence[NodeRow]) -> str:
    """Return what most nodes of a group were accepted for."""
    (text, count), *_ = Counter(after_name(row.verdict) for row in group).most_common(1)
    return f": {'' if count == len(group) else 'mostly '}{plain_line(text)}"


def _absence(group: Sequence[NodeRow]) -> str:
    """Return how many benchmarks never ran on each node of a group, and which ones on most of them."""
    counts = sorted({len(row.verdict.absent) for row in group})
    many = count_text(counts[-1], "benchmark")
    many = f"{counts[0]} to {many}" if len(counts) > 1 else many
    often = Counter(name for row in group for name in row.verdict.absent).most_common(MISSED)
    named = ", ".join(f"{without_folders(name)} on {nodes}" for name, nodes in often)
    return f"{many} of the baseline did not run on each, or left no result (most often {named})"


def _details(row: NodeRow) -> list[str]:
    """Return everything that was found about a node, one line each."""
    found = sorted((v for v in row.verdicts if v.outcome in BAD), key=lambda v: v.severity)
    column = max((len(v.trouble.value) for v in found), default=0)
    lines = [
        f"  {v.outcome.value:8} {v.trouble.value:{column}} {worst_text(v, row.cards)}"
        for v in found
    ]
    steps = list(next_steps(found)) or list(filter(None, map(next_step, found[:1])))
    shared = shared_act(row.verdict)
    lines += [f"  next step: {plain_line(step)}" for step in ([shared] if shared else steps)]
    for title, texts in (
        ("in the way of acceptance", [*map(str, row.verdict.blocking)]),
        ("not judged, does not block", row.verdict.listed),
        ("seen, does not block", row.verdict.noted),
    ):
        lines += [f"  {title}: {plain_line(text)}" for text in texts]
    return lines
