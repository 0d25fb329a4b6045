"""A run's journal is in the history once, also when it is filed repeatedly and in parallel."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa

from pytest_anubis.core.events import BlockerFound, RunStarted
from pytest_anubis.store.history import tables as schema
from pytest_anubis.store.history.contents import content_rows
from pytest_anubis.store.history.contents.content_rows import journal_content, read_content
from pytest_anubis.store.history.database import History, HistoryError
from pytest_anubis.store.history.run_filing import file_finished, record_run
from pytest_anubis.store.journal.journal_reading import read_journal
from tests.store.written_runs import at_once, write_events


def journal(store: Path, *, events: int = 3) -> Path:
    more = (BlockerFound(text=f"blocker {number} \r in a line") for number in range(events - 1))
    return write_events(store, "r1", RunStarted(run="r1", node="n1", started="2026-01-01"), *more)


def count(history: History, table: sa.Table) -> int:
    with history.reading() as connection:
        return connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content_rows, "_PART_BYTES", 200)  # so that a journal has several


def test_a_journal_is_kept_byte_for_byte_and_once(place: Path | str, tmp_path: Path) -> None:
    path = journal(tmp_path / "node", events=9)
    record = read_journal(path)
    for _ in range(2):
        assert file_finished(place, tmp_path / "node", record, journal=path) == ""
    with History(place) as history:
        assert b"".join(read_content(history, 1)) == path.read_bytes()
        assert (count(history, schema.runs), count(history, schema.contents)) == (1, 1)
        assert count(history, schema.content_parts) > 2
        with history.reading() as connection:
            parts = sa.func.sum(schema.content_parts.c.events)
            assert connection.execute(sa.select(parts)).scalar_one() == 9
        content = journal_content(path)
        assert record_run(history, record, content) == "known"


def test_a_run_filed_at_the_same_moment_is_one_run(place: Path | str, tmp_path: Path) -> None:
    path = journal(tmp_path / "node", events=9)
    record, content = read_journal(path), journal_content(path)
    with History(place):
        pass
    said: list[str] = []

    def file(_: int) -> None:
        try:
            with History(place) as history:
                said.append(record_run(history, record, content))
        except HistoryError as error:
            said.append(str(error))

    at_once(6, file)
    assert sorted(said) == ["known"] * 5 + ["new"]
    with History(place) as history:
        assert count(history, schema.runs) == 1
        assert b"".join(read_content(history, 1)) == path.read_bytes()


@pytest.mark.parametrize(
    "statement",
    [
        "delete from content_parts where number = 1",
        "update content_parts set packed = x'00' where number = 0",
        "update content_parts set packed = 'text' where number = 0",
        "update contents set digest = 'no'",
        "delete from content_parts",
    ],
)
def test_damage_in_the_database_is_one_line(tmp_path: Path, statement: str) -> None:
    path = journal(tmp_path, events=9)
    with History(tmp_path) as history:
        record_run(history, read_journal(path), journal_content(path))
        with history.writing() as connection:
            connection.execute(sa.text(statement))
        with pytest.raises(HistoryError, match="run 1 is damaged") as caught:
            list(read_content(history, 1))
    assert str(caught.value).isprintable()


def test_store_keeps_no_second_copy_of_its_journals(tmp_path: Path) -> None:
    path = journal(tmp_path)
    assert file_finished(tmp_path, tmp_path, read_journal(path), journal=path) == ""
    with History(tmp_path) as history:
        assert (count(history, schema.runs), count(history, schema.contents)) == (1, 0)


def test_missing_tables_are_made(place: Path | str, tmp_path: Path) -> None:
    path = journal(tmp_path)
    record = read_journal(path)
    with History(place) as history, history.writing() as connection:
        for table in (schema.content_parts, schema.contents):
            table.drop(connection)
    with History(place) as history:
        record_run(history, record)
        assert record_run(history, record, journal_content(path)) == "changed"
        assert b"".join(read_content(history, 1)) == path.read_bytes()
