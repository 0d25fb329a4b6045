"""The campaign of uploads sees what is lost, doubled or changed."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from pytest_anubis.store.fleet.pushing import push
from pytest_anubis.store.history.database import History


@pytest.fixture
def uploads() -> Any:
    return importlib.import_module("benchmarks.reliability.chaos.uploads")


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("select 1", ""),
        ("update runs set run = 'other' where id = 1", "1 runs lost"),
        ("delete from content_parts where run_id = 1", "27 events of 2 runs, expected 54 of 2"),
        ("delete from verdicts where run_id = 1", "12 verdicts, expected 24"),
    ],
)
def test_what_is_wrong_is_seen(uploads: Any, tmp_path: Path, statement: str, said: str) -> None:
    store = tmp_path / "n1"
    uploads.write_runs(store, "n1", 2, values=3)
    push([store], tmp_path / "fleet")
    with History(tmp_path / "fleet") as history, history.writing() as connection:
        connection.execute(sa.text(statement))
    wrong = uploads.wrong_in(tmp_path / "fleet", [store])
    assert bool(wrong) == bool(said)
    assert not said or said in wrong[0]
