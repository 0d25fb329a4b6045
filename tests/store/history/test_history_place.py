"""The file of a history is known before it is opened."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_anubis.store.history import HISTORY_NAME, history_file


@pytest.mark.parametrize(
    ("place", "file"),
    [
        (Path("store"), Path("store", HISTORY_NAME)),
        ("store", Path("store", HISTORY_NAME)),
        ("sqlite:///h.sqlite", Path("h.sqlite")),
        ("sqlite:////data/h.sqlite?timeout=5", Path("/data/h.sqlite")),
        ("sqlite:///:memory:", None),
        ("sqlite:///", None),
        ("postgresql+psycopg://me@host/anubis", None),
    ],
)
def test_only_sqlite_has_a_file(place: Path | str, file: Path | None) -> None:
    assert history_file(place) == file
