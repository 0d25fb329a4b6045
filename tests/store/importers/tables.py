"""Tables that tests of importers write, and the lines of each node that were not read."""

from __future__ import annotations

from pathlib import Path

from pytest_anubis.store.importers.import_result import Imported
from pytest_anubis.store.importers.table import import_table

HEAD = "node,benchmark,metric,unit,better,value"


def imported(folder: Path, *rows: str, more: str = "", mark: str = ",") -> Imported:
    """Import a table with these rows, with more columns behind the usual ones."""
    path = folder / "t.csv"
    lines = [f"{HEAD},{more}" if more else HEAD, *rows]
    path.write_text("\n".join(lines).replace(",", mark), encoding="utf-8")
    return import_table(path)


def unread(found: Imported) -> dict[str, int]:
    """Return node -> number of lines about it that were not read."""
    return {run.node: run.unread for run in found.runs}
