"""``anubis history incident``: add, list, withdraw and import incidents, from which risk models learn."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from pytest_anubis.cli.commands.history.node_actions import IMPORT_CODES, answer_import
from pytest_anubis.cli.shared.arguments import add_action, add_json, add_noun
from pytest_anubis.cli.shared.history_access import (
    add_history,
    day_and_time,
    plain_record,
    row_number,
    use,
)
from pytest_anubis.cli.shared.printing import answer
from pytest_anubis.core.history import Incident
from pytest_anubis.report.text.numbers import duration_text
from pytest_anubis.report.text.text_table import clip, table


def add_incidents(nouns: Any) -> None:
    """Declare ``incident`` with its actions."""
    actions = add_noun(nouns, "incident", "what users suffered: add, list, withdraw, import")
    enter = add_action(actions, "add", _add, "record one incident")
    enter.add_argument("--node", required=True, help="where it happened")
    enter.add_argument("--kind", required=True, help="e.g. nic, gpu-memory")
    enter.add_argument("--started", required=True, help="ISO 8601, or seconds since 1970")
    enter.add_argument(
        "--duration", default="", help="hours, or 90s, 30m, 2h, 1d; leave it out while it lasts"
    )
    enter.add_argument("--component", default="", help="the part to blame, if known")
    enter.add_argument("--note", default="", help="words for people")
    enter.add_argument("--add-nodes", action="store_true", help="add the node if it is unknown")
    happened = add_action(actions, "list", list_incidents, "list incidents, latest first")
    happened.add_argument("--node", default=argparse.SUPPRESS, help="only this node's")
    happened.add_argument("--limit", type=int, default=40, help="how many (default: 40)")
    withdraw = add_action(
        actions, "withdraw", _withdraw, "take out an incident that was entered by mistake"
    )
    withdraw.add_argument(
        "number", type=row_number, help="as 'anubis history incident list' shows it"
    )
    load = add_action(
        actions, "import", _import, "read incidents from CSV; good lines are kept", IMPORT_CODES
    )
    load.add_argument(
        "file",
        type=Path,
        metavar="FILE.csv",
        help="columns node, kind, started; optional: duration, component, note",
    )
    load.add_argument("--add-nodes", action="store_true", help="add nodes that are unknown")
    for action in (enter, happened, withdraw, load):
        add_history(action, inherited=True)
        add_json(action, "what comes of it", inherited=True)


def _import(options: argparse.Namespace) -> int:
    from pytest_anubis.store.history.incident_records import import_incidents

    add_nodes = options.add_nodes
    result = use(
        options.history,
        lambda history: import_incidents(history, options.file, add_nodes=add_nodes),
    )
    return answer_import(options, result, "incident")


def _add(options: argparse.Namespace) -> None:
    from pytest_anubis.store.history.database import History, moment_of
    from pytest_anubis.store.history.incident_records import add_incident, seconds_of

    def enter(history: History) -> bool:
        incident = Incident(
            node=options.node,
            kind=options.kind,
            started=moment_of(options.started),
            duration=seconds_of(options.duration),
            component=options.component,
            note=options.note,
        )
        return add_incident(history, incident, add_node=options.add_nodes)

    new = use(options.history, enter)
    answer(
        options.json, {"added": new}, "incident added" if new else "this incident was known already"
    )


def list_incidents(options: argparse.Namespace) -> None:
    """List incidents, the latest first."""
    from pytest_anubis.store.history.incident_records import incidents

    found = use(options.history, lambda history: incidents(history, node=options.node))
    shown = found[-max(1, options.limit) :][::-1]
    rows = [["number", "started", "node", "kind", "component", "lasted", "note"]]
    for one in shown:
        lasted = "-" if one.duration is None else duration_text(one.duration)
        started = day_and_time(one.started)
        note = clip(one.note, 60)
        rows.append([str(one.number), started, one.node, one.kind, one.component, lasted, note])
    lines = table(rows).splitlines() if found else ["no incidents"]
    if len(shown) < len(found):
        lines.append(f"... and {len(found) - len(shown)} before (--limit shows more)")
    plain = [plain_record(one, "started") for one in shown]
    answer(options.json, {"incidents": plain, "known": len(found)}, *lines)


def _withdraw(options: argparse.Namespace) -> None:
    from pytest_anubis.store.history.incident_records import withdraw_incident

    use(options.history, lambda history: withdraw_incident(history, options.number))
    line = f"incident {options.number}: taken out"
    answer(options.json, {"number": options.number, "withdrawn": True}, line)
