"""Files made to exhaust memory or time are read in time or refused in one line."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pytest_anubis.codec import CodecError, read_json
from pytest_anubis.codec.input_limits import ROW_BYTES, VARIABLE, most_bytes
from pytest_anubis.core.metric import Metric
from pytest_anubis.core.sample import population_of
from pytest_anubis.store.importers.fio import import_fio
from pytest_anubis.store.importers.import_result import ImportFileError
from pytest_anubis.store.importers.nccl import import_nccl
from pytest_anubis.store.importers.superbench import import_superbench
from pytest_anubis.store.importers.table import import_table
from pytest_anubis.store.journal.journal_events import JournalError
from pytest_anubis.store.journal.journal_reading import read_journal
from pytest_anubis.store.samples.columnar_files import (
    Columns,
    ColumnsError,
    load_columns,
    save_columns,
)

ROOT = Path(__file__).parents[2]
HANGS = 60
"""Seconds: all of it takes two on an idle machine; a reader whose time grows with the square takes hours."""
MIB = 1 << 20
COUNT = 2 * MIB // ROW_BYTES
"""Rows that need twice the limit."""
HEAD = "node,benchmark,metric,unit,better,value\n"


def test_no_line_of_a_file_takes_for_ever(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.store.hostile_lines", str(tmp_path)]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=HANGS)
    except subprocess.TimeoutExpired as late:
        names = (late.stdout or b"").decode().splitlines()
        pytest.fail(f"no end to: {names[-1] if names else 'the start'}")
    assert done.stdout.endswith("all of them\n"), done.stderr


def write_csv(path: Path) -> None:
    path.write_text(HEAD + "n,b,m,s,lower,1\n" * COUNT, encoding="ascii")


def write_long_csv(path: Path) -> None:
    path.write_text(HEAD + f"{'n' * 2000},b,m,s,lower,1\n" * 600, encoding="ascii")


def write_parquet(path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    row = "'n' node, 'b' benchmark, 'm' metric, 's' unit, 'lower' better, 1 value"
    duckdb.sql(f"SELECT {row} FROM range({COUNT})").write_parquet(str(path))  # noqa: S608


def write_superbench(path: Path) -> None:
    line = json.dumps({"node": "n"} | {f"b/latency{i}": 1 for i in range(COUNT // 100)})
    path.write_text((line + "\n") * 101, encoding="ascii")


def write_text(path: Path) -> None:
    path.write_text("x" * (MIB + 1), encoding="ascii")


def write_arrays(path: Path) -> None:
    population = population_of(
        [[1.0]] * COUNT, metric=Metric(name="m", unit="s", better="lower"), benchmark="b"
    )
    save_columns(Columns(populations=(population,), runs=()), path)


def write_bomb(path: Path) -> None:
    """A small file of which every array is as large as it says."""
    write_arrays(path)
    zeros = io.BytesIO()
    np.save(zeros, np.zeros(MIB, dtype=np.float64))
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in (parts | {"values.npy": zeros.getvalue()}).items():
            archive.writestr(name, content)


LARGE: dict[str, tuple[str, Callable[[Path], None], Callable[[Path], object]]] = {
    "rows of a CSV": ("t.csv", write_csv, import_table),
    "bytes of a CSV": ("t.csv", write_long_csv, import_table),
    "rows of a Parquet": ("t.parquet", write_parquet, import_table),
    "values of SuperBench": ("s.jsonl", write_superbench, import_superbench),
    "a line of SuperBench": ("s.jsonl", write_text, import_superbench),
    "a line of nccl-tests": ("n.log", write_text, lambda path: import_nccl(path, node="n")),
    "an output of fio": ("f.json", write_text, lambda path: import_fio(path, node="n")),
    "rows of arrays": ("c.npz", write_arrays, load_columns),
    "unpacked arrays": ("c.npz", write_bomb, load_columns),
    "JSON": ("j.json", write_text, read_json),
}


@pytest.mark.parametrize("what", LARGE)
def test_too_large_file_names_the_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    name, write, read = LARGE[what]
    path = tmp_path / name
    write(path)
    monkeypatch.setenv(VARIABLE, "1MiB")
    with pytest.raises((ImportFileError, ColumnsError, CodecError)) as refused:
        read(path)
    said = str(refused.value)
    assert "beyond the limit of 1MiB" in said
    assert f"raise it with {VARIABLE}=4MiB" in said
    assert "\n" not in said


def test_endless_file_is_not_read() -> None:
    with pytest.raises(OSError, match="no regular file"):
        read_json(Path("/dev/zero"), largest=MIB)


def test_long_text_in_parquet_stays_one_line(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    row = "repeat('n', 5000) node, 'b' benchmark, 'm' metric, 's' unit, 'lower' better, 1 value"
    odd = "'x' AS \"a, b FROM t; --\", [1, 2] AS more"
    path = tmp_path / "t.parquet"
    duckdb.sql(f"SELECT {row}, {odd} FROM range(3)").write_parquet(str(path))  # noqa: S608
    found = import_table(path)
    assert found.wrong_count == 3
    assert "longer than 1000 characters" in str(found.wrong[0])


@pytest.mark.parametrize("text", ["4", "GiB", "-1GiB", "0MiB", "4 apples", "1e3GiB"])
def test_a_limit_that_is_no_size_is_said(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv(VARIABLE, text)
    with pytest.raises(CodecError, match="is no size such as 512MiB or 4GiB"):
        most_bytes(1)
    monkeypatch.setenv(VARIABLE, "3 GiB")
    assert most_bytes(1) == 3 << 30


def test_a_journal_of_one_endless_line_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "1MiB")
    journal = tmp_path / "journal.jsonl"
    journal.write_bytes(b'{"event":"run_started","node":"' + b"n" * 2 * MIB)
    with pytest.raises(JournalError, match=r"line 1: too long, beyond the limit of 1MiB"):
        read_journal(journal)
