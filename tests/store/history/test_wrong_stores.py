"""An absent, foreign, newer or forbidden history is one line with advice, and no run is lost."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa

from pytest_anubis.cli.main import main
from pytest_anubis.store.history import tables as schema
from pytest_anubis.store.history.database import History, HistoryError
from pytest_anubis.store.history.run_filing import file_finished
from pytest_anubis.store.history.waiting_runs import waiting
from pytest_anubis.store.journal.journal_reading import read_journal
from tests.postgres import new_database
from tests.store.fleet.test_pushing import journal


def statement(url: str, text: str) -> None:
    engine = sa.create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.connection.cursor().execute(text)
    engine.dispose()


def text_file(folder: Path) -> str:
    (folder / "history.sqlite").write_text("these are my notes\n" * 99)
    return str(folder)


def another_database(folder: Path) -> str:
    with sqlite3.connect(folder / "history.sqlite") as connection:
        connection.execute("CREATE TABLE nodes (id INTEGER PRIMARY KEY, host TEXT)")
        connection.execute("CREATE TABLE albums (title TEXT)")
    connection.close()
    return str(folder)


def newer(folder: Path) -> str:
    with History(folder) as history, history.writing() as connection:
        connection.execute(schema.meta.update().values(value="9"))
    return str(folder)


def read_only(folder: Path) -> str:
    with History(folder):
        pass
    return f"sqlite:///file:{folder}/history.sqlite?mode=ro&uri=true"


def held(folder: Path) -> object:
    """Return what the file of a store holds: its rows, or its text where it is no database."""
    path = folder / "history.sqlite"
    if not path.exists():
        return None
    try:
        with sqlite3.connect(path) as connection:
            return list(connection.iterdump())
    except sqlite3.DatabaseError:
        return path.read_bytes()


def missing_folder(folder: Path) -> str:
    return f"sqlite:///{folder}/no/such/folder.sqlite"


def no_server(_: Path) -> str:
    return "postgresql+psycopg://u@127.0.0.1:1/anubis"  # without a server


WRONG: list[tuple[Callable[[Path], str], str]] = [
    (text_file, "file is not a database; name another store, or put the history back from a copy"),
    (
        another_database,
        "a database with tables of something else (albums, nodes); name another one",
    ),
    (newer, "history of schema 9, this version reads 2; use the version"),
    (read_only, "attempt to write a readonly database; you may only read it"),
    (missing_folder, "unable to open database file; is its folder there, and may you write in it?"),
    (no_server, "Connection refused; is the server running there?"),
]


def an_anubis_table_of_others(folder: Path) -> str:
    with sqlite3.connect(folder / "history.sqlite") as connection:
        connection.execute(f"CREATE TABLE {schema.meta.name} (temple TEXT)")
    connection.close()
    return str(folder)


@pytest.mark.parametrize("make", [another_database, an_anubis_table_of_others])
def test_foreign_file_is_not_switched_to_wal(make: Callable[[Path], str], tmp_path: Path) -> None:
    make(tmp_path)
    path = tmp_path / "history.sqlite"
    before = path.read_bytes()
    with pytest.raises(HistoryError):
        History(tmp_path)
    assert path.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == [path.name]
    path.unlink()
    for _ in range(2):
        with History(tmp_path), sqlite3.connect(path) as connection:
            assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        connection.close()


@pytest.mark.parametrize(("make", "words"), WRONG, ids=[make.__name__ for make, _ in WRONG])
def test_a_wrong_store_is_one_line_and_the_runs_stay(
    make: Callable[[Path], str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("psycopg")
    store, folder = tmp_path / "node", tmp_path / "store"
    folder.mkdir()
    place = make(folder)
    before = held(folder)
    for day in (1, 2, 3):
        path = journal(store, f"r{day}", day=day)
    assert main(["push", str(store), "--history", place]) == 2
    found = capsys.readouterr()
    assert words in found.err
    assert found.err.count("\n") == 1
    assert found.out.endswith(": 0 runs filed, 0 known already\n")
    said = file_finished(
        place if "://" in place else Path(place), store, read_journal(path), journal=path
    )
    assert words in said
    assert "1 run waits" in said
    assert said.isprintable()
    assert [one.name for one in waiting(store)] == ["r3"]
    if make is not read_only:  # which may be read
        capsys.readouterr()
        for command in (["judge", "--history"], ["fleet", "status", "--history"],
                        ["history", "--store"]):  # fmt: skip
            assert main([*command, place]) == 2
            line = capsys.readouterr().err
            # What only reads makes no file, so it asks for none.
            assert words in line or (make is missing_folder and "no such file" in line)
            assert line.count("\n") == 1
    assert held(folder) == before
    good = tmp_path / "good"
    assert main(["push", str(store), "--history", str(good)]) == 0
    assert "3 runs filed" in capsys.readouterr().out


def test_another_programs_database_is_not_changed(
    postgres_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    journal(tmp_path / "node", "r1")
    strange, gone = (
        new_database(postgres_url, "strange"),
        postgres_url.replace("/postgres?", "/no?"),
    )
    statement(strange, "CREATE TABLE orders (id int)")
    empty = new_database(postgres_url, "empty")
    for command, place, words in (
        (["push", str(tmp_path), "--history"], strange, "tables of something else (orders)"),
        (["judge", "--history"], strange, "tables of something else (orders)"),
        (["push", str(tmp_path), "--history"], gone, 'database "no" does not exist'),
        (["judge", "--history"], empty, "no run in it yet; push some ('anubis push')"),
    ):
        assert main([*command, place]) == 2
        line = capsys.readouterr().err
        assert words in line
        assert line.count("\n") == 1
    engine = sa.create_engine(strange)
    assert sa.inspect(engine).get_table_names() == ["orders"]
    engine.dispose()


def test_wrong_role_is_one_line_for_many_runs(
    postgres_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    owner, store = new_database(postgres_url, "wrongroles"), tmp_path / "node"
    for day in (1, 2, 3):
        path = journal(store, f"r{day}", day=day)
    with History(owner):
        pass
    assert main(["history", "roles", "--prefix", "some"]) == 0
    statement(owner, capsys.readouterr().out)
    for role in ("append", "read"):
        statement(owner, f"CREATE ROLE wrong_{role} LOGIN IN ROLE some_{role}")
    append, read = (owner.replace("anubis@", f"wrong_{role}@") for role in ("append", "read"))
    assert main(["push", str(store), "--history", read]) == 2
    line = capsys.readouterr().err
    assert "permission denied for table nodes; use a role that may: 'anubis history roles'" in line
    assert line.count("\n") == 1
    assert "3 files left, kept where they are" in line
    assert main(["push", str(store), "--history", append]) == 0
    # A run that went on is its own trouble, and the others are filed all the same.
    later = store / "runs/r1/journal.jsonl"
    later.write_bytes(later.read_bytes() + b'{"event":"blocker","schema":1,"text":"later"}\n')
    os.utime(later, (1, 1))
    journal(store, "r4", day=4)
    capsys.readouterr()
    assert main(["push", str(store), "--history", append]) == 1
    found = capsys.readouterr().out
    assert found.count("permission denied") == 1
    assert "1 run filed, 2 known already, 1 not filed" in found
    for command in (["judge", "--history"], ["learn", "--history"], ["fleet", "status", "--history"],
                    ["export", "--parquet", str(tmp_path / "out"), "--history"]):  # fmt: skip
        assert main([*command, append]) == 2
        line = capsys.readouterr().err
        assert "permission denied" in line
        assert "'anubis history roles'" in line
        assert line.count("\n") == 1
    # The programs were updated before the database.
    statement(owner, "DROP TABLE namesakes")
    for place in (append, read):
        said = file_finished(place, store, read_journal(path), journal=path)
        assert "tables are missing, and this role may not make them: open it once as their" in said
    with History(owner):
        pass
    statement(owner, "GRANT SELECT, INSERT ON namesakes TO some_append")
    assert file_finished(append, store, read_journal(path), journal=path) == ""
