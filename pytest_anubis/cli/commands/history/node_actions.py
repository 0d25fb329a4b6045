"""``anubis history nodes`` and ``history state``: list, register and join nodes, and enter their states.

A state (in service, drained, repair, removed) is what the operator did, not a verdict.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_anubis.cli.shared.arguments import add_action, add_json, add_noun
from pytest_anubis.cli.shared.command_error import CommandError
from pytest_anubis.cli.shared.history_access import add_history, day_and_time, plain_record, use
from pytest_anubis.cli.shared.printing import answer
from pytest_anubis.cli.shared.run_sources import listed
from pytest_anubis.report.text.numbers import count_text
from pytest_anubis.report.text.text_table import folded, table
from pytest_anubis.store.node_standing import keep_answered, keep_joined

if TYPE_CHECKING:
    from pytest_anubis.core.history import NodeRecord
    from pytest_anubis.store.history.csv_rows import TableImport

NODE_STATES = {
    "in-service": "in service",
    "drained": "drained",
    "repair": "repair",
    "removed": "removed",
}
"""States as options name them -> as the history keeps them."""

_FIRST_TRAITS = ("rack", "position", "serial", "batch")
"""Traits that have the first columns."""
_MAX_TRAITS = 4
"""Traits that have a column; with more, no terminal shows the lines whole."""

IMPORT_CODES = (
    "Exit codes: 0 every line is in the history; 1 some were left out, which are listed; 2 wrong usage, or a "
    "file without a good line."
)


def add_nodes(nouns: Any) -> None:
    """Declare ``nodes`` with its actions."""
    text = "nodes of the fleet, healthy ones too: list them, register them from a table"
    actions = add_noun(nouns, "nodes", text)
    listing = add_action(actions, "list", list_nodes, "list nodes with their states")
    load = add_action(
        actions,
        "import",
        _import,
        "register nodes from CSV, or add to what is known of them",
        IMPORT_CODES,
    )
    load.add_argument(
        "file",
        type=Path,
        metavar="FILE.csv",
        help="column node; if you like class (until a run has one), since (in service), state, on (of the "
        "state; default: the file's date), note; every other (rack, position, batch, serial, ...) is kept "
        "for the fleet's page",
    )
    join = add_action(
        actions,
        "join",
        _join,
        "make a machine that shares its name (NAME~LETTERS) the same node as NAME, e.g. as its mainboard "
        "was exchanged: its runs, defects and incidents move there, and later runs go there",
    )
    join.add_argument(
        "node", metavar="NAME~LETTERS", help="what 'anubis history nodes list' calls it"
    )
    for action in (listing, load, join):
        add_history(action, inherited=True)
        add_json(action, "what comes of it", inherited=True)


def add_state(nouns: Any) -> None:
    """Declare ``state``."""
    state = add_action(
        nouns, "state", _state, "note that a node was drained, repaired, removed, put into service"
    )
    state.add_argument(
        "--node", required=True, metavar="NAME[,...]", help="whose state it is; several with commas"
    )
    state.add_argument(
        "--as",
        dest="state",
        choices=tuple(NODE_STATES),
        required=True,
        help="what became of it; a node that was removed has no risk",
    )
    state.add_argument("--on", default="", help="ISO 8601, or seconds since 1970; default: now")
    state.add_argument("--note", default="", help="words for people")
    state.add_argument("--add-nodes", action="store_true", help="add the node if it is unknown")
    add_history(state, inherited=True)
    add_json(state, "what comes of it", inherited=True)


def list_nodes(options: argparse.Namespace) -> None:
    """List the nodes of the history, one line each."""
    from pytest_anubis.store.history.fleet_history import last_verdicts, run_counts
    from pytest_anubis.store.history.node_records import node_traits

    nodes, verdicts, counts, traits = use(
        options.history,
        lambda history: (
            history.nodes(),
            last_verdicts(history),
            run_counts(history),
            node_traits(history),
        ),
    )
    known = {name for own in traits.values() for name in own}
    columns = [name for name in _FIRST_TRAITS if name in known]
    columns += sorted(known.difference(columns))
    head = ["node", "state", "since", "hardware class", "in service since", "measured", "verdict"]
    head += columns[:_MAX_TRAITS]
    rows = [head]
    rows += [
        [
            node.name,
            node.state,
            "-" if node.changed is None else day_and_time(node.changed),
            node.hardware_class,
            day_and_time(node.since),
            _measured(node.name, verdicts, counts),
            verdicts.get(node.name, ("-", 0.0))[0],
            *(traits.get(node.name, {}).get(name, "-") for name in columns[:_MAX_TRAITS]),
        ]
        for node in nodes
    ]
    lines = table(folded(rows)[0]).splitlines()
    there = [node for node in nodes if node.state != "removed"]
    if unrun := sum(node.name not in counts for node in there):
        gone = len(nodes) - len(there)
        removed = f"; {gone} removed, which need no run" if gone else ""
        lines.append(f"{count_text(len(there), 'node')}, {unrun} of them with no run yet{removed}")
    lines.append("one node: anubis history --node NAME")
    if left := columns[_MAX_TRAITS:]:
        lines.append(f"with --json as well: {', '.join(left)}")
    none = "no nodes yet; run 'pytest --anubis suites/', or 'anubis history nodes import'"
    plain = [
        plain_record(node, "since", "changed")
        | {"verdict": verdicts[node.name][0] if node.name in verdicts else None}
        | {"runs": counts.get(node.name, 0)}
        | {"traits": traits.get(node.name, {})}
        for node in nodes
    ]
    answer(options.json, {"nodes": plain}, *(lines if nodes else [none]))


def _measured(
    node: str, verdicts: Mapping[str, tuple[str, float]], counts: Mapping[str, int]
) -> str:
    """Return when a node was judged last, or why there is no such day."""
    if node in verdicts:
        return day_and_time(verdicts[node][1])
    return "never judged" if node in counts else "no run yet"


def _join(options: argparse.Namespace) -> None:
    from pytest_anubis.store.history.machine_owners import join_node

    name, moved = use(options.history, lambda history: join_node(history, options.node))
    line = (
        f"{options.node} is {name} now: {count_text(moved, 'run')} moved; later ones go there too"
    )
    if problem := keep_joined(options.history, name):
        line += f"; {problem}"
    answer(options.json, {"node": name, "joined": options.node, "runs": moved}, line)


def _import(options: argparse.Namespace) -> int:
    from pytest_anubis.store.history.node_records import import_nodes

    result = use(options.history, lambda history: import_nodes(history, options.file))
    more = f"; kept of each: {', '.join(result.traits)}" if result.traits else ""
    return answer_import(options, result, "node", more)


def answer_import(
    options: argparse.Namespace, result: TableImport, noun: str, more: str = ""
) -> int:
    """Print what became of a table's lines; return the exit code, or refuse a table without a good line."""
    plain = {
        "added": result.added,
        "known": result.known,
        "left_out": result.left_out,
        "wrong": list(result.wrong),
    }
    answer(
        options.json,
        plain,
        *result.wrong,
        f"{count_text(result.added, noun)} added, {result.known} known already, "
        f"{count_text(result.left_out, 'line')} left out{more}",
    )
    if result.wrong and not result.added and not result.known:
        raise CommandError(f"{options.file}: no good line")
    return 1 if result.wrong else 0


def _state(options: argparse.Namespace) -> None:
    from pytest_anubis.store.history.database import History, HistoryError, moment_of
    from pytest_anubis.store.history.node_rows import unknown_node

    names = listed([options.node]) or ("",)
    state = NODE_STATES[options.state]

    def enter(history: History) -> tuple[list[tuple[bool, NodeRecord]], float | None]:
        at = moment_of(options.on) if options.on else None
        known = {node.name for node in history.nodes()}
        for name in names:  # before the first is entered
            if name in known:
                continue
            if not options.add_nodes:
                raise HistoryError(unknown_node(name))
            history.add_node(name, since=at)
        added = [history.set_state(name, state, at=at, note=options.note) for name in names]
        nodes = {node.name: node for node in history.nodes()}
        return [(one, nodes[name]) for one, name in zip(added, names, strict=True)], at

    entered, at = use(options.history, enter)
    plain, lines = zip(*(_entered(options, *one, at) for one in entered), strict=True)
    answer(options.json, plain[0] if len(plain) == 1 else {"nodes": list(plain)}, *lines)


def _entered(
    options: argparse.Namespace, added: bool, node: NodeRecord, at: float | None
) -> tuple[dict[str, Any], str]:
    """Return what became of one node's state, as plain data and as a line."""
    from pytest_anubis.store.history.database import shown_time

    state = NODE_STATES[options.state]
    since = None if at is None else shown_time(at)
    now = None if node.changed is None else shown_time(node.changed)
    line = f"node {node.name}: {state}{f' since {since}' if since else ''}"
    if not added:
        line += ": already recorded, nothing is added"
        line += f" and --note {options.note!r} is not kept" if options.note else ""
    if (node.state, node.changed) != (state, node.changed if at is None else at):
        line += f"; a later entry applies now: {node.state} since {now}"
    if node.state == "in service" and (
        problem := keep_answered(options.history, node.name, in_service=node.changed)
    ):
        line += f"; {problem}"
    plain = {"node": node.name, "state": state, "since": since, "added": added}
    return plain | {"now": {"state": node.state, "since": now}}, line
