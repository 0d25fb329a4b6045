"""Aligned tables and wrapped lines for terminals; wide characters count as many columns as they take.

rich has no column that is cut in its middle, and importing its tables takes a tenth of a second.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from itertools import takewhile

from pytest_anubis.core.metric import first_of
from pytest_anubis.report.text.safe_text import plain_line

_NUMBER = re.compile(
    r"-|NaN|-?Infinity|[+-]?\d[\d.,]*(e[+-]?\d+)?( ?%)?|\d[\d.,]* to \d[\d.,]*"  # or an interval
)
_BLANK = re.compile(" (?!%)")
"""Where a line may break: not between a number and its per cent."""
_GAP = "  "
_MIN_CUT = 12
"""Width that a column keeps when it is cut, in characters."""
_MIN_NAME = 24
"""Width that names keep while other columns can be left out; file and test are mostly shorter."""
_MAX_COLUMN = 160
"""Width of a column that has others after it, so that one odd name does not push these out of sight. Paths,
hardware classes, ids of tests and SuperBench's names of metrics are shorter."""
_KEPT_PREFIX = 4
"""Characters kept of a common prefix that is left out."""
MIN_FOLDED = 5
"""Rows that differ in nothing but a name are shown as one from this number on."""
_MAX_NAMES = 3
"""Names that such a row shows."""


def width_of(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    return sum(_width(character) for character in text)


def _width(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):  # combining, joining, invisible
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def table(
    rows: Sequence[Sequence[str]],
    *,
    width: int | None = None,
    shrink: int = 0,
    min_width: int = _MIN_CUT,
) -> str:
    """Return rows as aligned lines; the first row is the header.

    A column of numbers, intervals and dashes is aligned to the right. Cells wider than 160 are cut in their
    middle, except in the last column.

    Args:
        rows: At least a header; every row has as many cells.
        width: Columns of the terminal that the table should fit if it can.
        shrink: The column whose long cells are cut, in their middle, to make it fit.
        min_width: Narrowest that this column is cut to.

    Raises:
        ValueError: The rows have different numbers of cells.
    """
    columns = list(zip(*([plain_line(cell) for cell in row] for row in rows), strict=True))
    widths = [max(map(width_of, column)) for column in columns]
    widths = [*(min(one, _MAX_COLUMN) for one in widths[:-1]), *widths[-1:]]
    if width is not None and widths:
        excess = sum(widths) + len(_GAP) * (len(widths) - 1) - width
        min_width = max(min_width, width_of(columns[shrink][0]))
        if excess > 0 and widths[shrink] > min_width:
            widths[shrink] = max(min_width, widths[shrink] - excess)
    padded = [_padded(column, size) for column, size in zip(columns, widths, strict=True)]
    return "\n".join(_GAP.join(cells).rstrip() for cells in zip(*padded, strict=True))


def _padded(column: Sequence[str], width: int) -> list[str]:
    """Return the cells of a column cut and padded to one width, the header first."""
    cut = _squeezed(column, width)
    pads = {cell: " " * (width - width_of(short)) for cell, short in cut.items()}
    if len(column) > 1 and all(_NUMBER.fullmatch(cell) for cell in column[1:]):
        return [pads[cell] + cut[cell] for cell in column]
    return [cut[cell] + pads[cell] for cell in column]


def fitted_table(
    rows: Sequence[list[str]], width: int, spare: Sequence[str], *, last: str = ""
) -> str:
    """Return a table; leave out the columns `spare` one by one, in this order, until it fits a width.

    The column `last` is left out only when the first column cannot become narrower.
    """

    def fits(min_width: int) -> bool:
        lines = table(rows, width=width, min_width=min_width).splitlines()
        return max(map(width_of, lines)) <= width

    for column in spare:
        if fits(_MIN_NAME):
            break
        rows = without_columns(rows, column)
    if not fits(_MIN_CUT):
        rows = without_columns(rows, last)
    return table(rows, width=width)


def without_columns(rows: Sequence[list[str]], *columns: str) -> list[list[str]]:
    """Return a table without the columns of these names; names that it does not have are ignored."""
    kept = [place for place, name in enumerate(rows[0]) if name not in columns]
    return [[row[place] for place in kept] for row in rows]


def folded(rows: Sequence[Sequence[str]]) -> tuple[list[list[str]], list[int]]:
    """Merge many rows that differ in nothing but their first cell; the first row is the header.

    Returns:
        The rows, and how many rows were merged into each of them: 0 for the header.
    """
    alike: dict[tuple[str, ...], list[str]] = {}
    for row in rows[1:]:
        alike.setdefault(tuple(row[1:]), []).append(row[0])
    found, counts = [list(row) for row in rows[:1]], [0]
    for rest, names in alike.items():
        if len(names) >= MIN_FOLDED:
            found.append([first_of(names, _MAX_NAMES), *rest])
            counts.append(len(names))
        else:
            found += [[name, *rest] for name in names]
            counts += [1] * len(names)
    return found, counts


def _squeezed(cells: Sequence[str], width: int) -> dict[str, str]:
    """Return cell -> cut cell; cells that would look alike lose their common prefix instead."""
    found = {cell: squeeze(cell, width) for cell in cells}
    alike: dict[str, list[str]] = {}
    for cell, cut in found.items():
        alike.setdefault(cut, []).append(cell)
    for group in alike.values():
        if len(group) > 1:
            pairs = takewhile(lambda letters: len(set(letters)) == 1, zip(*group, strict=False))
            shared = max(0, len(list(pairs)) - _KEPT_PREFIX)
            found |= {cell: squeeze(f"…{cell[shared:]}", width) for cell in group}
    return found


def clip(text: str, width: int) -> str:
    """Return a text cut to a number of columns, with an ellipsis where something was cut."""
    if width_of(text) <= width:
        return text
    return _head(text, max(1, width - 1)) + "…"


def clip_but_end(text: str, width: int) -> str:
    """Cut a text as `clip` does, but keep the advice after its last arrow.

    Advice longer than half of the width is cut as well.
    """
    before, mark, last = text.rpartition(" -> ")
    if width_of(text) <= width or not mark or 2 * width_of(last) > width:
        return clip(text, width)
    return clip(before, width - width_of(mark + last)) + mark + last


def wrap(text: str, width: int | None, *, indent: str = "") -> list[str]:
    """Return a text as lines of at most a number of columns, broken at blanks; nothing is lost.

    Leading blanks stay, and `indent` is put before every line but the first. A width of None leaves one line.
    """
    if width is None or width_of(text) <= width:
        return [text]
    first, *words = _BLANK.split(text)
    lines, line = [], first
    for word in words:
        if line.strip() and width_of(line) + 1 + width_of(word) > width:
            lines.append(line)
            line = indent + word
        else:
            line += f" {word}"
    return [*lines, line]


def squeeze(text: str, width: int) -> str:
    """Return a text cut in its middle, since the end of a path or test id says more than its beginning."""
    if width_of(text) <= width:
        return text
    room = max(1, width - 1)
    first = _head(text, room // 3)
    last = _head(text[::-1], room - width_of(first))[::-1]
    return f"{first}…{last}"


def _head(text: str, width: int) -> str:
    used = 0
    for index, character in enumerate(text):
        used += _width(character)
        if used > width:
            return text[:index]
    return text
