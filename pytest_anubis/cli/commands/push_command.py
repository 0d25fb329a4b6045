"""``anubis push``: file new runs and imports in a fleet's history, each once."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

from pytest_anubis.cli.shared.arguments import add_baseline, add_json, explain
from pytest_anubis.cli.shared.command_error import CommandError
from pytest_anubis.cli.shared.history_access import duration
from pytest_anubis.cli.shared.printing import answer
from pytest_anubis.cli.shared.progress import Progress
from pytest_anubis.cli.site.import_judging import import_judge
from pytest_anubis.core.metric import first_of
from pytest_anubis.passwords import shown_place
from pytest_anubis.report.text.numbers import count_text

VARIABLE = "PYTEST_ANUBIS_HISTORY"
STORE = ".anubis"
MAX_NAMES = 6
"""Benchmarks named in one line; the JSON has all."""


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    explain(
        parser,
        "File runs in the history of a fleet that are not there yet: those that waited because it could not "
        "be reached, journals that were collected, imports and results of other tools. Each is filed once, "
        "with its verdicts, defects and all that it recorded, however often and from wherever it is pushed; "
        "nothing is removed here.",
        "Exit codes: 0 every run that has ended is in the history; 1 some could not be filed, one line each; "
        "2 wrong usage, or the history cannot be used: the runs stay where they are, push them again.",
    )
    parser.add_argument(
        "paths",
        nargs="*",
        type=Path,
        metavar="FOLDER|FILE",
        help="stores, folders, journals, imports (.npz), tables and SuperBench summaries (default: .anubis)",
    )
    parser.add_argument(
        "--history",
        default=os.environ.get(VARIABLE) or STORE,
        metavar="DIR|URL",
        help=f"where to: a database URL, or the folder of a store (default: {VARIABLE}, else {STORE})",
    )
    parser.add_argument(
        "--retry",
        type=duration,
        default=0.0,
        metavar="TIME",
        help="try again for so long while the history cannot be used, e.g. 10m (default: once)",
    )
    add_baseline(
        parser, more="; imports are judged against them, so that their verdicts are filed too"
    )
    add_json(parser, "what became of the runs")


def run(options: argparse.Namespace) -> int:
    """Push; return 1 if something could not be filed."""
    from pytest_anubis.store.fleet.pushing import push

    place = options.history if "://" in options.history else Path(options.history)
    with Progress("pushing") as progress:
        pushed = push(
            options.paths or [Path(STORE)],
            place,
            judge=import_judge(options),
            patience=options.retry,
            progress=progress.say,
        )
    lines = [*pushed.failed, *(f"note: {note}" for note in pushed.notes)]
    lacking = {node: sorted(names) for node, names in pushed.lacking.items() if names}
    if lacking:
        names = sorted({name for lacked in lacking.values() for name in lacked})
        lacked = f"{count_text(len(names), 'benchmark')} ({first_of(names, MAX_NAMES)})"
        lines.append(
            f"note: {count_text(len(lacking), 'node')} undecided, as these imports lack {lacked}: push the "
            "imports that have them in the same call"
        )
    counts = [f"{count_text(pushed.new, 'run')} filed", f"{pushed.known} known already"]
    counts += [f"{pushed.changed} brought up to date"] if pushed.changed else []
    counts += [f"{len(pushed.running)} still being written"] if pushed.running else []
    counts += [f"{len(pushed.failed)} not filed"] if pushed.failed else []
    plain: dict[str, Any] = {
        name: getattr(pushed, name)
        for name in ("new", "changed", "known", "running", "failed", "notes", "left", "stopped")
    }
    answer(
        options.json,
        plain | {"lacking": lacking},
        *lines,
        f"{shown_place(options.history)}: {', '.join(counts)}",
    )
    if pushed.stopped:
        raise CommandError(
            f"{pushed.stopped}; {count_text(pushed.left, 'file')} left, kept where they are: push again"
        )
    return 1 if pushed.failed else 0
