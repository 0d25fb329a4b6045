"""Runs that could not be filed wait in the store and are filed once, when the history is back."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from pytest_anubis.cli.main import main
from pytest_anubis.core.events import RunStarted
from pytest_anubis.store.history import run_filing
from pytest_anubis.store.history.database import History
from pytest_anubis.store.history.run_filing import file_finished
from pytest_anubis.store.history.waiting_runs import WAITING, waiting
from pytest_anubis.store.journal.journal_reading import read_journal
from tests.postgres import new_database
from tests.store.written_runs import write_events

NOWHERE = "postgresql+psycopg://me:secret@127.0.0.1:1/x"


def filed(store: Path, name: str, place: Path | str | None = None) -> str:
    """Let a run end, and return what is said about the history."""
    path = write_events(store, name, RunStarted(run=name, node="n1", started="2026-01-01"))
    record = read_journal(path)
    return file_finished(store if place is None else place, store, record, journal=path)


def known(store: Path) -> list[str]:
    with History(store) as history:
        return [run.run for run in history.node_history("n1")]


def test_waiting_run_is_filed_once_with_the_next(tmp_path: Path) -> None:
    (tmp_path / "history.sqlite").mkdir()
    assert "; 1 run waits in" in filed(tmp_path, "r1")
    said = filed(tmp_path, "r2")
    assert said.startswith("this run is not in the history: sqlite:///")
    assert f"; 2 runs wait in {tmp_path / WAITING}; " in said
    assert [(run.name, run.place) for run in waiting(tmp_path)] == [("r1", ""), ("r2", "")]
    (tmp_path / "history.sqlite").rmdir()
    assert filed(tmp_path, "r3") == ""
    assert sorted(known(tmp_path)) == ["r1", "r2", "r3"]
    assert waiting(tmp_path) == ()
    (tmp_path / WAITING / "r1.json").write_text(
        json.dumps({"format": "anubis-history-waiting", "history": ""})
    )
    assert filed(tmp_path, "r4") == ""  # r1 is known already
    assert sorted(known(tmp_path)) == ["r1", "r2", "r3", "r4"]


def test_a_run_waits_for_its_own_history_only(tmp_path: Path) -> None:
    said = filed(tmp_path, "r1", NOWHERE)
    assert "me:***@127.0.0.1" in said
    text = (tmp_path / WAITING / "r1.json").read_text()
    assert "secret" not in text
    said = filed(tmp_path, "r2")  # in the store's own
    assert said.startswith("1 run waits in ")
    assert "for another history" in said
    assert known(tmp_path) == ["r2"]
    assert [run.name for run in waiting(tmp_path)] == ["r1"]


def test_unreadable_waiting_run_stops_no_other(tmp_path: Path) -> None:
    (tmp_path / "history.sqlite").mkdir()
    for name in ("r1", "r2", "r3", "r4"):
        filed(tmp_path, name)
    (tmp_path / "history.sqlite").rmdir()
    (tmp_path / "runs" / "r1" / "journal.jsonl").write_text("junk\n")
    (tmp_path / "runs" / "r2" / "journal.jsonl").unlink()
    (tmp_path / WAITING / "r4.json").write_text("{")
    said = filed(tmp_path, "r5")
    assert said.startswith("2 runs wait in ")
    assert f": {tmp_path / 'runs' / 'r1' / 'journal.jsonl'}: no run_started event" in said
    assert sorted(known(tmp_path)) == ["r3", "r5"]
    assert [(run.name, run.place) for run in waiting(tmp_path)] == [("r1", ""), ("r4", None)]


def test_unwritable_note_is_reported_in_the_same_line(tmp_path: Path) -> None:
    (tmp_path / "history.sqlite").mkdir()
    (tmp_path / WAITING).write_text("")
    said = filed(tmp_path, "r1")
    assert said.startswith("this run is not in the history: ")
    assert "file it later with 'anubis push'" in said


def test_waiting_runs_do_not_delay_a_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "history.sqlite").mkdir()
    filed(tmp_path, "r1")
    (tmp_path / "history.sqlite").rmdir()
    monkeypatch.setattr(run_filing, "_HALF", -1.0)
    assert filed(tmp_path, "r2").startswith("1 run waits in ")
    assert known(tmp_path) == ["r2"]


def test_push_files_waiting_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], postgres_url: str
) -> None:
    url = new_database(postgres_url, "later").replace("anubis@", "anubis:secret@")
    folder = tmp_path / "away"
    folder.write_text("")
    filed(tmp_path, "r1", NOWHERE)
    filed(tmp_path, "r2", folder)
    filed(tmp_path, "r3", url.replace("later", "nowhere"))
    for file in (tmp_path / WAITING).iterdir():
        assert "secret" not in file.read_text()
        file.write_text(file.read_text().replace("nowhere", "later"))
    folder.unlink()
    for journal in tmp_path.glob("runs/*/journal.jsonl"):
        os.utime(journal, (0, 0))  # else it may still be written
    assert main(["push", str(tmp_path), "--history", str(folder)]) == 0
    assert "3 runs filed" in capsys.readouterr().out
    assert sorted(run.name for run in waiting(tmp_path)) == ["r1", "r3"]  # for other histories
    assert main(["push", str(tmp_path), "--history", url]) == 0
    assert "secret" not in capsys.readouterr().out
    assert [run.name for run in waiting(tmp_path)] == ["r1"]
    with History(url) as history:
        assert sorted(run.run for run in history.node_history("n1")) == ["r1", "r2", "r3"]
    (tmp_path / "runs" / "r3" / "journal.jsonl").write_text("junk\n")
    os.utime(tmp_path / "runs" / "r3" / "journal.jsonl", (0, 0))
    assert main(["push", str(tmp_path), "--history", str(tmp_path)]) == 1
    assert "2 runs filed, 0 known already, 1 not filed" in capsys.readouterr().out
    assert main(["push", str(tmp_path), "--history", NOWHERE, "--retry", "1s"]) == 2
    assert "secret" not in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["history"],
        ["history", "incident", "list"],
        ["history", "incident", "add", "--node", "n", "--kind", "k", "--started", "2026-01-01"],
        ["history", "defect", "close", "1", "--as", "confirmed"],
        ["history", "state", "--node", "n", "--as", "repair"],
        ["risk"],
        ["select"],
    ],
    ids=" ".join,
)
def test_commands_show_one_line_without_password(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    for place in (
        NOWHERE,
        "postgresql+psycopg://127.0.0.1:1/x?password=secret",
        "postgresql:/me:secret@h/x",
        "postgresql+psycopg://me@127.0.0.1:secret/x",
    ):
        assert main([*arguments, "--store", place]) == 2
        said = capsys.readouterr()
        assert said.err.count("\n") == 1
        assert "secret" not in said.err + said.out
    assert not list(tmp_path.iterdir())
