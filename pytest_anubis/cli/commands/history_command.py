"""``anubis history``: show a node's runs and how its similarities moved.

Its nouns (incident, defect, nodes, state) and the upkeep of the database are in ``commands/history``.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_anubis.cli.commands.history.defect_actions import add_defects, list_defects
from pytest_anubis.cli.commands.history.incident_actions import add_incidents, list_incidents
from pytest_anubis.cli.commands.history.node_actions import add_nodes, add_state, list_nodes
from pytest_anubis.cli.commands.history.upkeep_actions import add_upkeep
from pytest_anubis.cli.shared.arguments import add_json, explain
from pytest_anubis.cli.shared.command_error import CommandError
from pytest_anubis.cli.shared.history_access import add_history, day_and_time, plain_record, use
from pytest_anubis.cli.shared.printing import answer
from pytest_anubis.core.history import RunSummary
from pytest_anubis.passwords import is_mistaken
from pytest_anubis.report.text.numbers import count_text, duration_text, similarity_text
from pytest_anubis.report.text.text_table import squeeze, table


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options and the nouns."""
    explain(
        parser,
        "Show a node's runs and how its similarities moved; keep incidents, defects and states of nodes.",
    )
    add_history(parser)
    add_json(parser, "what is shown")
    parser.add_argument("--node", default="", help="node to show; default: all, or the only one")
    parser.add_argument("--limit", type=int, default=20, help="latest runs shown (default: 20)")
    parser.set_defaults(action="show")
    nouns = parser.add_subparsers(metavar="NOUN")
    add_incidents(nouns)
    add_defects(nouns)
    add_nodes(nouns)
    add_state(nouns)
    add_upkeep(nouns)


def run(options: argparse.Namespace) -> int:
    """Do what was asked for."""
    action = _show if options.action == "show" else options.action
    store = options.history
    folder = "://" not in store and not is_mistaken(store)
    if folder and action in _READING and not Path(store).is_dir():
        raise CommandError(f"{store}: no history yet; run 'pytest --anubis suites/' first")
    return int(action(options) or 0)  # most actions return nothing


def _show(options: argparse.Namespace) -> None:
    nodes = use(options.history, lambda history: history.nodes())
    if not options.node and len(nodes) != 1:
        list_nodes(options)
        return
    name = options.node or nodes[0].name
    limit = max(1, options.limit)
    runs = use(options.history, lambda history: history.node_history(name, limit=limit))
    node = next(record for record in nodes if record.name == name)
    plain = plain_record(node, "since", "changed") | {"runs": [_plain(run) for run in runs]}
    state = (
        node.state if node.changed is None else f"{node.state} since {day_and_time(node.changed)}"
    )
    answer(options.json, plain, *_node_lines(name, state, runs))


_READING = (_show, list_nodes, list_incidents, list_defects)
"""Actions that only read a history, so that they must not create one."""


def _plain(run: RunSummary) -> dict[str, Any]:
    similarities = [
        {"benchmark": benchmark, "metric": metric, "device": device, "similarity": value}
        for (benchmark, metric, device), value in sorted(run.similarities.items())
    ]
    plain = plain_record(replace(run, similarities={}), "started")
    return plain | {"similarities": similarities}


def _node_lines(node: str, state: str, runs: tuple[RunSummary, ...]) -> list[str]:
    if not runs:
        return [f"node {node}, {state}, no runs yet"]
    rows = [["started", "run", "profile", "took", "decision", "lowest similarity"]]
    for run in runs:
        lowest = min(run.similarities.items(), key=lambda item: item[1], default=None)
        rows.append(
            [
                day_and_time(run.started),
                run.run,
                run.profile,
                "-" if run.seconds is None else duration_text(run.seconds),
                run.decision or run.purpose,
                "-" if lowest is None else f"{similarity_text(lowest[1])} {lowest[0][1]}",
            ]
        )
    lines = [
        f"node {node}, {state}, {count_text(len(runs), 'latest run')}",
        *table(rows).splitlines(),
    ]
    moved = _movement(runs)
    if moved:
        lines += ["", "how similarities moved (oldest to newest):", *table(moved).splitlines()]
    return lines


def _movement(runs: tuple[RunSummary, ...]) -> list[list[str]]:
    """Return a row for each metric that was judged at least twice: first, lowest, last, and the change."""
    series: dict[tuple[str, str, str], list[float]] = {}
    for run in runs:
        for key, value in run.similarities.items():
            series.setdefault(key, []).append(value)
    rows = []
    for (benchmark, metric, device), values in series.items():
        if len(values) > 1:
            name = squeeze(f"{benchmark.rpartition('/')[2]} {device}".strip(), 48)
            numbers = [similarity_text(v) for v in (values[0], min(values), values[-1])]
            change = f"{values[-1] - values[0]:+.4f}"
            rows.append((values[-1] - values[0], [name, metric, *numbers, change]))
    if not rows:
        return []
    header = ["benchmark", "metric", "first", "lowest", "last", "change"]
    return [header, *(row for _, row in sorted(rows, key=lambda item: item[0]))]
