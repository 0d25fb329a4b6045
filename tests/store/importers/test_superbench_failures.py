"""Lines of a SuperBench summary that say that a node failed are charged to that node."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_anubis.store.importers.import_result import Imported
from pytest_anubis.store.importers.superbench import import_superbench


def summary(path: Path, *lines: str, **more: Any) -> Imported:
    """Import a summary of two nodes, of which s1 has more keys."""
    good = {"mem-bw/h2d_bw:0": 52.0, "mem-bw/return_code": 0, "return_code": 0}
    nodes = [{"node": "h1", **good}, {"node": "s1", **good, **more}]
    file = path / "results-summary.jsonl"
    file.write_text("\n".join([*map(json.dumps, nodes), *lines]))
    return import_superbench(file)


@pytest.mark.parametrize(
    "line",
    [
        "s1: failed to run",
        "ERROR: s1 benchmark gemm failed",
        '"S1 was lost"',
        '{"error": "s1 did not answer"}',
    ],
)
def test_a_line_that_names_a_node_leaves_it_not_read_whole(tmp_path: Path, line: str) -> None:
    found = summary(tmp_path, line)
    assert {run.node: run.unread for run in found.runs} == {"h1": 0, "s1": 1}


def test_a_line_that_names_no_node_is_none_of_theirs(tmp_path: Path) -> None:
    found = summary(tmp_path, "it failed", "h1 and s1 failed")
    assert {run.node: run.unread for run in found.runs} == {"h1": 1, "s1": 1}
    assert found.wrong_count >= 2


@pytest.mark.parametrize("code", [1, -1, "2", None, True])
def test_a_return_code_of_the_whole_node_is_no_acceptance(tmp_path: Path, code: object) -> None:
    found = summary(tmp_path, return_code=code)
    assert {run.node: run.unread for run in found.runs} == {"h1": 0, "s1": 1}


@pytest.mark.parametrize("key", ["Return_Code:0", "return_code ", "return_code:all"])
def test_a_return_code_in_other_letters_is_one(tmp_path: Path, key: str) -> None:
    found = summary(tmp_path, **{f"mem-bw/{key}": 3})
    (population,) = found.populations
    problems = {population.nodes[row]: one.kind for row, one in population.problems.items()}
    assert problems == {"s1": "failed"}
