"""Tables that people enter, with any separator and in UTF-16; other files are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_anubis.store.history.csv_rows import read_rows
from pytest_anubis.store.history.database import HistoryError


@pytest.mark.parametrize("mark", list(",;\t|"))
@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_any_mark_and_encoding(tmp_path: Path, mark: str, encoding: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(mark.join(("Node", "kind")) + "\n" + mark.join(("n1", "dead")) + "\n", encoding)
    assert read_rows(path, ("node",), ("kind",)) == [(2, {"node": "n1", "kind": "dead"})]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"PK\x03\x04rest", "workbook"),
        (b"hostname,kind\nn1,dead\n", "found between commas 'hostname, kind'"),
        (b"node kind\nn1 dead\n", "no comma, semicolon, tab or bar"),
    ],
)
def test_file_that_is_no_such_table_is_named(tmp_path: Path, data: bytes, words: str) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(data)
    with pytest.raises(HistoryError, match=words) as refused:
        read_rows(path, ("node",), ("kind",))
    assert "\n" not in str(refused.value)
