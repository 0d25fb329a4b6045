"""Following a journal while it is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_anubis.core.events import RunStarted, TestStarted
from pytest_anubis.store.journal.journal_events import JournalError
from pytest_anubis.store.journal.journal_file import Journal
from pytest_anubis.store.journal.journal_reading import JOURNAL_NAME, FollowedJournal

START = RunStarted(run="r", node="n", hardware_class="c", started="2026-01-01T00:00:00+00:00")


def test_every_look_sees_what_has_come_since(tmp_path: Path) -> None:
    source, path = tmp_path / "whole", tmp_path / JOURNAL_NAME
    journal = Journal.create(source, "r")
    for event in (START, TestStarted(test="a"), TestStarted(test="b")):
        journal.write(event)
    journal.close()
    lines = next(source.rglob(JOURNAL_NAME)).read_bytes().splitlines(keepends=True)
    followed = FollowedJournal(path)
    assert not followed.look().begun
    path.write_bytes(b"".join(lines[:2]) + lines[2][:9])
    assert followed.look().interrupted == ("a",)
    with path.open("ab") as file:
        file.write(lines[2][9:])
    state = followed.look()
    assert state.interrupted == ("a", "b")
    assert state.warnings == []


def test_file_that_is_no_journal_is_refused(tmp_path: Path) -> None:
    path = tmp_path / JOURNAL_NAME
    path.write_text('{"event": "other"}\n', encoding="utf-8")
    with pytest.raises(JournalError, match="not an Anubis journal"):
        FollowedJournal(path).look()
