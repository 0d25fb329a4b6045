"""A folder that holds runs and tests: learning from it says which of the two it takes."""

from __future__ import annotations

import argparse
import subprocess
from pathlib import Path

import numpy as np
import pytest

from pytest_anubis.cli.commands.learn_command import takes_runs
from pytest_anubis.cli.learning.option_values import rate_of
from pytest_anubis.cli.main import main
from pytest_anubis.store.samples.columnar_files import Columns, save_columns


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
        (True, ".anubis/runs/r1", False, "1 run of this machine: tests are measured again"),
        (True, "nodes/n1/.anubis/runs/r1", True, "anubis learns from the runs"),
        (False, "nodes/n1", True, ""),
        (False, "", False, ""),
    ],
)
def test_a_folder_of_both_says_what_is_taken(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], test: bool, run: str, runs: bool, words: str
) -> None:
    folder = project(tmp_path / "p", test=test, run=run)
    assert takes_runs(folder, Path(".anubis")) is runs
    said = capsys.readouterr().out
    assert said.count("\n") == bool(words)
    assert words in said


def test_arrays_of_libraries_and_of_tests_are_no_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = project(tmp_path / "p")
    for place in (".venv/lib", "venv/lib", "data"):
        (folder / place).mkdir(parents=True)
        np.savez(folder / place / "fixture.npz", values=np.arange(3))
    (folder / "venv" / "pyvenv.cfg").touch()
    (folder / "venv" / "lib" / "journal.jsonl").touch()
    assert not takes_runs(folder, Path(".anubis"))
    assert capsys.readouterr().out == ""
    save_columns(Columns(populations=(), runs=()), folder / "data" / "fleet.npz")
    assert takes_runs(folder, Path(".anubis"))
    assert "has 1 run and tests" in capsys.readouterr().out


def test_runs_of_another_store_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = project(tmp_path / "p", run="build/my store/runs/r1")
    assert not takes_runs(folder, folder / "build" / "my store")
    assert f"anubis learn '{folder}/build/my store/runs'\n" in capsys.readouterr().out


def test_the_store_itself_holds_runs(tmp_path: Path) -> None:
    store = project(tmp_path / ".anubis", run="runs/r1")
    assert takes_runs(store, store)
    assert takes_runs(store / "runs", store)


def test_learning_a_second_time_measures_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class MeasuredError(BaseException):
        pass

    def start(*_: object, **__: object) -> None:
        raise MeasuredError

    monkeypatch.chdir(project(tmp_path / "p", run=".anubis/runs/r1"))
    monkeypatch.setattr(subprocess, "run", start)
    monkeypatch.setattr(subprocess, "Popen", start)
    with pytest.raises(MeasuredError):
        main(["learn", "."])


@pytest.mark.parametrize("text", ["5%", ".05"])
def test_a_chance_may_be_a_percentage(text: str) -> None:
    assert rate_of(text) == pytest.approx(0.05)


@pytest.mark.parametrize("text", ["5", "0%", "x", "100%"])
def test_what_is_no_chance_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        rate_of(text)
