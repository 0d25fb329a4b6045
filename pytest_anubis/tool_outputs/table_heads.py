"""The first line of a table: what parts its columns, and which they are."""

from __future__ import annotations

import csv
from collections.abc import Collection, Sequence

from pytest_anubis.tool_outputs.unreadable import shown

MARKS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
_OTHER_NAMES = {"hostname": "node", "host": "node", "machine": "node", "server": "node", "test": "benchmark",
                "units": "unit", "direction": "better", "result": "value"}  # fmt: skip
"""Names that other tools give to columns; they are proposed, not taken."""


def table_head(line: str, known: Collection[str]) -> tuple[str, list[str]]:
    """Return what parts a head, and its columns: the mark that gives most known names, else most columns.

    Args:
        line: The head.
        known: Names of columns, in small letters.

    Raises:
        csv.Error: It is no line of CSV.
    """
    found = [
        (mark, next(csv.reader([line.lstrip("\ufeff")], delimiter=mark), [])) for mark in MARKS
    ]
    return max(found, key=lambda one: (count_known(one[1], known), len(one[1])))


def count_known(columns: Sequence[str], known: Collection[str]) -> int:
    """Return how many names of a head are known."""
    return len({name.strip().lower() for name in columns}.intersection(known))


def missing(columns: Sequence[str], mark: str, wanted: str) -> str:
    """Say that a column is missing: which there are, between which marks, and which of them to rename.

    Args:
        columns: Those of the head, in small letters.
        mark: What parts them; empty where nothing does.
        wanted: The one that is missing.
    """
    lacks = f"column {wanted!r} is missing"
    if mark and len(columns) < 2:
        return f"{lacks}: no comma, semicolon, tab or bar parts the head {shown(' '.join(columns))}"
    other = next((name for name in columns if _OTHER_NAMES.get(name) == wanted), "")
    rename = f" (rename {other!r} to {wanted!r})" if other else ""
    between = f" between {MARKS[mark]}" if mark else ""
    return f"{lacks}: found{between} {shown(', '.join(columns))}{rename}"


def melted(columns: Sequence[str]) -> str:
    """Return how a table with one column a metric becomes one with a row a value."""
    if "node" not in columns:
        return "docs/files.md"
    return (
        "pandas: table.melt('node', var_name='metric').assign(benchmark='NAME'); unit and better as columns, "
        "or in a map, --map FILE; docs/files.md"
    )
