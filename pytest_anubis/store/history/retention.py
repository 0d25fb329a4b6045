"""Delete old runs, or only their contents, but none that decides a standing, for `anubis history retain`."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from pytest_anubis.core.standing.standing_of import Standing
from pytest_anubis.store.history import tables as schema
from pytest_anubis.store.history.contents.content_rows import remove_content
from pytest_anubis.store.history.contents.judged_runs import standings_of
from pytest_anubis.store.history.database import History, HistoryError

_OF_RUN = (
    schema.benchmarks, schema.verdicts, schema.findings, schema.durations, schema.run_clocks,
    schema.run_orders, schema.judgements,
)  # fmt: skip

_RUNS_PER_TRANSACTION = 200
"""Runs that are deleted in one transaction, for which other writers wait a second at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retained:
    """The numbers of what retention deleted, or would delete."""

    contents: int  # runs that lose their journal or samples and keep their verdicts
    bytes: int  # bytes of these before they were compressed
    runs: int  # runs that are deleted with their verdicts; defects and incidents stay


def retain(
    history: History,
    *,
    contents_before: float | None = None,
    runs_before: float | None = None,
    trial: bool = False,
) -> Retained:
    """Delete what is older than asked for; each node keeps its latest run and those that decide its standing.

    Journals and samples of runs that began before `contents_before`, in seconds since 1970, and whole runs
    that began before `runs_before` are deleted; None keeps all. A `trial` only counts.
    """
    table, contents = schema.runs, schema.contents
    with history.reading() as connection:
        latest = sa.select(sa.func.max(schema.began).label("started"), table.c.node_id)
        last = latest.group_by(table.c.node_id).subquery()
        query = (
            sa.select(table.c.id, table.c.run, table.c.node_id, contents.c.bytes)
            .add_columns(schema.began.label("started"))
            .join(last, last.c.node_id == table.c.node_id)
            .outerjoin(contents, contents.c.run_id == table.c.id)
            .where(schema.began < last.c.started)
        )
        standings = standings_of(connection)
        rows = [
            row
            for row in connection.execute(query)
            if row.run not in standings.get(row.node_id, Standing()).needed
        ]
    gone = [row for row in rows if runs_before is not None and row.started < runs_before]
    whole = {row.id for row in gone}
    thinned = [
        row
        for row in rows
        if row.bytes is not None
        and row.id not in whole
        and contents_before is not None
        and row.started < contents_before
    ]
    if not trial:
        for several in (thinned, gone):
            for start in range(0, len(several), _RUNS_PER_TRANSACTION):
                some = several[start : start + _RUNS_PER_TRANSACTION]
                _delete(history, [row.id for row in some], whole=several is gone)
    size = sum(int(row.bytes or 0) for row in (*thinned, *gone))
    return Retained(contents=len(thinned), bytes=size, runs=len(gone))


def compact(history: History) -> None:
    """Return the database's free space to the disk, and update its statistics.

    Raises:
        HistoryError: The database refuses, e.g. since others are using it.
    """
    try:
        with history.reading() as connection:
            driver = connection.connection.driver_connection  # outside of any transaction
            if driver is None:
                return
            if connection.dialect.name == "sqlite":
                statements = ["VACUUM", "PRAGMA wal_checkpoint(TRUNCATE)", "PRAGMA optimize"]
            else:
                driver.autocommit = True
                statements = [f"VACUUM (ANALYZE) {name}" for name in schema.metadata.tables]
            for statement in statements:
                driver.cursor().execute(statement)
    except HistoryError as error:
        raise HistoryError(f"{error}; try again when no runs are being filed") from error


def _delete(history: History, numbers: list[int], *, whole: bool) -> None:
    with history.writing() as connection:
        for number in numbers:
            remove_content(connection, number)
        if not whole:
            return
        # Not left to foreign keys, which a database may not enforce.
        defects, runs = schema.defects, schema.runs
        headline = sa.select(runs.c.headline).where(runs.c.id == defects.c.run_id).scalar_subquery()
        of_run = defects.c.run_id.in_(numbers) & (defects.c.note == headline)
        connection.execute(defects.update().where(of_run).values(note=""))  # else a person's
        connection.execute(
            defects.update().where(defects.c.run_id.in_(numbers)).values(run_id=None)
        )
        for table in _OF_RUN:
            connection.execute(table.delete().where(table.c.run_id.in_(numbers)))
        connection.execute(schema.runs.delete().where(schema.runs.c.id.in_(numbers)))
