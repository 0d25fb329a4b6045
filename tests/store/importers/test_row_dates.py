"""A table's column of times dates its runs, if all of them are moments."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from pytest_anubis.store.importers.import_result import Imported
from pytest_anubis.store.importers.table import import_table

WRITTEN = 1_790_000_000  # 2026-09-21T14:13:20, UTC


def imported(folder: Path, *rows: tuple[str, str]) -> Imported:
    """Import one value for each node and time."""
    path = folder / "t.csv"
    lines = [f"{node},copy,rate,GB/s,higher,5,{time}" for node, time in rows]
    path.write_text("\n".join(["node,benchmark,metric,unit,better,value,time", *lines]))
    os.utime(path, (WRITTEN, WRITTEN))
    return import_table(path)


def dates(found: Imported) -> dict[str, tuple[str, str]]:
    return {run.node: (run.started, run.ended) for run in found.runs}


def test_run_lasts_from_earliest_to_latest_row(tmp_path: Path) -> None:
    found = imported(
        tmp_path,
        ("n1", "2026-11-16T09:00:00+01:00"),
        ("n1", "2026-11-15T23:00:00"),
        ("n2", "2026-11-17T10:00:00"),
        (" n1", "2026-11-16T10:00:00Z"),
    )
    assert dates(found) == {
        "n1": ("2026-11-15T23:00:00+00:00", "2026-11-16T10:00:00+00:00"),
        "n2": ("2026-11-17T10:00:00+00:00", "2026-11-17T10:00:00+00:00"),
    }
    assert not found.file_dated


def test_growing_table_has_a_run_for_each_night(tmp_path: Path) -> None:
    found = imported(
        tmp_path,
        *(("n1", f"2026-11-{day:02d}T23:{minute}:00") for day in (1, 2, 3) for minute in (50, 59)),
        *(("n1", f"2026-11-{day:02d}T00:20:00") for day in (2, 3, 4)),
        ("n2", "2026-11-03T23:50:00"),
    )
    nights = [
        (run.run, run.started[8:10], run.ended[8:10]) for run in found.runs if run.node == "n1"
    ]
    assert nights == [(f"t.2026-11-0{day}", f"0{day}", f"0{day + 1}") for day in (1, 2, 3)]
    (one,) = found.populations
    assert np.diff(one.offsets).tolist() == [3, 3, 3, 1]


def test_a_run_without_a_pause_is_cut_after_a_day(tmp_path: Path) -> None:
    hours = [
        ("n1", f"2026-11-{day:02d}T{hour:02d}:00:00") for day in (1, 2, 3) for hour in range(24)
    ]
    found = imported(tmp_path, *hours)
    assert len(found.runs) == 3
    assert len(imported(tmp_path, *hours[12:36]).runs) == 1


def test_seconds_since_1970_are_moments(tmp_path: Path) -> None:
    found = imported(tmp_path, ("n1", "1763280000.5"), ("n2", ""))
    assert dates(found)["n1"][0] == "2025-11-16T08:00:00+00:00"
    assert dates(found)["n2"][0] == "2026-09-21T14:13:20+00:00"  # it has no time: the file's


@pytest.mark.parametrize("time", ["0.25", "1763280000000", "1970-01-01T00:00:07", "-5", "inf", ""])
def test_invalid_times_leave_the_date_of_the_file(tmp_path: Path, time: str) -> None:
    found = imported(tmp_path, ("n1", "2026-11-16" if time else ""), ("n2", time))
    assert {began for began, _ in dates(found).values()} == {"2026-09-21T14:13:20+00:00"}
    assert found.file_dated


def test_dates_of_a_parquet_file(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    path = tmp_path / "t.parquet"
    duckdb.sql(
        "SELECT 'n1' AS node, 'copy' AS benchmark, 'rate' AS metric, 'GB/s' AS unit, 'higher' AS better, "
        "5 AS value, DATE '2026-11-16' AS time"
    ).write_parquet(str(path))
    assert dates(import_table(path))["n1"][0] == "2026-11-16T00:00:00+00:00"
