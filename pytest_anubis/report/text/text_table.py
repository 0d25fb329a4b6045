"""Text tables: aligned columns, numbers to the right, wide characters counted as they are shown."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from itertools import takewhile

_NUMBER = re.compile(
    r"-|NaN|-?Infinity|[+-]?\d[\d.,]*(e[+-]?\d+)?( ?%)?|\d[\d.,]* to \d[\d.,]*"  # or an interval
)
_BLANK = re.compile(" (?!%)")
"""Where a line may end: not between a number and its per cent."""
_GAP = "  "
_LEAST = 12
"""Narrowest that a column is cut to."""
_NAME = 24
"""Columns that a name keeps as long as there are others to do without: file and test are mostly shorter."""
_WIDEST = 160
"""Widest that a column gets with others after it: one odd name must not push those out of sight in all rows.
Paths, hardware classes, ids of tests and SuperBench's names of metrics are shorter."""
_BEFORE = 4
"""Characters that still stand before what differs, where a common beginning is left out."""
MANY = 5
"""Lines that differ in nothing but a name from which on they are one."""
_NAMED = 3
"""Names that such a line still has."""


def width_of(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    return sum(_width(character) for character in text)


def _width(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):  # combining, joining, invisible
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def plain_line(text: str) -> str:
    """Return text on one line and without control characters: it may come from a file of strangers."""
    return printable(" ".join(str(text).split()))


def printable(text: str) -> str:
    r"""Return text with everything that is no visible character as an escape, e.g. ``\x1b``, ``\n``.

    What controls a terminal, ends a line or turns the direction of writing round is none, nor is half a
    surrogate pair. Blanks stay as they are; text that went through here once is not changed again.
    """
    if text.isprintable():  # nearly always
        return text
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def table(
    rows: Sequence[Sequence[str]],
    *,
    width: int | None = None,
    shrink: int = 0,
    least: int = _LEAST,
) -> str:
    """Return rows as aligned lines; the first row is the header.

    A column whose cells are all numbers, intervals or dashes is aligned to the right. Cells wider than 160
    are cut in their middle, but for the last column's.

    Args:
        rows: At least a header; every row has as many cells.
        width: Columns of the terminal, if the table should fit where it can.
        shrink: The column whose long cells are cut, in their middle, to make it fit.
        least: Narrowest that it is cut to.

    Raises:
        ValueError: The rows have different numbers of cells.
    """
    clean = [[plain_line(cell) for cell in row] for row in rows]
    columns = list(zip(*clean, strict=True))
    widths = [max(map(width_of, column)) for column in columns]
    widths = [*(min(one, _WIDEST) for one in widths[:-1]), *widths[-1:]]
    if width is not None and widths:
        over = sum(widths) + len(_GAP) * (len(widths) - 1) - width
        least = max(least, width_of(clean[0][shrink]))
        if over > 0 and widths[shrink] > least:
            widths[shrink] = max(least, widths[shrink] - over)
    right = [len(c) > 1 and all(_NUMBER.fullmatch(cell) for cell in c[1:]) for c in columns]
    cut = [_squeezed(column, size) for column, size in zip(columns, widths, strict=True)]
    lines = []
    for row in clean:
        cells = []
        for whole, size, to_right, short in zip(row, widths, right, cut, strict=True):
            cell = short[whole]
            pad = " " * (size - width_of(cell))
            cells.append(pad + cell if to_right else cell + pad)
        lines.append(_GAP.join(cells).rstrip())
    return "\n".join(lines)


def fitted_table(
    rows: Sequence[list[str]], width: int, spare: Sequence[str], *, last: str = ""
) -> str:
    """Return a table without as many of the less telling columns as it takes to fit.

    Args:
        rows: As for `table`.
        width: Columns of the terminal.
        spare: Names of the columns that may go, in this order.
        last: One that goes once the first column is as narrow as it gets.
    """
    for column in spare:
        if max(map(width_of, table(rows, width=width, least=_NAME).splitlines())) <= width:
            break
        rows = without_columns(rows, column)
    if max(map(width_of, table(rows, width=width).splitlines())) > width:
        rows = without_columns(rows, last)
    return table(rows, width=width)


def without_columns(rows: Sequence[list[str]], *columns: str) -> list[list[str]]:
    """Return a table without columns of these names, those that it has."""
    kept = [place for place, name in enumerate(rows[0]) if name not in columns]
    return [[row[place] for place in kept] for row in rows]


def folded(rows: Sequence[Sequence[str]]) -> tuple[list[list[str]], list[int]]:
    """Make one row of many that differ in nothing but their first cell; the first is the header.

    Returns:
        The rows, and how many rows each of them stands for, the header for none.
    """
    alike: dict[tuple[str, ...], list[str]] = {}
    for row in rows[1:]:
        alike.setdefault(tuple(row[1:]), []).append(row[0])
    found, counts = [list(row) for row in rows[:1]], [0]
    for rest, names in alike.items():
        if len(names) >= MANY:
            found.append([f"{', '.join(names[:_NAMED])} and {len(names) - _NAMED} more", *rest])
            counts.append(len(names))
        else:
            found += [[name, *rest] for name in names]
            counts += [1] * len(names)
    return found, counts


def _squeezed(cells: Sequence[str], width: int) -> dict[str, str]:
    """Return cells as they are cut: of those that would look alike what they begin with in common is cut."""
    found = {cell: squeeze(cell, width) for cell in cells}
    alike: dict[str, list[str]] = {}
    for cell, cut in found.items():
        alike.setdefault(cut, []).append(cell)
    for group in alike.values():
        if len(group) > 1:
            pairs = takewhile(lambda letters: len(set(letters)) == 1, zip(*group, strict=False))
            shared = max(0, len(list(pairs)) - _BEFORE)
            found |= {cell: squeeze(f"…{cell[shared:]}", width) for cell in group}
    return found


def clip(text: str, width: int) -> str:
    """Return a text cut to a number of columns, with an ellipsis where something was cut."""
    if width_of(text) <= width:
        return text
    return _head(text, max(1, width - 1)) + "…"


def clip_but_end(text: str, width: int) -> str:
    """Return a text cut as `clip` cuts it, but before its last arrow, which leads to what is to be done.

    Where that takes more than half of the columns it is no short advice, and is cut too.
    """
    before, mark, last = text.rpartition(" -> ")
    if width_of(text) <= width or not mark or 2 * width_of(last) > width:
        return clip(text, width)
    return clip(before, width - width_of(mark + last)) + mark + last


def wrap(text: str, width: int | None, *, indent: str = "") -> list[str]:
    """Return a text as lines of at most a number of columns, broken at blanks; nothing is lost.

    Args:
        text: One line; what it begins with, blanks too, stays.
        width: Columns; None leaves it one line.
        indent: Stands before every line but the first.
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
    """Return a text cut in its middle: the end of a path or test id tells more than its beginning."""
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
