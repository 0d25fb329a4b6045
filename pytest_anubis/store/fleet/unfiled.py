"""Find runs and imports in a store's folder that its history lacks, and that may change a standing.

`anubis fleet status` and `anubis health` report them. Nothing is filed here; `pushing` uses the helpers.
"""

from __future__ import annotations

import contextlib
import re
import shlex
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import sqlalchemy as sa

from pytest_anubis.codec import CodecError, read_json, without_surrogates
from pytest_anubis.codec.moments import day_of
from pytest_anubis.codec.regular_files import file_sha256
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.standing.standing_of import Holds
from pytest_anubis.core.verdict import Decision
from pytest_anubis.core.waiving import holds_on
from pytest_anubis.store.history import tables as schema
from pytest_anubis.store.history.database import History
from pytest_anubis.store.history.filed_before import noted_imports
from pytest_anubis.store.history.waiting_runs import waiting_for
from pytest_anubis.store.importers.dated_runs import (
    RunNode,
    dated_names,
    of_one_class,
    with_names,
)
from pytest_anubis.store.importers.import_result import IMPORTS_FOLDER
from pytest_anubis.store.journal.journal_events import JournalError
from pytest_anubis.store.journal.journal_file import RUNS_FOLDER, is_written, journal_path
from pytest_anubis.store.journal.journal_heads import head_of
from pytest_anubis.store.journal.journal_reading import JOURNAL_NAME, read_journal
from pytest_anubis.store.node_standing import FOLDER, StandingError, newer_standing, read_standing
from pytest_anubis.store.run_set import RunSet
from pytest_anubis.store.samples.columnar_files import SUFFIX, runs_in

Begun = dict[RunNode, str]
"""(Run, node) of an import that the history has, or that is sent before -> when it began, ISO 8601."""

_OWN_ID = re.compile(r"[0-9]{8}-[0-9]{6}-[0-9]{6}-(.+)")
"""Id that a run gets without ``--anubis-run-id``; it ends with the node's name."""


def unfiled(place: Path, connection: sa.Connection | None) -> dict[str, tuple[Path, ...]]:
    """Return node -> imports and runs in a folder that its history, if there is one, lacks.

    Of runs that do not wait for it, a history lacks only those of nodes that their journals do not accept:
    others may have been filed in another history, or removed from this one for their age. An import that
    cannot be read may be of any node.
    """
    files = sorted((place / IMPORTS_FOLDER).rglob(f"*{SUFFIX}"))
    there = filed_runs(connection) if files and connection is not None else set()
    found: dict[str, list[Path]] = {}
    noted = noted_imports(place)
    unreadable = []
    for file in files:
        same = False
        with contextlib.suppress(OSError):
            # It was filed, and not replaced since.
            same = noted.get(import_name(file, place)) == file_sha256(file)
        records = runs_in(file)
        unreadable += [] if records or same else [file]
        for record in records:
            known = (_host(record.node), without_surrogates(record.run)) in there
            if not (same and known) and file not in found.setdefault(record.node, []):
                found[record.node].append(file)
    for node, journal in dict.fromkeys((*_waiting(place), *_not_accepted(place, connection))):
        found.setdefault(node, []).append(journal)
    if unreadable:
        for node in {*found, *_nodes(place), *_filed_nodes(connection)}:
            found.setdefault(node, []).extend(unreadable)
    return {node: tuple(paths) for node, paths in found.items() if paths}


def store_of(file: Path) -> Path:
    """Return the store that contains a journal, or an import in any folder below its imports."""
    if file.name == JOURNAL_NAME:
        return (file if len(file.parents) > 2 else file.absolute()).parents[2]
    above = (*file.parents, *file.absolute().parents)  # in few words where they suffice
    return next(one.parent for one in above if one.name == IMPORTS_FOLDER)


def import_name(file: Path, place: Path) -> str:
    """Return the path of an import in a store's folder of imports; empty if it lies elsewhere."""
    real, below = file.parent.resolve() / file.name, (place / IMPORTS_FOLDER).resolve()
    return real.relative_to(below).as_posix() if real.is_relative_to(below) else ""


def push_command(store: Path) -> str:
    """Return the command that files everything in a store in its own history."""
    named = shlex.quote(str(store))
    return f"anubis push {named} --history {named}"


def filed_runs(connection: sa.Connection) -> set[tuple[str, str]]:
    """Return short node name and id of all filed runs."""
    runs, nodes = schema.runs, schema.nodes
    query = sa.select(nodes.c.name, runs.c.run).join(nodes, nodes.c.id == runs.c.node_id)
    return {(_host(name), run) for name, run in connection.execute(query)}


def filed_imports(history: History) -> Begun:
    """Return when all imports that a history has began."""
    nodes, runs, contents = schema.nodes, schema.runs, schema.contents
    query = sa.select(runs.c.run, nodes.c.name, runs.c.started).where(
        runs.c.node_id == nodes.c.id, contents.c.run_id == runs.c.id, contents.c.kind == "columns"
    )
    with history.reading() as connection:
        rows = connection.execute(query).all()
    return {(run, node): datetime.fromtimestamp(at, UTC).isoformat() for run, node, at in rows}


def with_dated_runs(runs: RunSet, begun: Begun) -> RunSet:
    """Give the runs whose ids filed imports of another time have ids with their dates, and note them.

    A node in several classes has a run of each.
    """
    own, each = of_one_class(runs.populations, runs.runs)
    dated = [run for run in each if not run.file_dated]  # of others a copy may be younger

    def known(unit: RunNode) -> RunRecord | None:
        return RunRecord(run=unit[0], node=unit[1], started=begun[unit]) if unit in begun else None

    populations, named = with_names(own, each, dated_names(dated, known))
    begun.update({(run.run, run.node): run.started for run in named if not run.file_dated})
    return replace(runs, populations=populations, runs=named)


def is_filed(journal: Path, filed: set[tuple[str, str]]) -> bool:
    """Return whether a journal's run is among the filed ones; runs of several nodes may share an id."""
    name = without_surrogates(journal.parent.name)
    named = _OWN_ID.fullmatch(name)
    if named and (_host(named[1]), name) in filed:
        return True  # without reading it
    head = head_of(journal)
    node, run = str(head.get("node", "")), str(head.get("run", ""))
    return (_host(node), without_surrogates(run)) in filed


def _host(name: str) -> str:
    return without_surrogates(name).partition(".")[0].lower()


def _not_accepted(place: Path, connection: sa.Connection | None) -> Iterator[tuple[str, Path]]:
    """Yield node and journal of runs that a history lacks, of nodes that are not accepted here.

    A run that is still going on does not count; one that was killed, or could not write its end, does. One
    whose journal is damaged at its beginning counts for all nodes that it keeps from being accepted.
    """
    if connection is None:
        return
    known = filed_runs(connection)
    holds, accepted = holds_on(day_of(time.time())), dict[str, bool]()
    for journal in sorted((place / RUNS_FOLDER).glob(f"*/{JOURNAL_NAME}")):
        if is_filed(journal, known) or is_written(journal):
            continue
        head = head_of(journal)
        if not head:
            yield from ((node, journal) for node in _waiting_for(place, journal.parent.name))
            continue
        node, run = head.get("node"), head.get("run")
        if not (isinstance(node, str) and isinstance(run, str)):
            continue
        if node not in accepted:
            accepted[node] = _is_accepted(place, node, holds)
        if not accepted[node]:
            yield node, journal


def _is_accepted(place: Path, node: str, holds: Holds) -> bool:
    """Return whether the standing of a node in a store accepts it."""
    try:
        known = newer_standing(place, node, read_standing(place, node))
    except StandingError:
        return False
    if known is None or known.standing(holds).decision is not Decision.ACCEPTED:
        return False
    return not known.running or is_written(journal_path(place, known.running))


def _waiting_for(place: Path, run: str) -> Iterator[str]:
    """Yield the nodes that are undecided in a store until a run has ended, or a later one."""
    for node in _nodes(place):
        with contextlib.suppress(StandingError):
            known = newer_standing(place, node, read_standing(place, node))
            if known is not None and known.running == run:
                yield node


def _nodes(place: Path) -> Iterator[str]:
    """Yield the nodes whose standing a store keeps."""
    for path in sorted((place / FOLDER).glob("*.json")):
        with contextlib.suppress(CodecError, OSError):
            found = read_json(path)
            if isinstance(found, dict) and isinstance(found.get("node"), str):
                yield found["node"]


def _filed_nodes(connection: sa.Connection | None) -> set[str]:
    """Return the nodes that a history knows."""
    if connection is None:
        return set()
    return set(connection.execute(sa.select(schema.nodes.c.name)).scalars())


def _waiting(place: Path) -> Iterator[tuple[str, Path]]:
    for name in waiting_for(place, place):
        journal = journal_path(place, name)
        try:
            yield read_journal(journal).node, journal
        except (JournalError, OSError):
            continue  # filing it reports the error
