"""``anubis history defect``: list, enter and close the defects that validation found."""

from __future__ import annotations

import argparse
from typing import Any

from pytest_anubis.cli.shared.arguments import add_action, add_json, add_noun
from pytest_anubis.cli.shared.history_access import (
    add_history,
    day_and_time,
    plain_record,
    row_number,
    use,
)
from pytest_anubis.cli.shared.printing import answer
from pytest_anubis.report.text.text_table import clip, table
from pytest_anubis.store.node_standing import keep_answered

STATES = {"confirmed": "confirmed", "false-alarm": "false alarm", "open": "open"}


def add_defects(nouns: Any) -> None:
    """Declare ``defect`` with its actions."""
    actions = add_noun(nouns, "defect", "what validation found bad: list, enter by hand, close")
    show = add_action(
        actions, "list", list_defects, "list defects with the benchmarks that exposed them"
    )
    show.add_argument("--node", default=argparse.SUPPRESS, help="only this node's")
    found = add_action(actions, "add", _add, "record a defect by hand, e.g. from an older system")
    found.add_argument("--node", required=True, help="where it was found")
    found.add_argument(
        "--benchmark",
        action="append",
        required=True,
        metavar="ID",
        help="a benchmark that exposed it, as pytest names it, without the device; repeat for more",
    )
    found.add_argument(
        "--new-benchmark", action="store_true", help="the benchmark has not run here yet"
    )
    found.add_argument("--component", default="", help="the part to blame, e.g. network.loopback")
    found.add_argument("--kind", default="", help="kind of incident that it leads to, e.g. nic")
    found.add_argument("--on", default="", help="ISO 8601, or seconds since 1970; default: now")
    found.add_argument("--note", default="", help="words for people")
    close = add_action(
        actions,
        "close",
        _close,
        "close a defect as confirmed or as a false alarm, or open it again",
    )
    close.add_argument("number", type=row_number, help="as 'anubis history defect list' shows it")
    close.add_argument(
        "--as",
        dest="state",
        choices=tuple(STATES),
        required=True,
        help="confirmed: the fault was real and dealt with, the Selector learns from it; false-alarm: the "
        "hardware was sound, and nothing is learned; open: not decided yet. The first two end the rejection "
        "until the node is measured again",
    )
    close.add_argument("--note", default="", help="words for people")
    for action in (show, found, close):
        add_history(action, inherited=True)
        add_json(action, "what comes of it", inherited=True)


def list_defects(options: argparse.Namespace) -> None:
    """List defects, in time order."""
    from pytest_anubis.store.history.fleet_history import standing_defects

    found = use(options.history, lambda history: standing_defects(history, node=options.node))
    rows = [["number", "found", "last seen", "runs", "node", "component", "state", "exposed by"]]
    for one in found:
        exposed = clip(", ".join(name.rpartition("/")[2] for name in one.benchmarks), 80)
        when = [day_and_time(one.found), day_and_time(one.found if one.seen is None else one.seen)]
        row = [str(one.number), *when, str(len(one.runs) or ""), one.node]
        state = f"{one.state}, passed since" if one.passed else one.state
        rows.append([*row, ", ".join(one.components), state, exposed])
    plain = [plain_record(one, "found", "seen", "closed") for one in found]
    lines = table(rows).splitlines() if found else ["no defects"]
    answer(options.json, {"defects": plain}, *lines)


def _add(options: argparse.Namespace) -> None:
    from pytest_anubis.store.history.database import moment_of
    from pytest_anubis.store.history.defect_records import add_defect

    number = use(
        options.history,
        lambda history: add_defect(
            history,
            node=options.node,
            benchmarks=options.benchmark,
            component=options.component,
            kind=options.kind,
            found=moment_of(options.on) if options.on else None,
            note=options.note,
            known_benchmarks=not options.new_benchmark,
        ),
    )
    line = (
        f"defect {number} recorded as confirmed and closed: the Selector learns what exposes it; to "
        f"run them on {options.node} every time: anubis history defect close {number} --as open"
    )
    answer(options.json, {"number": number, "state": "confirmed"}, line)


def _close(options: argparse.Namespace) -> None:
    from pytest_anubis.store.history.defect_records import close_defect

    state = STATES[options.state]
    defect = use(
        options.history,
        lambda history: close_defect(history, options.number, state, note=options.note),
    )
    same = "" if defect.number == options.number else f" ({options.number} is a sighting of it)"
    line = f"defect {defect.number}{same}: {state}"
    line += f" in all of {', '.join(defect.components)}" if len(defect.components) > 1 else ""
    if state != "open":
        line += f"; {defect.node} is due to be measured again; it leaves the drain list if no failure is open"
    answered = state != "open"
    if problem := keep_answered(options.history, defect.node, defect.runs, answered=answered):
        line += f"; {problem}"
    answer(options.json, {"number": defect.number, "state": state}, line)
