"""What an import could not read is no empty cell: `anubis judge` accepts no node of which a line was lost."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.cli.command_line import anubis

PARTS, RATES = 4, 25


def rows(node: str, seed: int, cell: str = "", metric: str = "") -> list[str]:
    """Return a node's table, one value a metric, with a cell of the third part in its place."""
    draw = random.Random(seed)
    found = []
    for part in range(PARTS):
        for name in (*(f"rate{number}" for number in range(RATES)), "faults"):
            value = "0" if name == "faults" else f"{100 * draw.gauss(1, 0.005):.3f}"
            value = cell if metric == name and part == 2 else value
            kind = "errors,equal" if name == "faults" else "GB/s,higher"
            found.append(f"{node},part{part},{name},{kind},{value}")
    return found


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    good = [row for number in range(20) for row in rows(f"g{number:02d}", number)]
    Path("good.csv").write_text("\n".join(["node,benchmark,metric,unit,better,value", *good]))
    assert anubis("learn", "good.csv").returncode == 0
    return tmp_path


@pytest.mark.parametrize("metric", ["rate7", "faults"])
@pytest.mark.parametrize(
    ("cell", "code"),
    [("", 0), ("N/A", 0), ("FAILED", 20), ("50 MB/s", 20), (">0", 20), ("1,5", 20), ("NaN", 20)],
)
def test_a_cell_that_is_no_number_is_not_missing(
    here: Path, metric: str, cell: str, code: int
) -> None:
    bad = rows("b00", 77, f'"{cell}"' if "," in cell else cell, metric)
    Path("bad.csv").write_text("\n".join(["node,benchmark,metric,unit,better,value", *bad]))
    assert anubis("import", "table", "bad.csv").returncode == (1 if code else 0)
    done = anubis("judge", ".anubis/imports/bad.csv.npz")
    assert done.returncode == code, done.stdout
