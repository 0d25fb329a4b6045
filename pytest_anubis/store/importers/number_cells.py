"""Read numbers and times from cells of tables, strictly, and say why a cell is none. `long_form` uses it.

`outcome_columns` shares its words for a missing value.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Any

_COMMA = re.compile(r"[+-]?\d+,\d+([eE][+-]?\d+)?")
_THOUSANDS = re.compile(r"[+-]?\d{1,3}([,.' \u00a0\u202f\u2019]\d{3})+([.,]\d+)?")
DECIMAL_COMMA = "has a decimal comma; write a point"
NO_VALUE = frozenset(("n/a", "na", "#n/a", "-", "--", "null", "none"))
"""Words for a missing value."""


def all_plain(column: Sequence[Any]) -> bool:
    """Return whether all cells of a column can be converted by `float`, without `number_of`."""
    if not isinstance(column[0], str):
        return True
    text = "".join(column)
    return text.isascii() and "_" not in text


def number_of(item: Any) -> float:
    """Return a number; unlike `float`, refuse ``1_000`` and digits of other scripts.

    Raises:
        ValueError: It is no number.
    """
    if isinstance(item, str) and ("_" in item or not item.strip().isascii()):
        raise ValueError(item)
    return float(item)


def is_nothing(item: str, column: str) -> bool:
    """Return whether a cell is empty or, in the column ``value``, contains a word for a missing value."""
    return not item.strip() or (column == "value" and item.strip().lower() in NO_VALUE)


def is_marked(item: object) -> bool:
    """Return whether a cell is a number with a comma or other marks, whose meaning is ambiguous."""
    text = item.strip() if isinstance(item, str) else ""
    return bool(_COMMA.fullmatch(text) or _THOUSANDS.fullmatch(text))


def no_number(item: object, separator: str = "") -> str:
    """Return why a cell is no number; a comma is not guessed at, since it may mean decimals or thousands.

    `separator` parts the columns of the file: between commas no cell has a decimal comma.
    """
    if isinstance(item, str) and _COMMA.fullmatch(item.strip()) and separator != ",":
        return DECIMAL_COMMA
    if isinstance(item, str) and _THOUSANDS.fullmatch(item.strip()):
        return "has marks between thousands; write it without"
    return "is not a number"


def no_moment(item: object) -> str:
    """Return why a cell is no time: neither a number nor ISO 8601."""
    said = no_number(item)
    if said == "is not a number":
        said = "is neither a number of seconds nor ISO 8601, such as 2026-01-31T12:00:00Z"
    return said


def moment_of(item: Any) -> float:
    """Return seconds since 1970 of a number, date, datetime or ISO 8601 text, in UTC without a zone."""
    if isinstance(item, str):
        try:
            return number_of(item)
        except ValueError:
            item = datetime.fromisoformat(item.strip())
    if isinstance(item, date) and not isinstance(item, datetime):
        item = datetime(item.year, item.month, item.day, tzinfo=UTC)
    if isinstance(item, datetime):
        return (item if item.tzinfo else item.replace(tzinfo=UTC)).timestamp()
    return float(item)
