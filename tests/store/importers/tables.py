"""Tables and summaries that tests of importers write, and the lines of each node that were not read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pytest_anubis.store.importers.import_result import Imported
from pytest_anubis.store.importers.superbench import import_superbench
from pytest_anubis.store.importers.table import import_table

HEAD = "node,benchmark,metric,unit,better,value"


def imported(folder: Path, *rows: str, more: str = "", mark: str = ",") -> Imported:
    """Import a table with these rows, with more columns behind the usual ones."""
    path = folder / "t.csv"
    lines = [f"{HEAD},{more}" if more else HEAD, *rows]
    path.write_text("\n".join(lines).replace(",", mark), encoding="utf-8")
    return import_table(path)


def summary(folder: Path, *nodes: Any, more: str = "") -> Imported:
    """Import a SuperBench summary with a line for each node, and more below."""
    path = folder / "results-summary.jsonl"
    path.write_text("".join(f"{json.dumps(node)}\n" for node in nodes) + more)
    return import_superbench(path)


def unread(found: Imported) -> dict[str, int]:
    """Return node -> number of lines about it that were not read."""
    return {run.node: run.unread for run in found.runs}
