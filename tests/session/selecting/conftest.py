"""The suite and the fleet's past of `selector_story`, in the folder of a test."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.session.selector_story import write_baseline, write_history, write_suite


@pytest.fixture(scope="session")
def past(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the suite, the fleet's past and a baseline, made once."""
    folder = tmp_path_factory.mktemp("past")
    write_suite(folder)
    write_history(folder / ".anubis")
    write_baseline(folder)
    return folder


@pytest.fixture
def bare(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """The suite alone."""
    monkeypatch.delenv("PYTEST_ANUBIS_PROFILE", raising=False)
    monkeypatch.delenv("PYTEST_ANUBIS_STORE", raising=False)
    write_suite(pytester.path)
    return pytester


@pytest.fixture
def story(bare: pytest.Pytester, past: Path) -> pytest.Pytester:
    """The suite, its baseline, and the fleet's past in the store."""
    shutil.copytree(past, bare.path, dirs_exist_ok=True)
    return bare
