"""Fixtures of the tests of ``anubis``."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def prepared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder that the module's function ``prepare`` has filled, once for all its tests."""
    folder = tmp_path_factory.mktemp("prepared")
    with contextlib.chdir(folder):
        getattr(request.module, "prepare", lambda: None)()
    return folder


@pytest.fixture
def here(prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder of the test's own with what the module has prepared, which is the current one."""
    shutil.copytree(prepared, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path
