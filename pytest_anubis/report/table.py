"""Text tables: aligned columns, numbers to the right, wide characters counted as they are shown."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

_NUMBER = re.compile(r"-|[+-]?\d[\d.,]*(e[+-]?\d+)?( ?%)?")


def width_of(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )


def table(rows: Sequence[Sequence[str]], *, gap: str = "  ") -> str:
    """Return rows as aligned lines; the first row is the header.

    A column whose cells are all numbers (or dashes) is aligned to the right.

    Args:
        rows: At least a header; every row has as many cells.
        gap: What stands between columns.
    """
    clean = [[" ".join(str(cell).split()) for cell in row] for row in rows]
    columns = list(zip(*clean, strict=True))
    widths = [max(map(width_of, column)) for column in columns]
    right = [len(c) > 1 and all(_NUMBER.fullmatch(cell) for cell in c[1:]) for c in columns]
    lines = []
    for row in clean:
        cells = []
        for cell, width, to_right in zip(row, widths, right, strict=True):
            pad = " " * (width - width_of(cell))
            cells.append(pad + cell if to_right else cell + pad)
        lines.append(gap.join(cells).rstrip())
    return "\n".join(lines)


def clip(text: str, width: int) -> str:
    """Return a text cut to a number of columns, with an ellipsis where something was cut."""
    if width_of(text) <= width:
        return text
    kept = ""
    for character in text:
        if width_of(kept + character) > max(1, width - 1):
            break
        kept += character
    return kept + "…"
