"""``anubis fleet status`` and ``drain-list``: the state of every node of a fleet, and which to drain.

Nothing is measured, and no scheduler is asked to drain anything: `fleet_status` words what is known.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pytest_anubis.cli.commands.fleet.fleet_reading import (
    FleetRead,
    FleetRisk,
    add_fleet,
    history_named,
    read_fleet_now,
    risk_of,
)
from pytest_anubis.cli.shared import history_access as histories
from pytest_anubis.cli.shared.arguments import add_action, add_json
from pytest_anubis.cli.shared.printing import say, show, terminal_width, write_json
from pytest_anubis.codec import to_plain
from pytest_anubis.core.verdict import Decision
from pytest_anubis.fleet.launching.health_check import span_text
from pytest_anubis.report.export.drain_reason import unjudged_text
from pytest_anubis.report.text.numbers import count_text, duration_text, percent
from pytest_anubis.report.text.text_table import folded, table
from pytest_anubis.validator.surveying.validation_survey import validation_figures

if TYPE_CHECKING:
    from pytest_anubis.fleet.fleet_status import NodeStatus

MAX_LINES = 40
"""Lines on the terminal without ``--all``."""

PLAIN_FIELDS = (
    "node", "why", "since", "hardware_class", "state", "decision", "run", "reason", "component", "device",
    "retest", "group",
)  # fmt: skip
"""Fields of a node's status that the JSON has under the same names."""

MAX_NOTES = 5
"""Notes about single files on the terminal; JSON has all of them."""

STATUS_CODES = (
    "Exit codes: 0 every node is ACCEPTED; 1 a node is REJECTED, RETEST, DRAINED or in REPAIR; 20 none is, "
    "but one was cut short, never measured, is undecided or due, or a file is damaged; 2 wrong usage or "
    "input."
)
DRAIN_CODES = (
    "Exit codes: 0 no node is to be drained; 1 those that are printed without a # before them, which are to "
    "be measured again first; 2 wrong usage or input."
)


def add_status(actions: Any) -> None:
    """Declare ``status``."""
    parser = add_action(
        actions, "status", _status,
        "say which nodes are rejected and why, cut short, never measured, undecided or due, worst first",
        STATUS_CODES,
    )  # fmt: skip
    add_fleet(parser, folders=True)
    histories.add_horizon(parser)
    parser.add_argument(
        "--risk",
        type=histories.probability,
        default=0.01,
        metavar="P0",
        help="an accepted node is due if its last verdict leaves more than this probability of an incident "
        "within the horizon (default: 0.01)",
    )
    parser.add_argument(
        "--max-age",
        type=histories.duration,
        metavar="TIME",
        help="an accepted node is due after this time whatever its risk, e.g. 30d (default: never)",
    )
    parser.add_argument(
        "--all", action="store_true", help="every node on a line of its own, all of them"
    )
    _add_format(parser, ("text", "json"))
    add_json(parser, "the state of every node, and why")


def add_drain_list(actions: Any) -> None:
    """Declare ``drain-list``."""
    parser = add_action(
        actions, "drain-list", _drain_list,
        "print the nodes that are rejected and still in service, with drain reasons; nothing is drained",
        DRAIN_CODES,
    )  # fmt: skip
    add_fleet(parser, folders=True)
    _add_format(parser, ("text", "scontrol", "json"))
    add_json(parser, "the nodes and their reasons")


def _add_format(parser: argparse.ArgumentParser, known: Sequence[str]) -> None:
    texts = {"scontrol": "scontrol prints the commands for a shell, "}
    more = "".join(texts.get(one, "") for one in known)
    parser.add_argument(
        "--format",
        choices=known,
        default="text",
        help=f"what is printed: text, one line a node, {more}or json, as --json - (default: text)",
    )


def _status(options: argparse.Namespace) -> int:
    from pytest_anubis.fleet.fleet_status import exit_code, statuses_of

    now = time.time()
    to = "-" if options.format == "json" else options.json
    found = read_fleet_now(options, whole=True, validated=to is not None)
    model = histories.kept_model(history_named(options))
    risk = risk_of(found, options.horizon, model, now)
    statuses = statuses_of(
        found.nodes,
        now=now,
        risks={} if risk is None else risk.left,
        accepted_risk=options.risk,
        max_age=options.max_age,
        listed=found.listed,
    )
    if to is not None:
        write_json(to, _document(options, found, statuses, risk, now))
    if to == "-":
        return exit_code(statuses, found.damaged)
    counts = Counter(one.word for one in statuses)
    counted = ", ".join(f"{counts[word]} {word}" for word in counts)
    say(f"{count_text(len(statuses), 'node')}: {counted}")
    say(*_lines(statuses, now, whole=options.all))
    notes = (*_first_notes(found.notes), *_unjudged_notes(statuses), *_risk_notes(options, risk))
    say(*(f"note: {note}" for note in notes))
    return exit_code(statuses, found.damaged)


def _first_notes(notes: Sequence[str]) -> list[str]:
    """Return the first of many notes, and how many more there are."""
    more = [f"{len(notes) - MAX_NOTES} more such notes"] if len(notes) > MAX_NOTES else []
    return [*notes[:MAX_NOTES], *more]


def _lines(statuses: Sequence[NodeStatus], now: float, *, whole: bool) -> list[str]:
    from pytest_anubis.fleet.fleet_status import Status

    rows = [["node", "is", "for", "why"]]
    rows += [
        [
            one.node,
            one.word,
            "-" if one.since is None else span_text(now - one.since),
            one.why
            + (f" ({one.device})" if "(" in one.device else "")
            + (f" -> {one.act}" if one.act else ""),
        ]
        for one in statuses
        if whole or one.status is not Status.FIT
    ]
    shown, counts = (rows, [0] + [1] * (len(rows) - 1)) if whole else folded(rows)
    more = []
    if not whole and len(shown) > MAX_LINES + 1:
        left = sum(counts[MAX_LINES + 1 :])
        shown = shown[: MAX_LINES + 1]
        more = [f"{count_text(left, 'more node')} that are not ACCEPTED (--all shows them)"]
    if len(shown) == 1:
        return more
    return [*table(shown, width=terminal_width(), shrink=3).splitlines(), *more]


def _unjudged_notes(statuses: Sequence[NodeStatus]) -> list[str]:
    each = [one.unjudged for one in statuses if one.unjudged and one.decision == Decision.ACCEPTED]
    most = unjudged_text(max(each, default=0))
    return [f"{count_text(len(each), 'accepted node')} with up to {most}"] if each else []


def _risk_notes(options: argparse.Namespace, risk: FleetRisk | None) -> list[str]:
    if risk is not None:
        return [
            f"due: a risk of more than {percent(options.risk)} within {duration_text(options.horizon)}, by "
            f"the {risk.outlook.basis}, less what the last verdict ruled out",
            *risk.outlook.notes,
        ]
    why = "no incident is known, so no risk ('anubis history incident import' enters them)"
    return [why if options.max_age is not None else f"{why}: nothing is due without --max-age"]


def _document(
    options: argparse.Namespace,
    found: FleetRead,
    statuses: Sequence[NodeStatus],
    risk: FleetRisk | None,
    now: float,
) -> dict[str, Any]:
    from pytest_anubis.fleet.fleet_status import Status, exit_code

    counts = Counter(one.word for one in statuses)
    defects = None if found.fleet is None else found.fleet.defects
    read = found.validated
    return {
        "schema": 1,
        "at": now,
        "horizon": options.horizon,
        "accepted_risk": options.risk,
        "basis": None if risk is None else risk.outlook.basis,
        "counts": {one.value: 0 for one in Status} | counts,
        "nodes": [
            {
                "is": one.word,
                "next": one.act,
                "residual_risk": one.risk,
                **{name: getattr(one, name) for name in PLAIN_FIELDS},
            }
            for one in statuses
        ],
        "validation": to_plain(validation_figures(read.runs, defects, read.older), full=True),
        "notes": [*found.notes, *_unjudged_notes(statuses), *_risk_notes(options, risk)],
        "exit_code": exit_code(statuses, found.damaged),
    }


def _drain_list(options: argparse.Namespace) -> int:
    from pytest_anubis.fleet.fleet_status import Status, drain_lines, statuses_of
    from pytest_anubis.store.fleet.unfiled import push_command, store_of

    found = read_fleet_now(options, whole=False)
    statuses = statuses_of(
        found.nodes, now=time.time(), risks={}, accepted_risk=1.0, listed=found.listed
    )
    due = [one for one in statuses if one.to_drain]
    lines, refused = drain_lines(due, scontrol=options.format == "scontrol")
    never = sum(one.status is Status.NEVER for one in statuses)
    unknown = [f"{count_text(never, 'node')} without any verdict: nothing is known of them"]
    lacking = [one for one in found.nodes if one.unfiled]
    missed = [
        f"{count_text(len(lacking), 'node')} with runs that the history lacks, which may reject them; "
        f"{push_command(store_of(one.unfiled[0]))} files them"
        for one in lacking[:1]
    ]
    for note in (*_first_notes(found.notes), *refused, *missed, *(unknown if never else ())):
        say(f"note: {note}", file=sys.stderr)
    to = "-" if options.format == "json" else options.json
    if to is not None:
        names = ("node", "reason", "since", "retest", "group")
        plain = [{name: getattr(one, name) for name in names} for one in due]
        write_json(to, {"schema": 1, "nodes": plain}, aside=True)
    code = 1 if any(not (one.retest or one.group) for one in due) else 0
    if to == "-":
        return code
    if options.format == "scontrol":
        show("".join(f"{line}\n" for line in lines))
    else:
        say(*lines)
    return code
