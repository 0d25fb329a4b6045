"""Recognise the head of an imported CSV table: its separator and columns; and say which column is missing."""

from __future__ import annotations

import csv
from collections.abc import Collection, Sequence

from pytest_anubis.tool_outputs.unreadable import shown

MARKS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
_OTHER_NAMES = {"hostname": "node", "host": "node", "machine": "node", "server": "node", "test": "benchmark",
                "units": "unit", "direction": "better", "result": "value"}  # fmt: skip
"""Other tools' names of columns, for which renaming is proposed."""


def table_head(line: str, known: Collection[str]) -> tuple[str, list[str]]:
    """Return the separator and columns of a head: the ones with most known names, else most columns.

    Raises:
        csv.Error: It is no line of CSV.
    """
    found = [
        (mark, next(csv.reader([line.lstrip("\ufeff")], delimiter=mark), [])) for mark in MARKS
    ]
    return max(found, key=lambda one: (count_known(one[1], known), len(one[1])))


def count_known(columns: Sequence[str], known: Collection[str]) -> int:
    """Return how many known names a head has."""
    return len({name.strip().lower() for name in columns}.intersection(known))


def missing(columns: Sequence[str], mark: str, wanted: str) -> str:
    """Return a message about a missing column, with the columns found and one that may be renamed.

    The columns are in small letters; `mark` is their separator, empty for a file without one.
    """
    lacks = f"column {wanted!r} is missing"
    if mark and len(columns) < 2:
        return f"{lacks}: no comma, semicolon, tab or bar parts the head {shown(' '.join(columns))}"
    other = next((name for name in columns if _OTHER_NAMES.get(name) == wanted), "")
    rename = f" (rename {other!r} to {wanted!r})" if other else ""
    between = f" between {MARKS[mark]}" if mark else ""
    return f"{lacks}: found{between} {shown(', '.join(columns))}{rename}"


def melted(columns: Sequence[str]) -> str:
    """Return advice on turning a table with one column a metric into one with a row a value."""
    if "node" not in columns:
        return "docs/files.md"
    return (
        "pandas: table.melt('node', var_name='metric').assign(benchmark='NAME'); unit and better as columns, "
        "or in a map, --map FILE; docs/files.md"
    )
