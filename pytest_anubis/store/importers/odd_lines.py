"""Collect the lines of an imported table that are no rows: remarks, and lines with another number of columns.

Those that mean a loss, such as a remark that a test failed, become wrong lines of the nodes that they name.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import NamedTuple

from pytest_anubis.store.importers.import_result import WrongLines
from pytest_anubis.store.importers.long_form import check_rows
from pytest_anubis.store.importers.table_columns import MAX_NAME_LENGTH
from pytest_anubis.tool_outputs.failure_lines import failure_said, named_in

_SEPARATORS = ",;\t|"
_RULE = "-=+:\\| \t"
"""Characters of rules and frames in tables."""


class _OddLine(NamedTuple):
    """A line that is no row."""

    line: int  # its number, from 1
    columns: int  # number of its columns; 0 above the head
    node: str  # the cell in the node's column
    text: str  # the line
    alone: bool  # it is one text such as ``(16 rows)``, or a comment


class OddLines:
    """The lines that are no rows, kept until all nodes of the file are known."""

    def __init__(self) -> None:
        self._lines: list[_OddLine] = []

    def add(self, line: int, cells: list[str], node: str = "", *, title: bool = False) -> None:
        """Add a line, unless it is blank or a rule."""
        texts = [cell for cell in cells if cell.strip(_RULE)]
        alone = title or len(texts) < 2 or cells[0].lstrip().startswith("#")
        if texts:
            text = " ".join(cells).strip()[:MAX_NAME_LENGTH]
            self._lines.append(_OddLine(line, 0 if title else len(cells), node, text, alone))
            check_rows(len(self._lines))

    def list_lost(self, width: int, nodes: AbstractSet[str], wrong: WrongLines) -> None:
        """List the lines that mean a loss as wrong."""
        for one in self._lines:
            named = nodes & {one.node} or named_in(one.text, nodes)
            text = f"{one.columns} columns, the head has {width}"
            cause = "another number of columns"
            if one.columns == width:
                named = {one.node} - {""}
                text = "its cells are divided by another separator, or quoted as a whole"
            if one.alone and (not one.columns or one.text.strip(_RULE) not in nodes):
                text = _failure(one.text, named)
                cause = "says that something failed"
            if text:
                first, *others = sorted(named) or [""]
                wrong.add(one.line, text, cause, first)
                wrong.nodes.update(others)


def divided(text: str, width: int) -> list[str]:
    """Return the cells of a line that another separator divides into as many as the head has; else none."""
    cells = [text.split(one) for one in _SEPARATORS if text.count(one) == width - 1 > 0]
    return cells[0] if cells and not text.startswith("#") else []


def _failure(remark: str, named: AbstractSet[str]) -> str:
    """Return a message about the failure in a remark; empty if it reports none, or is a comment."""
    what = "" if remark.startswith("#") else failure_said(remark, named)
    return what and f"it says that {what}: {remark[:100]}"
