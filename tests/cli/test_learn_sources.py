"""A folder that holds runs and tests: learning from it says which of the two it takes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from pytest_anubis.cli.main import main
from pytest_anubis.cli.shared.learn_sources import holds_runs


def project(folder: Path, *, test: bool = True, run: str = "") -> Path:
    folder.mkdir(parents=True)
    if test:
        (folder / "test_x.py").touch()
    if run:
        (folder / run).mkdir(parents=True)
        (folder / run / "journal.jsonl").touch()
    return folder


@pytest.mark.parametrize(
    ("test", "run", "runs", "words"),
    [
        (True, "", False, ""),
        (True, ".anubis/runs/r1", False, "1 run of before: it is measured anew"),
        (True, "nodes/n1/.anubis/runs/r1", True, "it is learned from the runs"),
        (False, "nodes/n1", True, ""),
        (False, "", False, ""),
    ],
)
def test_what_a_folder_is_taken_for_is_said_where_it_holds_both(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    test: bool,
    run: str,
    runs: bool,
    words: str,
) -> None:
    folder = project(tmp_path / "p", test=test, run=run)
    assert holds_runs(folder, Path(".anubis")) is runs
    said = capsys.readouterr().out
    assert said.count("\n") == bool(words)
    assert words in said


def test_the_store_itself_holds_runs_whatever_tests_lie_there(tmp_path: Path) -> None:
    store = project(tmp_path / ".anubis", run="runs/r1")
    assert holds_runs(store, store)
    assert holds_runs(store / "runs", store)


def test_learning_a_second_time_measures_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class MeasuredError(Exception):
        pass

    def start(*_: object, **__: object) -> None:
        raise MeasuredError

    monkeypatch.chdir(project(tmp_path / "p", run=".anubis/runs/r1"))
    monkeypatch.setattr(subprocess, "run", start)
    monkeypatch.setattr(subprocess, "Popen", start)
    with pytest.raises(MeasuredError):
        main(["learn", "."])
