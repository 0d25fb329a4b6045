"""Declare the options of commands that take many runs, from files or a history, and read those runs."""

from __future__ import annotations

import argparse
import time
from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_anubis.cli.shared.command_error import CommandError
from pytest_anubis.cli.shared.history_access import check_file_is_there, may_be_there, use
from pytest_anubis.cli.shared.progress import Progress
from pytest_anubis.codec.moments import moment
from pytest_anubis.core.metric import first_of
from pytest_anubis.durations import seconds
from pytest_anubis.passwords import is_mistaken, shown_place
from pytest_anubis.report.text.numbers import count_text
from pytest_anubis.store.run_filter import RunFilter

if TYPE_CHECKING:
    from pytest_anubis.core.gather import SampleStorage
    from pytest_anubis.core.run import RunRecord
    from pytest_anubis.store.collected_runs import RunSet

MAX_NODES_LISTED = 3
"""Names in the sentence on nodes without a run; a newly registered fleet has hundreds."""


def add_sources(parser: argparse.ArgumentParser, *, with_metrics: bool = True) -> None:
    """Declare ``--history`` and the options that choose among runs, which `wanted_of` reads."""
    chosen = parser.add_argument_group("which runs that were collected")
    chosen.add_argument(
        "--history",
        default="",
        metavar="DIR|URL",
        help="take the runs out of this history (a database URL, or the folder of a store), not from files",
    )
    chosen.set_defaults(metrics=[])
    for name, what in (
        ("nodes", "only nodes whose names match, e.g. 'n1*' or n17,n18; can be given again"),
        ("exclude", "leave out nodes whose names match; can be given again"),
        ("metrics", "only metrics, or benchmarks, whose names match; can be given again"),
    ):
        if name == "metrics" and not with_metrics:
            continue
        chosen.add_argument(
            f"--{name}", action="append", default=[], metavar="PATTERN[,...]", help=what
        )
    chosen.add_argument(
        "--since",
        type=since,
        metavar="WHEN",
        help="only runs that began since then: a date (2026-11-01), or how long ago (12h, 30d)",
    )
    chosen.add_argument(
        "--class", dest="hardware_class", metavar="KEY", help="only this hardware class"
    )


def since(text: str) -> float:
    """Read a time for argparse: ISO 8601 (without a zone: UTC), or how long ago it was."""
    try:
        found = moment(str(time.time() - seconds(text)))
    except ValueError:
        found = moment(text)
    if found is None:
        raise argparse.ArgumentTypeError(
            f"{text[:40]!r} is neither a date such as 2026-01-31 nor a time such as 30d, in a year from 1 on"
        )
    return found


def wanted_of(options: argparse.Namespace) -> RunFilter:
    """Return the filter for the wanted runs."""
    return RunFilter(
        nodes=listed(options.nodes),
        exclude=listed(options.exclude),
        metrics=listed(options.metrics),
        hardware_class=options.hardware_class or "",
        since=options.since,
    )


def source_words(options: argparse.Namespace) -> list[str]:
    """Return the options that name the same runs, as words of a suggested command line."""
    words = ["--history", shown_place(options.history)] if options.history else []
    for name in ("nodes", "exclude", "metrics"):
        words += [word for given in getattr(options, name) for word in (f"--{name}", given)]
    if options.hardware_class:
        words += ["--class", options.hardware_class]
    if options.since is not None:
        moment_text = datetime.fromtimestamp(options.since, UTC).isoformat(timespec="seconds")
        words += ["--since", moment_text]
    return words


def read_sources(options: argparse.Namespace, *, storage: SampleStorage | None = None) -> RunSet:
    """Read the wanted runs from the named files or the named history; as `read_collected`."""
    from pytest_anubis.cli.shared.collected_judging import read_collected

    if bool(options.runs) == bool(options.history):
        raise CommandError(
            "name runs (folders, journals, imports), or their history with --history"
        )
    if options.history:
        return read_history(options, storage=storage)
    return read_collected(options.runs, wanted_of(options), storage=storage)


def read_history(
    options: argparse.Namespace, *, learning: bool = False, storage: SampleStorage | None = None
) -> RunSet:
    """Read the wanted runs of the named history; as `read_collected`."""
    from pytest_anubis.cli.shared.collected_judging import say_notes
    from pytest_anubis.store.fleet.stored_runs import read_stored

    wanted = wanted_of(options)
    with Progress("reading") as progress:
        runs = read_stored(
            history_place(options.history),
            wanted,
            learning=learning,
            progress=progress.say,
            storage=storage,
        )
    say_notes(runs, wanted)
    return runs


def read_history_run(options: argparse.Namespace, name: str) -> RunRecord | RunSet:
    """Read one run of the named history, by its id or ``latest``; an import as a set of one run."""
    from pytest_anubis.store.fleet.stored_runs import read_stored_run

    return read_stored_run(history_place(options.history), name, wanted_of(options))


def history_place(name: str) -> Path | str:
    """Return a history that must exist: a URL, or the folder of a store."""
    if "://" in name:
        check_file_is_there(name)
        return name
    if not is_mistaken(name) and not Path(name).is_dir():
        raise CommandError(
            f"--history {shown_place(name)}: no such folder; name a store, or a database URL"
        )
    return Path(name)


def histories_of(options: argparse.Namespace) -> list[Path | str]:
    """Return the history of ``--history``, if it is given: it knows which defects were closed."""
    return [history_place(options.history)] if options.history else []


def listed(given: list[str]) -> tuple[str, ...]:
    """Return the names or patterns of an option that is given several times, or takes several with commas."""
    return tuple(part.strip() for text in given for part in text.split(",") if part.strip())


def registered_without_run(place: str, wanted: RunFilter) -> tuple[str, ...]:
    """Return the registered nodes of a history that have no run at all, sorted, without removed ones.

    `wanted` chooses them by name and class; its other filters concern runs.
    """
    from pytest_anubis.store.history.fleet_history import nodes_without_run

    found = use(place, nodes_without_run) if may_be_there(place) else ()
    return tuple(
        node.name
        for node in found
        if wanted.wants_node(node.name) and wanted.hardware_class in ("", node.hardware_class)
    )


def without_run_text(names: Collection[str]) -> str:
    """Return a sentence on registered or listed nodes without a run; empty if there are none."""
    if not names:
        return ""
    shown = first_of(sorted(names), MAX_NODES_LISTED)
    have = "has" if len(names) == 1 else "have"
    return f"{count_text(len(names), 'registered node')} {have} no run yet: {shown}"
