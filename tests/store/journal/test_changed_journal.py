"""A journal that another program removes or changes during the run is reported."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_anubis.core.events import BlockerFound, RunStarted
from pytest_anubis.store.journal.journal_file import Journal

HEAD = RunStarted(run="r", node="n")


def remove(path: Path) -> None:
    path.unlink()


def replace(path: Path) -> None:
    data = path.read_bytes()
    path.unlink()
    path.write_bytes(data)


def empty(path: Path) -> None:
    path.write_bytes(b"")


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1)


def add(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"x")


def leave(path: Path) -> None:
    os.utime(path)


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (remove, "somebody removed or moved it during the run"),
        (replace, "somebody put another file in its place during the run"),
        (empty, "somebody changed it during the run"),
        (cut, "somebody changed it during the run"),
        (add, "somebody changed it during the run"),
        (leave, ""),
    ],
)
@pytest.mark.parametrize("again", [False, True], ids=["created", "resumed"])
def test_foreign_change_of_a_journal_is_reported(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    harm: Callable[[Path], None],
    said: str,
    again: bool,
) -> None:
    monkeypatch.chdir(tmp_path)
    journal = Journal.create(Path("store"), "r")  # a path that depends on the folder
    journal.write(HEAD)
    if again:
        journal.close()
        journal = Journal.open_existing(journal.path)
    place = journal.path.absolute()
    monkeypatch.chdir("/")
    journal.write(BlockerFound(text="one"))
    harm(place)
    journal.write(BlockerFound(text="two"))
    journal.close()
    assert journal.unsafe == said
    assert journal.missing == 0
