"""A history answers in time and in one line, with any fault of database, driver or server."""

from __future__ import annotations

import errno
import os
import signal
import socket
import sqlite3
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from pytest_anubis.core.history import Incident
from pytest_anubis.core.run import RunRecord
from pytest_anubis.store.history import bounded_use, connections, database, run_filing
from pytest_anubis.store.history import tables as schema
from pytest_anubis.store.history.bounded_use import use_history
from pytest_anubis.store.history.database import History, HistoryError
from pytest_anubis.store.history.fleet_history import read_fleet
from pytest_anubis.store.history.incident_records import add_incident
from pytest_anubis.store.history.node_rows import node_number
from pytest_anubis.store.history.run_filing import file_finished, record_run
from tests.postgres import new_database
from tests.store.history.test_database import record as full_record
from tests.store.written_runs import at_once

SECRET = "postgresql+psycopg://me:s3cret/word@127.0.0.1:1/x"


def refused(place: Path | str, work: Callable[[History], Any] = read_fleet) -> str:
    """Return the one line that says why a history cannot be used."""
    with pytest.raises(HistoryError) as caught:
        use_history(place, work)
    line = str(caught.value)
    assert line.isprintable()
    return line


def test_a_mute_server_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_use, "HISTORY_TIMEOUT", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        port = mute.getsockname()[1]
        line = refused(f"postgresql+psycopg://me:s3cret@127.0.0.1:{port}/x")
    assert line == f"postgresql+psycopg://me:***@127.0.0.1:{port}/x: no answer within 0.5 s"


def test_a_driver_gives_up_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MAX_WAIT", 2)  # the least that the driver knows
    with socket.create_server(("127.0.0.1", 0)) as mute:
        line = refused(f"postgresql+psycopg://me@127.0.0.1:{mute.getsockname()[1]}/x")
    assert "timeout expired" in line


def test_server_that_falls_silent_is_given_up(
    monkeypatch: pytest.MonkeyPatch, postgres_url: str
) -> None:
    pid: list[int] = []

    def stop(history: History) -> None:
        with history.reading() as connection:
            pid.append(connection.execute(sa.text("select pg_backend_pid()")).scalar_one())
            os.kill(pid[0], signal.SIGSTOP)
            connection.execute(sa.text("select 1"))

    use_history(postgres_url, lambda history: None)
    monkeypatch.setattr(bounded_use, "HISTORY_TIMEOUT", 2.0)
    try:
        assert "no answer within 2 s" in refused(postgres_url, stop)
    finally:
        os.kill(pid[0], signal.SIGCONT)


def test_a_lock_is_not_waited_for_long(monkeypatch: pytest.MonkeyPatch, postgres_url: str) -> None:
    monkeypatch.setattr(connections, "MAX_WAIT", 1)
    record = RunRecord(run="r1", node="n1", started="2026-01-01")
    with History(postgres_url) as history:
        record_run(history, record)
        with history.writing() as other:
            other.execute(sa.select(schema.nodes).with_for_update())
            line = refused(postgres_url, lambda history: record_run(history, record))
    assert "lock timeout" in line


def test_a_sqlite_lock_is_not_waited_for_long(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(connections, "MAX_WAIT", 1)
    with History(tmp_path) as history, history.writing():
        line = refused(tmp_path, lambda history: history.add_node("n1"))
        assert use_history(tmp_path, read_fleet).nodes == ()  # readers need no lock
    assert "database is locked; another process holds it for long, or its file system" in line
    assert "has no locks (NFS): keep the history on a local disk or in PostgreSQL" in line


ERRORS: list[BaseException] = [
    sa.exc.OperationalError("select", {}, Exception("two\nlines with s3cret/word")),
    sa.exc.InvalidRequestError("s3cret/word \x1b[31m \udcff"),
    sqlite3.DatabaseError("database disk image is malformed"),
    OSError(errno.ENOSPC, "No space left on device"),
    PermissionError(errno.EACCES, "Permission denied"),
    UnicodeEncodeError("utf-8", "\udcff", 0, 1, "surrogates not allowed"),
    OverflowError("too large"),
    MemoryError(),
    RecursionError("deep"),
    SystemExit(3),
    KeyboardInterrupt(),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_any_error_anywhere_is_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: BaseException
) -> None:
    def fail(*_: object, **__: object) -> Any:
        raise error

    record = RunRecord(run="r1", node="n1", started="2026-01-01")
    with History(tmp_path):
        pass
    for where, name in (
        (database, "engine_of"),
        (sa.engine.default.DefaultDialect, "do_execute"),
        (run_filing, "_put_run"),
        (sa.engine.default.DefaultDialect, "do_commit"),
        (sa.Engine, "dispose"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(where, name, fail)
            line = file_finished(tmp_path, tmp_path, record, journal=tmp_path / "runs/r1/j")
        assert line.startswith("this run is "), (name, line)
        assert line.isprintable(), (name, line)
        said = connections.as_history_error(error, SECRET)
        assert "s3cret" not in str(said)
        assert "word" not in str(said)


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("postgresql+psycopg://me:s3/cret@127.0.0.1:1/x", "psycopg://me:***@127.0.0.1:1/x: "),
        ("postgresql+psycopg://me:s3@cret@127.0.0.1:1/x", "psycopg://me:***@127.0.0.1:1/x: "),
        ("postgresql+psycopg://127.0.0.1:1/x?password=s3cret", "127.0.0.1:1/x?password=***: "),
        ("postgresql+psycopg://127.0.0.1:1/x?passfile=/s3cret", "127.0.0.1:1/x?passfile=***: "),
        ("postgresql+psycopg://me@127.0.0.1:s3cret/x", "postgresql+psycopg://***: "),
        ("nosuchdb://me:s3cret@h/x", "history URL nosuchdb://me:***@h/x: "),
        ("post gresql://me:s3cret@h/x", "gresql://me:***@h/x: "),
    ],
)
def test_no_error_shows_a_password(place: str, said: str) -> None:
    line = refused(place)
    assert said in line
    assert "s3" not in line
    assert "cret" not in line


def test_a_url_that_was_meant_is_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    line = refused(Path("postgresql:/me:s3cret@h/x"))
    assert line.startswith("history postgresql:***@h/x is neither a folder nor a URL")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def places(tmp_path: Path, request: pytest.FixtureRequest) -> list[Path | str]:
    return [tmp_path, new_database(request.getfixturevalue("postgres_url"), "surrogates")]


def test_text_that_no_database_takes_is_repaired(places: list[Path | str]) -> None:
    odd = RunRecord(run="r1", node="n\udcff", started="2026-01-01", profile="a\0b\ud800")
    for place in places:
        for _ in range(2):
            use_history(place, lambda history: record_run(history, odd))
        (node,) = use_history(place, lambda history: history.nodes())
        (run,) = use_history(place, lambda history: history.node_history("n\udcff"))
        assert (node.name, run.node, run.profile) == ("n\ufffd", "n\udcff", "a\ufffdb\ufffd")


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("update nodes set since = 'soon'", 'holds "soon" where a number belongs'),
        ("update nodes set since = 1e300", "holds 1e+300 where a time belongs"),
        ("update runs set profile = x'ff'", "holds bytes where text belongs"),
        ("update runs set ended = 'later'", 'holds "later" where a number belongs'),
        ("update verdicts set similarity = 'high'", 'holds "high" where a number belongs'),
        ("update durations set seconds = 'long'", 'holds "long" where a number belongs'),
        ("update incidents set started = 'then'", 'holds "then" where a number belongs'),
        ("update incidents set kind = cast(x'ff' as text)", "decode"),
        ("drop table verdicts; create table verdicts (run_id text)", "no such column"),
    ],
)
def test_cells_that_hold_something_else_are_refused(
    tmp_path: Path, statement: str, said: str
) -> None:
    with History(tmp_path) as history:
        record_run(history, full_record())
        add_incident(history, Incident(node="n1", kind="nic", started=1.0))
    with sqlite3.connect(tmp_path / "history.sqlite") as raw:
        raw.executescript(statement)
    raw.close()

    def everything(history: History) -> None:
        history.node_history("n1")
        read_fleet(history)

    assert said in refused(tmp_path, everything)


def test_odd_letters_in_the_stores_name_are_no_url(tmp_path: Path) -> None:
    store = tmp_path / "a?b#c%41"
    use_history(store, lambda history: history.add_node("n1"))
    assert (store / "history.sqlite").exists()


def test_node_added_twice_at_once_is_one(postgres_url: str) -> None:
    url = new_database(postgres_url, "crossing")
    record = RunRecord(run="r", node="new", started="2026-01-01")
    with History(url) as first, History(url) as second:
        with first.writing() as connection:
            node_number(connection, "new")
            later = threading.Thread(
                target=record_run, args=(second, replace(record, run="r2")), daemon=True
            )
            later.start()  # it waits for the first one's node
            later.join(0.5)
        later.join()
        record_run(first, record)
        assert sorted(run.run for run in first.node_history("new")) == ["r", "r2"]


def test_crossing_switch_to_wal_is_tried_again() -> None:
    class Crossed:
        """A connection whose first switch crosses that of another one."""

        def __init__(self) -> None:
            self.said: list[str] = []

        def execute(self, text: str) -> Crossed:
            self.said.append(text)
            if text.endswith("WAL") and self.said.count(text) == 1:
                raise sqlite3.OperationalError("database is locked")
            return self

        def fetchone(self) -> None:
            """Return that there is nothing in the file yet."""

    connection = Crossed()
    connections._prepare_sqlite(connection, None)
    assert connection.said.count("PRAGMA journal_mode=WAL") == 2


@pytest.mark.parametrize("shared", [False, True], ids=["own nodes", "one node"])
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_first_filings_that_cross_lose_nothing(
    tmp_path: Path, request: pytest.FixtureRequest, kind: str, shared: bool
) -> None:
    count, rounds = 6, 2
    place: Path | str = tmp_path
    if kind == "postgresql":
        url = request.getfixturevalue("postgres_url")
        place = new_database(url, f"crossing_{count}_{shared}".lower())
    failed: list[Exception] = []

    def file(writer: int) -> None:
        for number in range(rounds):
            node = "shared" if shared else f"p{writer}"
            one = full_record(f"p{writer}-{number}", bad=True, node=node)
            try:
                with History(place) as history:
                    record_run(history, one)
            except Exception as error:
                failed.append(error)

    at_once(count, file)
    assert failed == []
    with History(place) as history, history.reading() as connection:
        found = {
            table.name: connection.execute(sa.select(sa.func.count()).select_from(table)).scalar()
            for table in (schema.nodes, schema.runs, schema.verdicts, schema.defects, schema.meta)
        }
    runs = count * rounds
    assert found == {
        "nodes": 1 if shared else count,
        "runs": runs,
        "verdicts": 2 * runs,
        "defects": runs,
        "anubis_meta": 1,
    }
