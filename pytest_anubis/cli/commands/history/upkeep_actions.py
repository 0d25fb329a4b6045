"""``anubis history roles|retain|compact``: print SQL for roles, delete old runs, return free space."""

from __future__ import annotations

import argparse
import time
from typing import Any

from pytest_anubis.cli.shared.arguments import add_action, add_json
from pytest_anubis.cli.shared.command_error import CommandError
from pytest_anubis.cli.shared.history_access import add_history, duration
from pytest_anubis.cli.shared.printing import answer, show, write_json
from pytest_anubis.cli.shared.run_sources import history_place
from pytest_anubis.report.text.numbers import count_text


def add_upkeep(nouns: Any) -> None:
    """Declare the actions."""
    roles = add_action(
        nouns,
        "roles",
        _roles,
        "print SQL for PostgreSQL: a role that may only append runs, one that reads, one that maintains",
    )
    roles.add_argument(
        "--prefix",
        default="anubis",
        help="how the roles are called (default: anubis, so anubis_append)",
    )
    roles.add_argument(
        "--schema", default="public", help="schema of the tables in the database (default: public)"
    )
    retain = add_action(
        nouns, "retain", _retain, "take out what is old; what a node's standing follows from stays"
    )
    for flag, what in (
        ("--contents", "journals and samples that are older: what was measured; verdicts stay"),
        ("--runs", "runs that are older, with their verdicts; incidents and defects stay"),
    ):
        retain.add_argument(
            flag,
            type=duration,
            metavar="TIME",
            help=f"take out {what}, e.g. 180d (default: keep all)",
        )
    retain.add_argument("--dry-run", action="store_true", help="only say what would be taken out")
    compact = add_action(
        nouns, "compact", _compact, "give the space that is free inside the database back"
    )
    for action in (retain, compact):
        add_history(action, inherited=True)
    for action in (roles, retain, compact):
        add_json(action, "what was done", inherited=True)


def _roles(options: argparse.Namespace) -> None:
    from pytest_anubis.store.history.roles import roles_sql

    try:
        sql = roles_sql(prefix=options.prefix, place=options.schema)
    except ValueError as error:
        raise CommandError(str(error)) from error
    if options.json != "-":
        show(sql)
    if options.json is not None:
        write_json(options.json, {"sql": sql})


def _retain(options: argparse.Namespace) -> None:
    from pytest_anubis.store.history.database import History
    from pytest_anubis.store.history.retention import retain

    if options.contents is None and options.runs is None:
        raise CommandError("say what is old: --contents 180d, --runs 720d, or both")
    now = time.time()
    # Without a time limit: the years of a fleet take longer than one query may.
    with History(history_place(options.history)) as history:
        done = retain(
            history,
            contents_before=None if options.contents is None else now - options.contents,
            runs_before=None if options.runs is None else now - options.runs,
            trial=options.dry_run,
        )
    size = f"{done.bytes / 1e6:,.1f} MB before they were compressed"
    verb = "would be taken out" if options.dry_run else "taken out"
    answer(
        options.json,
        {"contents": done.contents, "bytes": done.bytes, "runs": done.runs, "trial": options.dry_run},
        f"{verb}: {count_text(done.runs, 'run')}, and the contents of {done.contents:,} more "
        f"({size}); 'anubis history compact' gives the space back",
    )  # fmt: skip


def _compact(options: argparse.Namespace) -> None:
    from pytest_anubis.store.history.database import History
    from pytest_anubis.store.history.retention import compact

    with History(history_place(options.history)) as history:
        compact(history)
        shown = history.shown()
    answer(options.json, {"compacted": shown}, f"compacted: {shown}")
