"""A parameter in a column that is not used is no repetition; what differs in each row is none."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from pytest_anubis.cli.main import main
from pytest_anubis.store.collected_runs import read_runs
from pytest_anubis.store.importers.import_result import Imported
from tests.store.importers.tables import imported, unread


def of(folder: Path, column: str, cells: Sequence[Sequence[str]]) -> Imported:
    """Import a table with one node for each sequence of cells."""
    rows = [
        f"n{node},b,m,GB/s,higher,{100 + row},{cell}"
        for node, of_node in enumerate(cells)
        for row, cell in enumerate(of_node)
    ]
    return imported(folder, *rows, more=column)


@pytest.mark.parametrize(
    ("column", "cells"),
    [
        ("Size", ["1024", "1048576", "8589934592"]),
        ("n_ranks", ["8", "64"]),
        ("threads", ["1", "2"]),
        ("GPU", ["0", "1", "2", "3"]),
        ("local rank", ["0", "1"]),
        ("path", ["intra", "inter"]),
        ("way", ["read", "write", "read", "write"]),
        ("clock", ["1410", "1980"]),
    ],
)
def test_a_parameter_is_named(tmp_path: Path, column: str, cells: list[str]) -> None:
    found = of(tmp_path, column, [cells] * 3)
    assert (len(found.merged), found.lost, found.wrong_count) == (1, 1, 0)
    assert column.lower() in found.merged[0]
    assert not [note for note in found.notes if "is not used" in note]
    # Nothing is charged to a node, and the values are there.
    assert unread(found) == {"n0": 0, "n1": 0, "n2": 0}
    assert found.values == 3 * len(cells)


def test_on_one_node_a_name_is_needed(tmp_path: Path) -> None:
    assert of(tmp_path, "msg_size", [["8", "1024"]]).merged
    assert not of(tmp_path, "clock", [["1410", "1980"]]).merged


@pytest.mark.parametrize(
    ("column", "cells"),
    [
        ("iteration", [["10", "20", "30"]] * 3),
        ("x", [["0", "1", "2"]] * 3),
        ("x", [["rep1", "rep2", "rep3"]] * 3),
        ("x", [["1.0", "2.0"]] * 3),
        ("written", [["2026-11-01T10:00", "2026-11-02T10:00"]] * 3),
        ("x", [["01.11.2026", "02.11.2026"]] * 3),
        ("x", [["10:00:01", "10:00:02"]] * 3),
        ("temperature", [["61", "62", "64"], ["60", "62", "63"], ["59", "61", "66"]]),
        ("hostname", [["h0", "h0"], ["h1", "h1"], ["h2", "h2"]]),
        ("comment", [["ok", "warm"]] * 3),
        ("remarked", [["", "a new cable"], ["", ""], ["", ""]]),
        ("size", [["1024", "1024"], ["1024", "1024"], ["1024", ""]]),
        ("size", [["1024"], ["2048"], ["4096"]]),
        ("x", [[str(7 * row) for row in range(100)]] * 3),
    ],
)
def test_what_differs_in_each_row_is_no_parameter(
    tmp_path: Path, column: str, cells: list[list[str]]
) -> None:
    found = of(tmp_path, column, cells)
    assert (found.merged, found.lost) == ((), 0)
    assert [note for note in found.notes if repr(column) in note]


def test_in_group_or_metric_it_is_none(tmp_path: Path) -> None:
    units = [(node, size) for node in ("n0", "n1", "n2") for size in (8, 64)]
    rows = [f"{node},b,m_{size},s,lower,1,{size}" for node, size in units]
    assert imported(tmp_path, *rows, more="size").lost == 0
    rows = [f"{node},b,m,s,lower,1,{size},{size} bytes" for node, size in units]
    assert imported(tmp_path, *rows, more="size,group").lost == 0


@pytest.mark.parametrize(("lenient", "code"), [([], 1), (["--lenient"], 0)])
def test_exit_code(tmp_path: Path, lenient: list[str], code: int) -> None:
    path = of(tmp_path, "ranks", [["8", "64"]] * 2).source
    store = ["--class", "k", "--store", str(tmp_path / "s")]
    assert main(["import", "table", str(path), *store, *lenient]) == code


def test_a_table_that_is_judged_without_an_import_says_so_too(tmp_path: Path) -> None:
    path = of(tmp_path, "ranks", [["8", "64"]] * 2).source
    assert [line for line in read_runs([path]).warnings if "'ranks'" in line]
