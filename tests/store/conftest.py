"""Fixtures of the store's tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.postgres import new_database


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path | str:
    """Return a folder for a new history, or the URL of an empty database."""
    if request.param == "sqlite":
        return tmp_path / "fleet"
    name = f"place{abs(hash(request.node.nodeid)) % 10**9}"
    return new_database(request.getfixturevalue("postgres_url"), name)
