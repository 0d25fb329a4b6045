"""Columns of tables that say in words whether a test failed: ``status``, ``passed`` and the like."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

_FAILED = frozenset(
    ("fail", "failed", "failure", "error", "timeout", "killed", "crashed", "aborted", "ko", "nok")
)
_PASSED = frozenset(
    (
        *("pass", "passed", "ok", "success", "succeeded", "successful", "complete", "completed"),
        *("done", "good", "fine", "healthy", "accepted"),
    )
)
"""Words that say of a test that it did not fail."""
FINE = _PASSED | {"", "n/a", "na", "-", "none", "null"}
"""Words that say of no test that it failed."""
_YES, _NO = frozenset(("true", "yes", "y", "t", "1")), frozenset(("false", "no", "n", "f", "0"))
_ERRORS = ("error", "errors", "error_message", "exception")
STATES = {
    **dict.fromkeys(
        ("status", "test_status", "state", "outcome", "verdict", "result"), (_FAILED, FINE | {"0"})
    ),
    **dict.fromkeys(("pass", "passed", "success", "ok"), (_FAILED | _NO, FINE | _YES)),
    **dict.fromkeys(
        ("fail", "failed", "error", "errors", "error_message", "exception"),
        (_FAILED | _YES, FINE | _NO),
    ),
}
"""Such columns -> the words that mean that the test failed, and those that mean that it did not."""
_RESULTS = ("result", "outcome", "verdict")
"""Those that hold a number in some tables, in all rows but those of tests that failed."""
_ALL = re.compile(r"(\d+)/\1")


class Outcomes(NamedTuple):
    """What some rows of a column say.

    Attributes:
        failed: Rows of tests that failed.
        unknown: Rows with a word that is not known.
        numbers: Rows with a number, which says nothing where no row of the whole column says `passed`.
        passed: Some row says in a word that its test passed.
    """

    failed: list[int]
    unknown: list[int]
    numbers: list[int]
    passed: bool


def outcomes(name: str, column: Sequence[Any]) -> Outcomes:
    """Return what the rows of a column say, or of a part of it.

    Args:
        name: One of `STATES`.
        column: Its cells.
    """
    bad, fine = STATES[name]
    words = ["" if cell is None else str(cell).strip().lower() for cell in column]
    distinct = set(words)
    numbers = {
        word
        for word in distinct
        if name in _RESULTS and (number := _number(word)) is not None and math.isfinite(number)
    }
    known = {word for word in distinct if word in bad or word in fine or _says_nothing(word, name)}
    return Outcomes(
        failed=[row for row, word in enumerate(words) if word in bad],
        unknown=[row for row, word in enumerate(words) if word not in known | numbers],
        numbers=[row for row, word in enumerate(words) if word in numbers] if numbers else [],
        passed=not distinct.isdisjoint(_PASSED),
    )


def _says_nothing(word: str, name: str) -> bool:
    if _ALL.fullmatch(word):  # 8/8
        return name not in ("fail", "failed")
    number = _number(word)
    # 0.02 is the error of a measurement
    return name in _ERRORS and number is not None and not (number and number.is_integer())


def _number(word: str) -> float | None:
    try:
        return float(word)
    except ValueError:
        return None
