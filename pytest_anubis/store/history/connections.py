"""Connect to a history with limits on waiting, and turn drivers' errors into `HistoryError`."""

from __future__ import annotations

import logging
import random
import sqlite3
import time
from collections.abc import Callable
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, IntegrityError, SQLAlchemyError

from pytest_anubis.passwords import shown_place, without_passwords
from pytest_anubis.store.history.tables import VERSION, meta

T = TypeVar("T")

MAX_WAIT = 10
"""Seconds for a connection or a lock, and half of a statement's limit: a hundred times what filing takes on a
busy server."""

_MAX_IDLE = 30
"""Seconds after which PostgreSQL ends a transaction whose client is gone, whose locks block others."""

_MAX_TRIES = 5
"""Attempts at a transaction that conflicts with others: in each round at least one of them succeeds."""
_MAX_PAUSE = 0.2
"""Maximum random pause between attempts, in seconds, so that conflicting writers come one after another."""

_CROSSED = ("40001", "40P01", "42P07", "42710")
"""PostgreSQL's codes for a failed serialization, a deadlock, and tables and types that appeared meanwhile."""

_DENIED = "42501"
"""PostgreSQL's code for an action that the role may not do."""

_ADVICE = (
    ("unable to open database file", "is its folder there, and may you write in it?"),
    ("file is not a database", "name another store, or put the history back from a copy"),
    (
        "database is locked",
        "another process holds it for long, or its file system has no locks (NFS): keep the history on a "
        "local disk or in PostgreSQL (--anubis-history)",
    ),
    ("attempt to write a readonly database", "you may only read it: file runs as who may write it"),
    ("Connection refused", "is the server running there?"),
    ("No such file or directory", "is the server running there?"),
    ("permission denied", "use a role that may: 'anubis history roles' says which may do what"),
)
"""Words in a database's error -> what the operator can do, where the error does not say it."""

_MAX_ERROR_LENGTH = 160  # characters that fit on a line after the place


class HistoryError(ValueError):
    """The history cannot be read or written, or must not be; the message is one line for people.

    Attributes:
        crossed: Another process was in the way: the same action may succeed when it is repeated.
        denied: The role may not do this.
    """

    crossed = False
    denied = False


def as_history_error(error: BaseException, place: str) -> HistoryError:
    """Return any error as a `HistoryError` of one line, without passwords."""
    if isinstance(error, HistoryError):
        return error
    cause = getattr(error, "orig", None) or error
    try:
        said = next((line.strip() for line in str(cause).splitlines() if line.strip()), "")
    except Exception:  # an error without a text
        said = ""
    if not said or not isinstance(error, SQLAlchemyError | sqlite3.Error | HistoryError):
        said = f"{type(cause).__name__}: {said}".removesuffix(": ")
    said = without_passwords(said, place)
    said = "".join(c if c.isprintable() else "?" for c in said[:_MAX_ERROR_LENGTH])
    advice = next((f"; {what}" for words, what in _ADVICE if words in said), "")
    found = HistoryError(f"{shown_place(place)}: {said}{advice}")
    found.denied = isinstance(error, DBAPIError) and (
        getattr(cause, "sqlstate", "") == _DENIED or "readonly database" in said
    )
    found.crossed = isinstance(error, IntegrityError) or (
        isinstance(error, DBAPIError) and getattr(cause, "sqlstate", "") in _CROSSED
    )
    return found


def retried(work: Callable[[], T]) -> T:
    """Call `work`, again if other processes were in its way, and return its result.

    Raises:
        HistoryError: It fails for another reason, or in every attempt.
    """
    for _ in range(_MAX_TRIES - 1):
        try:
            return work()
        except HistoryError as error:
            if not error.crossed:
                raise
        time.sleep(random.uniform(0, _MAX_PAUSE))  # noqa: S311  # no secret
    return work()


def engine_of(url: str | sa.URL) -> sa.Engine:
    """Return an engine whose connections wait at most `MAX_WAIT` seconds.

    Raises:
        HistoryError: The URL is not understood, or its driver is not installed.
    """
    try:
        parsed = sa.make_url(url)
    except Exception:  # its text may contain the password
        raise HistoryError(
            f"history URL {shown_place(str(url))}: it is not understood; write e.g. "
            "postgresql+psycopg://user@host/anubis, with / @ : ? # and % of a password as %2F %40 %3A "
            "%3F %23 %25"
        ) from None
    try:
        engine = sa.create_engine(parsed, connect_args=_limits(parsed))
    except Exception as error:
        said = as_history_error(error, parsed.render_as_string(hide_password=False))
        raise HistoryError(
            f"history URL {said}; write e.g. postgresql+psycopg://user@host/anubis and install "
            "`pytest-anubis[postgres]`"
        ) from None
    if engine.dialect.name == "sqlite":
        sa.event.listen(engine, "connect", _prepare_sqlite)
        sa.event.listen(engine, "begin", _begin_sqlite)
    elif engine.dialect.name == "postgresql":
        # Without a handler the driver prints its errors, which are reported in one line of ours.
        logging.getLogger("psycopg").addHandler(logging.NullHandler())
        sa.event.listen(engine, "begin", _begin_postgresql)
    return engine


def _limits(url: sa.URL) -> dict[str, Any]:
    """Return the driver's connection limits, without those that the URL sets itself."""
    if url.get_backend_name() == "sqlite":
        return {"timeout": MAX_WAIT}
    if url.get_driver_name() not in ("psycopg", "psycopg2"):
        return {}
    limits = {"connect_timeout": MAX_WAIT, "tcp_user_timeout": 1000 * MAX_WAIT}  # s, ms
    return {name: value for name, value in limits.items() if name not in url.query}


def _prepare_sqlite(connection: Any, _: object) -> None:
    connection.isolation_level = None  # `_begin_sqlite` starts transactions
    for pragma in (f"busy_timeout={1000 * MAX_WAIT}", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}")
    # Processes that switch a new file to write-ahead logging at the same time do not wait for each other:
    # SQLite reports a lock at once, whatever the time-out.
    until = time.monotonic() + MAX_WAIT
    while True:
        try:
            if _is_ours(connection):  # the file keeps the switch
                connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > until:
                raise
            time.sleep(random.uniform(0, _MAX_PAUSE))  # noqa: S311 - no secret


def _is_ours(connection: Any) -> bool:
    """Return whether an SQLite file is empty, or a history of the known schema."""
    if connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is None:
        return True
    try:
        found = connection.execute(f"SELECT value FROM {meta.name} WHERE name = 'schema'")  # noqa: S608
        row = found.fetchone()
    except sqlite3.OperationalError as error:
        if "no such" in str(error):  # no such table, or another program's without this column
            return False
        raise
    return row is not None and row[0] == str(VERSION)


def _begin_sqlite(connection: sa.Connection) -> None:
    # A transaction that reads first and then writes cannot wait for another writer; one that takes the
    # lock at once can.
    reads = connection.get_execution_options().get("anubis_reads", False)
    connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")


def _begin_postgresql(connection: sa.Connection) -> None:
    # Set for this transaction only, since poolers refuse options of the connection. A statement may take
    # twice as long as a wait for a lock, which makes the two errors different.
    connection.exec_driver_sql(
        f"SELECT set_config('lock_timeout', '{MAX_WAIT}s', true), "
        f"set_config('statement_timeout', '{2 * MAX_WAIT}s', true), "
        f"set_config('idle_in_transaction_session_timeout', '{_MAX_IDLE}s', true)"
    )
