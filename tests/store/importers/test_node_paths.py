"""The node of a file comes from its path, or the file is refused in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_anubis.store.importers.import_result import ImportFileError
from pytest_anubis.store.importers.node_paths import NodePattern


@pytest.mark.parametrize(
    ("pattern", "path", "names"),
    [
        ("results/{node}/nccl.log", "results/n17/nccl.log", ("n17", "")),
        ("results/{node}-nccl.log", "results/rack-2-n17-nccl.log", ("rack-2-n17", "")),
        ("**/{node}/nccl.log", "a/b/n17/nccl.log", ("n17", "")),
        ("**/{node}/nccl.log", "n17/nccl.log", ("n17", "")),
        ("r/{node}/**/*.log", "r/n17/x/y/nccl.log", ("n17", "")),
        ("r/{node}/{run}/*.log", "r/n[1]/2026-11/nccl.log", ("n[1]", "2026-11")),
        ("/r/{node}.log", "/r/a.log", ("a", "")),
    ],
)
def test_the_name_stands_where_the_pattern_says(
    pattern: str, path: str, names: tuple[str, str]
) -> None:
    assert NodePattern(pattern).names(Path(path)) == names


@pytest.mark.parametrize(
    ("pattern", "path", "said"),
    [
        ("results/*/nccl.log", "", "needs {node} once"),
        ("{node}/{node}.log", "", "needs {node} once"),
        ("{node}/{run}/{run}.log", "", "{run} once at most"),
        ("{node}" + "/*" * 20, "", "more than 8 wildcards"),
        ("results/{node}/nccl.log", "elsewhere/n1/nccl.log", "no node in it"),
        ("results/{node}/nccl.log", "results/x/n1/nccl.log", "no node in it"),
        ("{node}-*.log", "n1-a-b.log", "may be of 'n1' or of 'n1-a'"),
        ("**/{node}/**/x.log", "a/b/c/x.log", "may be of 'a' or of 'c'"),
        ("*{node}.log", "n17.log", "may be of 'n17' or of '7'"),
        ("{node}.log", "a\x1bb.log", "unprintable"),
    ],
)
def test_path_without_one_node_is_one_line(pattern: str, path: str, said: str) -> None:
    with pytest.raises(ImportFileError) as refused:
        NodePattern(pattern).names(Path(path))
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)
