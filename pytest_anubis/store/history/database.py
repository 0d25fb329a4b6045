"""Open a history, in SQLite or PostgreSQL, and read or change what it knows of nodes and runs."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Collection, Iterator
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from types import TracebackType
from typing import Any, Self

import sqlalchemy as sa

from pytest_anubis.codec.moments import moment
from pytest_anubis.core.history import NODE_STATES, NodeRecord, RunSummary
from pytest_anubis.passwords import is_mistaken, shown_place
from pytest_anubis.store.history import HISTORY_NAME as HISTORY_NAME
from pytest_anubis.store.history import tables as schema
from pytest_anubis.store.history.connections import HistoryError as HistoryError
from pytest_anubis.store.history.connections import as_history_error, engine_of, retried
from pytest_anubis.store.history.node_rows import known_node, node_number

_MAX_TABLES_NAMED = 3
"""Tables that an error names."""

_MAKING = 0x616E75626973  # "anubis": PostgreSQL's advisory lock while the tables are made


class History:
    """An open history; use it as a context manager or close it. Any use may raise `HistoryError`.

    Attributes:
        ahead: Seconds by which this machine's clock is ahead of the history's.

    Args:
        target: A store folder, which gets ``history.sqlite``, or a database URL such as
            ``postgresql+psycopg://user@host/anubis``.

    Raises:
        HistoryError: The database cannot be opened, or has another schema.
    """

    def __init__(self, target: Path | str) -> None:
        self.ahead = 0.0
        url: str | sa.URL
        if isinstance(target, str) and "://" in target:
            self._place = target
            url = target
        else:
            path = Path(target) / HISTORY_NAME
            url = sa.URL.create("sqlite", database=str(path))
            self._place = f"sqlite:///{path}"
            if is_mistaken(str(target)):
                raise HistoryError(
                    f"history {shown_place(str(target))} is neither a folder nor a URL; write e.g. "
                    "postgresql+psycopg://user@host/anubis"
                )
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise HistoryError(
                    f"{path}: cannot be made ({error.strerror}); choose another store folder"
                ) from error
        self._engine = engine_of(url)
        try:
            retried(self._prepare)
        except BaseException:  # an interrupt too leaves no connection behind
            with contextlib.suppress(Exception):
                self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _: type[BaseException] | None, raised: BaseException | None, __: TracebackType | None
    ) -> None:
        try:
            self.close()
        except HistoryError:
            if raised is None:  # else the first error matters more
                raise

    def close(self) -> None:
        """Close all connections; doing it twice is harmless.

        Raises:
            HistoryError: The driver refuses.
        """
        with self._errors_as_ours():
            self._engine.dispose()

    @contextlib.contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """Give a connection for reading."""
        with self._errors_as_ours(), self._engine.connect() as connection:
            yield connection.execution_options(anubis_reads=True)

    @contextlib.contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """Give a connection whose changes are kept all together, or not at all."""
        with self._errors_as_ours(), self._engine.begin() as connection:
            yield connection

    @contextlib.contextmanager
    def _errors_as_ours(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            raise as_history_error(error, self._place) from error

    def shown(self) -> str:
        """Return the history's URL for messages, without a password."""
        return shown_place(self._place)

    def _prepare(self) -> None:
        """Make the tables that are missing; a complete history is only read."""
        with self.reading() as connection:
            if self._complete(connection):
                return
        try:
            with self.writing() as connection:
                self._make(connection)
        except HistoryError as error:
            if not error.denied:
                raise
            raise HistoryError(
                f"{self.shown()}: tables are missing, and this role may not make them: open it once as their "
                "owner ('anubis history'), then run the SQL of 'anubis history roles' again"
            ) from error

    def _make(self, connection: sa.Connection) -> None:
        """Make the tables that are missing.

        Raises:
            HistoryError: The database holds tables of another program.
        """
        if connection.dialect.name == "postgresql":
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_MAKING)))
        there = set(sa.inspect(connection).get_table_names())
        if there and schema.meta.name not in there:
            more = ", ..." if len(there) > _MAX_TABLES_NAMED else ""
            names = ", ".join(sorted(there)[:_MAX_TABLES_NAMED]) + more
            raise HistoryError(
                f"{self.shown()}: no history, but a database with tables of something else ({names}); name "
                "another one: an empty one becomes a history"
            )
        schema.metadata.create_all(connection)
        if not self._complete(connection):
            connection.execute(
                schema.meta.insert().values(name="schema", value=str(schema.VERSION))
            )
            self._complete(connection)  # reads its clock too

    def _complete(self, connection: sa.Connection) -> bool:
        """Return whether all tables exist with the known schema, and note how far this clock is ahead.

        Raises:
            HistoryError: It has another schema.
        """
        # One query for all tables: over a network each query costs as much as filing a small run.
        there = schema.metadata.tables.keys() & set(sa.inspect(connection).get_table_names())
        found = None
        if schema.meta.name in there:
            clock: sa.ColumnElement[Any] = sa.null()
            if connection.dialect.name == "postgresql":  # a file has this machine's clock
                clock = sa.cast(sa.extract("epoch", sa.func.clock_timestamp()), sa.Double)
            query = sa.select(schema.meta.c.value, clock.label("clock"))
            row = connection.execute(query.where(schema.meta.c.name == "schema")).first()
            if row is not None:
                found = row.value
                self.ahead = 0.0 if row.clock is None else time.time() - row.clock
        if found is not None and found != str(schema.VERSION):
            raise HistoryError(
                f"{self.shown()}: history of schema {found[:20]}, this version reads {schema.VERSION}; use "
                "the version of pytest-anubis that wrote it"
            )
        return found is not None and len(there) == len(schema.metadata.tables)

    # Nodes

    def add_node(self, name: str, *, hardware_class: str = "", since: float | None = None) -> None:
        """Add a node, by default in service since now, or update what is given of a known node.

        Raises:
            HistoryError: The name is empty or unprintable.
        """
        with self.writing() as connection:
            number = node_number(connection, name, hardware_class=hardware_class, since=since)
            if since is not None:
                connection.execute(
                    schema.nodes.update().where(schema.nodes.c.id == number).values(since=since)
                )

    def nodes(self) -> tuple[NodeRecord, ...]:
        """Return all nodes, sorted by name."""
        table, states = schema.nodes, schema.states
        with self.reading() as connection:
            columns = (states.c.node_id, states.c.state, states.c.at)
            latest = {
                row.node_id: (row.state, row.at)
                for row in connection.execute(
                    sa.select(*columns).order_by(states.c.at, states.c.id)
                )
            }
            rows = connection.execute(sa.select(table).order_by(table.c.name)).all()
        return tuple(
            NodeRecord(
                name=row.name,
                hardware_class=row.hardware_class,
                since=row.since,
                state=latest.get(row.id, ("in service", None))[0],
                changed=latest.get(row.id, ("", None))[1],
            )
            for row in rows
        )

    def set_state(
        self,
        node: str,
        state: str,
        *,
        at: float | None = None,
        note: str = "",
        now: float | None = None,
    ) -> bool:
        """Record that a node's state changed: ``in service``, ``drained``, ``repair``, ``removed``.

        Returns:
            Whether it was recorded; False if the history has this state at this moment already.

        Raises:
            HistoryError: The node or the state is unknown, or the time lies in the future.
        """
        check_state(state, NODE_STATES)
        moment = past(at, now)
        with self.writing() as connection:
            number = known_node(connection, node)
            nodes, states = schema.nodes, schema.states
            # The lock on the node's row makes the second of two equal changes find the first.
            connection.execute(sa.select(nodes.c.id).where(nodes.c.id == number).with_for_update())
            same = (states.c.node_id == number, states.c.at == moment, states.c.state == state)
            if connection.execute(sa.select(states.c.id).where(*same)).first() is not None:
                return False
            connection.execute(
                states.insert().values(node_id=number, at=moment, state=state, note=note)
            )
        return True

    # Runs

    def node_history(self, node: str, *, limit: int | None = None) -> tuple[RunSummary, ...]:
        """Return a node's runs in time order, the latest `limit` of them.

        Raises:
            HistoryError: The node is unknown.
        """
        table = schema.runs
        with self.reading() as connection:
            number = known_node(connection, node)
            rows = connection.execute(
                sa.select(table, schema.began)
                .where(table.c.node_id == number)
                .order_by(schema.began.desc(), table.c.id.desc())
                .limit(limit)
            ).all()
            found = [
                RunSummary(
                    run=row.run,
                    node=node,
                    hardware_class=row.hardware_class,
                    profile=row.profile,
                    purpose=row.purpose,
                    started=row.began,
                    seconds=None if row.ended is None else max(0.0, row.ended - row.started),
                    decision=row.decision,
                    similarities=_similarities(connection, row.id),
                )
                for row in rows
            ]
        return tuple(reversed(found))

    def durations(self, hardware_class: str, *, profile: str = "") -> dict[str, float]:
        """Return benchmark -> its median duration in seconds on a class in a profile; empty takes all."""
        table, runs = schema.durations, schema.runs
        query = (
            sa.select(table.c.benchmark, table.c.seconds)
            .join(runs, runs.c.id == table.c.run_id)
            .order_by(table.c.benchmark)
        )
        if hardware_class:
            query = query.where(runs.c.hardware_class == hardware_class)
        if profile:
            query = query.where(runs.c.profile == profile)
        found: dict[str, list[float]] = {}
        with self.reading() as connection:
            for benchmark, seconds in connection.execute(query):
                found.setdefault(benchmark, []).append(seconds)
        return {benchmark: float(median(values)) for benchmark, values in found.items()}


def check_state(state: str, known: Collection[str]) -> None:
    """Refuse an unknown state of a node or defect with a `HistoryError`."""
    if state not in known:
        raise HistoryError(f"state {state[:40]!r} is none of {', '.join(known)}")


def past(at: float | None, now: float | None = None) -> float:
    """Return a moment after checking that it is not in the future; None is now.

    Raises:
        HistoryError: It is not finite, or more than a minute ahead of this clock.
    """
    present = time.time() if now is None else now
    moment = present if at is None else at
    if not math.isfinite(moment):
        raise HistoryError(f"the time {moment} is not a time")
    if moment > present + 60:
        raise HistoryError(f"{shown_time(moment)} lies in the future; fix the date")
    return moment


def moment_of(text: str) -> float:
    """Return seconds since 1970 of ISO 8601 text (without a zone: UTC) or a number of seconds.

    Raises:
        HistoryError: It is neither.
    """
    found = moment(text)
    if found is None:
        raise HistoryError(f"{text[:40]!r} is not a date such as 2026-01-31T12:00:00Z")
    return found


def shown_time(moment: float) -> str:
    """Return a moment as ISO 8601 text, UTC."""
    try:
        return datetime.fromtimestamp(moment, UTC).isoformat(timespec="seconds")
    except (OverflowError, ValueError, OSError):
        return f"{moment:g} s"


def _similarities(connection: sa.Connection, run: int) -> dict[tuple[str, str, str], float]:
    """Return benchmark, metric and device -> similarity of a run."""
    table = schema.verdicts
    query = sa.select(table.c.benchmark, table.c.metric, table.c.device, table.c.similarity)
    query = query.where(table.c.run_id == run, table.c.similarity.is_not(None)).order_by(table.c.id)
    return {(row[0], row[1], row[2]): row[3] for row in connection.execute(query)}
