"""A run removes the leftovers of killed runs, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pytest_anubis.store.scratch_folders import LEFTOVER_AGE, ScratchFolder, remove_leftovers


def age(path: Path) -> None:
    past = time.time() - 2 * LEFTOVER_AGE
    os.utime(path, (past, past))


def test_a_folder_lives_as_long_as_it_is_open(tmp_path: Path) -> None:
    with ScratchFolder(tmp_path) as folder:
        (folder.path / "file").touch()
        assert folder.path.stat().st_mode & 0o777 == 0o700
        age(folder.path)
        remove_leftovers(tmp_path)
        assert (folder.path / "file").exists()
    assert not list(tmp_path.iterdir())
    folder.close()


def test_only_old_unlocked_folders_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").touch()
    (tmp_path / "anubis-link").symlink_to(precious)
    (tmp_path / "anubis-file").touch()
    for name in ("anubis-left", "anubis-young", "another-left"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "link").symlink_to(precious)
    for path in tmp_path.iterdir():
        if path.name != "anubis-young":
            age(path)
    with monkeypatch.context() as other:
        other.setattr(os, "geteuid", lambda: os.getuid() + 1)
        remove_leftovers(tmp_path)
        assert (tmp_path / "anubis-left").exists()
    with ScratchFolder(tmp_path) as mine:
        left = {path.name for path in tmp_path.iterdir()} - {mine.path.name}
    assert left == {"precious", "anubis-link", "anubis-file", "anubis-young", "another-left"}
    assert (precious / "file").exists()


def test_folder_of_a_killed_process_is_removed(tmp_path: Path) -> None:
    code = (
        "import os, pathlib, sys; from pytest_anubis.store.scratch_folders import ScratchFolder; "
        "ScratchFolder(pathlib.Path(sys.argv[1])); os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False)
    (left,) = tmp_path.iterdir()
    remove_leftovers(tmp_path)
    assert left.exists()  # it is young
    age(left)
    remove_leftovers(tmp_path)
    assert not left.exists()
