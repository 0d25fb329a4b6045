"""Read runs back from a history: many of them as a `RunSet`, or one of them as it was, or its journal.

Commands that take runs from ``--history`` use it; `anubis seal` takes the journal byte by byte.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import sqlalchemy as sa

from pytest_anubis.codec import CodecError, read_bytes
from pytest_anubis.codec.input_limits import LARGEST_DATA
from pytest_anubis.core.gather import SampleStorage
from pytest_anubis.core.run import RunRecord
from pytest_anubis.store.collected_runs import EVERYTHING, Progress, RunReader, RunSet
from pytest_anubis.store.history import tables as schema
from pytest_anubis.store.history.contents.content_rows import lines_of, read_content
from pytest_anubis.store.history.database import History, HistoryError, shown_time
from pytest_anubis.store.history.machine_owners import known_machines
from pytest_anubis.store.journal.journal_events import JournalError
from pytest_anubis.store.journal.journal_file import journal_path
from pytest_anubis.store.journal.journal_heads import began_of, head_of
from pytest_anubis.store.journal.journal_reading import read_journal, state_of
from pytest_anubis.store.namesakes import renamed
from pytest_anubis.store.run_filter import WILD, RunFilter
from pytest_anubis.store.samples.columnar_files import Columns, ColumnsError, read_columns

LATEST = "latest"
"""Name of the run that began last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRun:
    """A run as the history lists it."""

    number: int
    run: str
    node: str
    started: float  # when it began by its machine's clock, seconds since 1970
    began: float  # when it began by the history's clock
    ended: float | None  # when it ended by its machine's clock; None if it never did
    kind: str  # ``journal`` or ``columns``; empty if its content is not in the history
    digest: str  # SHA-256 of its content

    @property
    def title(self) -> str:
        """The run and its node in words."""
        return f"run {self.run} of {self.node}"


def stored_runs(
    history: History, wanted: RunFilter = EVERYTHING, *, run: str = ""
) -> tuple[StoredRun, ...]:
    """Return the runs of a history in time order; with `run` those of this id, or the last (`LATEST`)."""
    runs, nodes, contents = schema.runs, schema.nodes, schema.contents
    content = (contents.c.kind, contents.c.digest)
    query = (
        sa.select(runs.c.id.label("number"), runs.c.run, nodes.c.name.label("node"))
        .add_columns(runs.c.started, schema.began, runs.c.ended)
        .add_columns(*(sa.func.coalesce(one, "").label(one.name) for one in content))
        .join(nodes, nodes.c.id == runs.c.node_id)
        .outerjoin(contents, contents.c.run_id == runs.c.id)
        .order_by(schema.began, runs.c.id)
    )
    if wanted.hardware_class:
        query = query.where(runs.c.hardware_class == wanted.hardware_class)
    if wanted.since is not None:
        query = query.where(schema.began >= wanted.since)
    plain = not any(map(WILD.search, wanted.nodes))  # the query supports no patterns
    if wanted.nodes and plain:
        query = query.where(sa.or_(*map(_of_host, wanted.nodes)))
    if run == LATEST:
        query = query.order_by(None).order_by(schema.began.desc(), runs.c.id.desc())
        query = query.limit(1) if plain and not wanted.exclude else query
    elif run:
        query = query.where(runs.c.run == run)
    with history.reading() as connection:
        rows = connection.execute(query).all()
    found = tuple(StoredRun(**row._asdict()) for row in rows if wanted.wants_node(row.node))
    return found[:1] if run == LATEST else found


def _of_host(name: str) -> sa.ColumnElement[bool]:
    """Return the condition by which `RunFilter.wants_node` selects nodes by a name that is no pattern."""
    name = name.lower()
    host, _, domain = name.partition(".")
    other = sa.func.lower(schema.nodes.c.name)
    same = other == name
    if host.isdecimal():
        return same
    return same | (other == host if domain else other.startswith(f"{name}.", autoescape=True))


def read_stored(
    place: Path | str,
    wanted: RunFilter = EVERYTHING,
    *,
    learning: bool = False,
    progress: Progress | None = None,
    storage: SampleStorage | None = None,
) -> RunSet:
    """Read runs of a history as `read_runs` reads files; journals of its own store are read there.

    Raises:
        HistoryError: The history cannot be read.
        RunsError: There is no such run.
    """
    with History(place) as history:
        reader = RunReader(learning, wanted, storage, known_machines(history))
        found = stored_runs(history, wanted)
        if not found and wanted == EVERYTHING:
            raise HistoryError(f"{history.shown()}: no run in it yet; push some ('anubis push')")
        for number, one in enumerate(found, start=1):
            if progress is not None:
                progress(f"{number} of {len(found)}: {one.title}")
            where = Path(one.title)
            try:
                content = _by_our_clock(_read(history, place, one), one)
            except (JournalError, ColumnsError, HistoryError) as error:
                if isinstance(error, HistoryError) and error.denied:
                    raise  # no run can be read by this role
                with history.reading() as connection:  # fails if the history is the cause
                    connection.execute(sa.select(1))
                reader.damaged(where, str(error))
            else:
                take: Callable[..., None] = (
                    reader.journal if isinstance(content, RunRecord) else reader.columns
                )
                take(where, content, one.digest or str(one.number))
    return reader.result()


def _by_our_clock(content: RunRecord | Columns, run: StoredRun) -> RunRecord | Columns:
    """Return a run with its beginning by the history's clock, which orders runs."""
    if isinstance(content, RunRecord) and run.began != run.started:
        return replace(content, started=shown_time(run.began))
    return content


def read_stored_run(
    place: Path | str, name: str, wanted: RunFilter = EVERYTHING
) -> RunRecord | RunSet:
    """Read one run of a history as it was; an import as a set of one run.

    Raises:
        HistoryError: The history cannot be read, or has no such run, or several.
    """
    with History(place) as history:
        found = _one_run(history, name, wanted)
        try:
            content = _read(history, place, found)
        except (JournalError, ColumnsError) as error:
            raise HistoryError(str(error)) from error
    if isinstance(content, RunRecord):
        return content
    reader = RunReader(False, wanted)
    reader.columns(Path(name), content, found.digest)
    return reader.result()


def read_stored_journal(
    place: Path | str, name: str, wanted: RunFilter = EVERYTHING
) -> tuple[bytes, str]:
    """Return the journal of one run of a history, byte by byte, and what it is in words.

    Raises:
        HistoryError: As of `read_stored_run`; or the run has no journal there.
    """
    with History(place) as history:
        found = _one_run(history, name, wanted)
        if found.kind == "journal":
            return b"".join(read_content(history, found.number)), found.title
        journal = _own_journal(place, found)
        if found.kind or journal is None:
            raise HistoryError(f"{found.title}: its journal is not in {history.shown()}")
    try:
        return read_bytes(journal, largest=LARGEST_DATA), found.title
    except (OSError, CodecError) as error:
        raise HistoryError(f"{journal}: cannot be read ({error})") from error


def _one_run(history: History, name: str, wanted: RunFilter) -> StoredRun:
    """Return a run by its id or ``latest``.

    Raises:
        HistoryError: There is none, or there are several.
    """
    found = stored_runs(history, wanted, run=name)
    if not found:
        raise HistoryError(f"{history.shown()}: no run {name}; 'anubis history' lists them")
    if len(found) > 1:
        nodes = ", ".join(one.node for one in found[:8])  # a line's worth
        raise HistoryError(f"run {name} is one of several nodes: name one by --nodes ({nodes})")
    return found[0]


def _read(history: History, place: Path | str, run: StoredRun) -> RunRecord | Columns:
    if not run.kind:
        journal = _own_journal(place, run)
        if journal is None:
            raise HistoryError(
                f"{run.title}: only its verdicts are in {history.shown()}; push its journal ('anubis push')"
            )
        return renamed(read_journal(journal), run.node)  # under its machine's name in the history
    parts = read_content(history, run.number)
    if run.kind == "journal":
        return renamed(state_of(lines_of(parts), run.title).record(), run.node)
    columns = read_columns(io.BytesIO(b"".join(parts)), run.title)
    began, ended = shown_time(run.started), shown_time(run.ended or run.started)
    runs = tuple(replace(one, started=began, ended=ended) for one in columns.runs)
    return replace(columns, runs=runs)


def _own_journal(place: Path | str, run: StoredRun) -> Path | None:
    """Return a run's journal in the history's own store; another node's run may have its id there."""
    if isinstance(place, str):
        return None
    path = journal_path(place, run.run)
    head = head_of(path)
    return path if head and began_of(head) == run.started else None
