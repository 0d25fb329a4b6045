"""``anubis history``: a node's runs and how its similarities move; incidents and defects."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from pytest_anubis.cli.commands.history.node_actions import (
    IMPORT_CODES,
    add_nodes,
    add_state,
    tell_import,
)
from pytest_anubis.cli.shared.arguments import add_action, add_renamed_actions, explain
from pytest_anubis.cli.shared.command_error import CommandError
from pytest_anubis.cli.shared.history_access import add_history, use
from pytest_anubis.cli.shared.printing import say
from pytest_anubis.core.history import Incident, RunSummary
from pytest_anubis.passwords import is_mistaken
from pytest_anubis.report.text.numbers import count_text, duration_text, similarity_text
from pytest_anubis.report.text.text_table import clip, table
from pytest_anubis.store.history.waiting_runs import WAITING, waiting, waiting_for

STATES = {"confirmed": "confirmed", "false-alarm": "false alarm", "open": "open"}


RENAMED = {
    "add": "incident add",
    "import": "incident import",
    "incidents": "incident list",
    "withdraw": "incident withdraw",
    "defects": "defect list",
    "found": "defect add",
    "close": "defect close",
}


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options and the nouns."""
    explain(
        parser,
        "Show a node's runs and how its similarities moved; keep incidents, defects and states of nodes.",
    )
    add_history(parser)
    parser.add_argument("--node", default="", help="node to show; default: all, or the only one")
    parser.add_argument("--limit", type=int, default=20, help="latest runs shown (default: 20)")
    parser.set_defaults(action="show")
    nouns = parser.add_subparsers(metavar="NOUN")
    _add_incident(_noun(nouns, "incident", "what users suffered: enter, list, take out"))
    _add_defect(_noun(nouns, "defect", "what validation found bad: list, enter by hand, close"))
    add_nodes(nouns)
    add_state(nouns)
    _add_file(nouns)
    add_renamed_actions(nouns, "history", RENAMED)


def _noun(nouns: Any, name: str, text: str) -> Any:
    noun = nouns.add_parser(name, help=text)
    explain(noun, text[0].upper() + text[1:] + ".")
    return noun.add_subparsers(metavar="ACTION", required=True)


def _add_incident(actions: Any) -> None:
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
    happened = add_action(actions, "list", _incidents, "list incidents, latest first")
    happened.add_argument("--node", default="", help="only this node's")
    happened.add_argument("--limit", type=int, default=40, help="how many (default: 40)")
    withdraw = add_action(
        actions, "withdraw", _withdraw, "take out an incident that was entered by mistake"
    )
    withdraw.add_argument("number", type=int, help="as 'anubis history incident list' shows it")
    load = add_action(
        actions, "import", _import, "read incidents from CSV; good lines are kept", IMPORT_CODES
    )
    load.add_argument(
        "file",
        type=Path,
        metavar="FILE.csv",
        help="columns node, kind, started; if you like duration, component, note",
    )
    load.add_argument("--add-nodes", action="store_true", help="add nodes that are unknown")
    for action in (enter, happened, withdraw, load):
        add_history(action, inherited=True)


def _add_defect(actions: Any) -> None:
    show = add_action(
        actions, "list", _defects, "list defects with the benchmarks that exposed them"
    )
    show.add_argument("--node", default="", help="only this node's")
    found = add_action(actions, "add", _found, "record a defect by hand, e.g. from an older system")
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
    close.add_argument("number", type=int, help="as 'anubis history defect list' shows it")
    close.add_argument(
        "--as",
        dest="state",
        choices=tuple(STATES),
        required=True,
        help="false alarms teach nothing; open: undecided again",
    )
    close.add_argument("--note", default="", help="words for people")
    for action in (show, found, close):
        add_history(action, inherited=True)


def _add_file(nouns: Any) -> None:
    file = add_action(
        nouns,
        "file",
        _file,
        "file the runs that wait for this history, which could not be written then",
    )
    file.add_argument(
        "--runs",
        type=Path,
        metavar="DIR",
        help="the store that keeps the runs (default: --store where that is a folder, else .anubis)",
    )
    file.add_argument(
        "--all", action="store_true", help="every run of the store, e.g. after its history was lost"
    )
    add_history(file, inherited=True)


def run(options: argparse.Namespace) -> int:
    """Do what was asked for."""
    action = _show if options.action == "show" else options.action
    store = options.store
    folder = "://" not in store and not is_mistaken(store)
    if folder and action in (_show, _defects, _incidents) and not Path(store).is_dir():
        raise CommandError(f"{store}: no history yet; run 'pytest --anubis suites/' first")
    return int(action(options) or 0)  # those that can only succeed or fail return nothing


def _show(options: argparse.Namespace) -> None:
    nodes = use(options.store, lambda history: history.nodes())
    if not nodes:
        say("no runs yet; run 'pytest --anubis suites/' first")
        return
    if options.node or len(nodes) == 1:
        node, limit = options.node or nodes[0].name, max(1, options.limit)
        runs = use(options.store, lambda history: history.node_history(node, limit=limit))
        state = next(record.state for record in nodes if record.name == node)
        for line in _node_lines(node, state, runs):
            say(line)
        return
    rows = [["node", "state", "since", "hardware class", "in service since"]]
    rows += [
        [
            n.name,
            n.state,
            "-" if n.changed is None else _time(n.changed),
            n.hardware_class,
            _time(n.since),
        ]
        for n in nodes
    ]
    say(*table(rows).splitlines())
    say("one node: anubis history --node NAME")


def _node_lines(node: str, state: str, runs: tuple[RunSummary, ...]) -> list[str]:
    if not runs:
        return [f"node {node}, {state}, no runs yet"]
    rows = [["started", "run", "profile", "took", "decision", "lowest similarity"]]
    for run in runs:
        lowest = min(run.similarities.items(), key=lambda item: item[1], default=None)
        rows.append(
            [
                _time(run.started),
                run.run,
                run.profile,
                "-" if run.seconds is None else duration_text(run.seconds),
                run.decision or run.purpose,
                "-" if lowest is None else f"{similarity_text(lowest[1])} {lowest[0][1]}",
            ]
        )
    lines = [f"node {node}, {state}, {len(runs)} latest runs", *table(rows).splitlines()]
    moved = _movement(runs)
    if moved:
        lines += ["", "how similarities moved (oldest to newest):", *table(moved).splitlines()]
    return lines


def _movement(runs: tuple[RunSummary, ...]) -> list[list[str]]:
    """Return a row a metric that was judged at least twice: first, lowest, last, and the change."""
    series: dict[tuple[str, str, str], list[float]] = {}
    for run in runs:
        for key, value in run.similarities.items():
            series.setdefault(key, []).append(value)
    rows = []
    for (benchmark, metric, device), values in series.items():
        if len(values) > 1:
            name = clip(f"{benchmark.rpartition('/')[2]} {device}".strip(), 48)
            numbers = [similarity_text(v) for v in (values[0], min(values), values[-1])]
            change = f"{values[-1] - values[0]:+.4f}"
            rows.append((values[-1] - values[0], [name, metric, *numbers, change]))
    if not rows:
        return []
    header = ["benchmark", "metric", "first", "lowest", "last", "change"]
    return [header, *(row for _, row in sorted(rows, key=lambda item: item[0]))]


def _import(options: argparse.Namespace) -> int:
    from pytest_anubis.store.history.incident_records import import_incidents

    add_nodes = options.add_nodes
    result = use(
        options.store,
        lambda history: import_incidents(history, options.file, add_nodes=add_nodes),
    )
    return tell_import(options.file, result, "incident", result.left_out)


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

    new = use(options.store, enter)
    say("incident added" if new else "this incident was known already")


def _incidents(options: argparse.Namespace) -> None:
    from pytest_anubis.store.history.incident_records import incidents

    found = use(options.store, lambda history: incidents(history, node=options.node))
    if not found:
        say("no incidents")
        return
    rows = [["number", "started", "node", "kind", "component", "lasted", "note"]]
    for one in reversed(found[-max(1, options.limit) :]):
        lasted = "-" if one.duration is None else duration_text(one.duration)
        note = clip(one.note, 60)
        rows.append(
            [str(one.number), _time(one.started), one.node, one.kind, one.component, lasted, note]
        )
    say(*table(rows).splitlines())
    if len(rows) <= len(found):
        say(f"... and {len(found) - len(rows) + 1} before (--limit shows more)")


def _withdraw(options: argparse.Namespace) -> None:
    from pytest_anubis.store.history.incident_records import withdraw_incident

    use(options.store, lambda history: withdraw_incident(history, options.number))
    say(f"incident {options.number}: taken out")


def _defects(options: argparse.Namespace) -> None:
    from pytest_anubis.store.history.defect_records import defects

    found = use(options.store, lambda history: defects(history, node=options.node))
    if not found:
        say("no defects")
        return
    rows = [["number", "found", "node", "component", "state", "exposed by"]]
    for defect in found:
        exposed = ", ".join(name.rpartition("/")[2] for name in defect.benchmarks)
        rows.append(
            [
                str(defect.number),
                _time(defect.found),
                defect.node,
                defect.component,
                defect.state,
                clip(exposed, 80),
            ]
        )
    say(*table(rows).splitlines())


def _found(options: argparse.Namespace) -> None:
    from pytest_anubis.store.history.database import moment_of
    from pytest_anubis.store.history.defect_records import add_defect

    number = use(
        options.store,
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
    say(f"defect {number} recorded as confirmed")


def _close(options: argparse.Namespace) -> None:
    from pytest_anubis.store.history.defect_records import close_defect

    state = STATES[options.state]
    use(
        options.store,
        lambda history: close_defect(history, options.number, state, note=options.note),
    )
    say(f"defect {options.number}: {STATES[options.state]}")


def _file(options: argparse.Namespace) -> None:
    from pytest_anubis.store.history.database import HistoryError
    from pytest_anubis.store.history.run_filing import file_all

    elsewhere = "://" in options.store
    folder = Path(".anubis" if elsewhere else options.store)
    runs = options.runs or folder
    place = options.store if elsewhere else folder
    names = None if options.all else waiting_for(runs, place)
    filed: list[str] = []
    try:
        said = file_all(runs, place=place, names=names, progress=filed.append)
    except HistoryError as error:
        raise CommandError(str(error)) from error
    for line in said:
        say(line)
    say(f"{count_text(len(filed) - len(said), 'run')} filed, {len(said)} could not be filed")
    if left := len(waiting(runs)) - len(waiting_for(runs, place)):
        say(
            f"{count_text(left, 'run')} in {runs / WAITING} for another history: name it as --store"
        )
    if said:
        raise CommandError(f"{runs}: not all runs are in the history")


def _time(moment: float) -> str:
    from pytest_anubis.store.history.database import shown_time

    return shown_time(moment)[:16].replace("T", " ")
