"""Columns of tables that say in words whether a test failed: ``status``, ``passed`` and the like."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

_FAILED = frozenset(
    ("fail", "failed", "failure", "error", "timeout", "killed", "crashed", "aborted", "ko", "nok")
)
FINE = frozenset(
    (
        *(
            "",
            "pass",
            "passed",
            "ok",
            "success",
            "succeeded",
            "successful",
            "complete",
            "completed",
        ),
        *("done", "good", "fine", "healthy", "accepted", "n/a", "na", "-", "none", "null"),
    )
)
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
"""Those that hold a number in some tables."""
_ALL = re.compile(r"(\d+)/\1")


def failed_rows(name: str, column: Sequence[Any]) -> tuple[list[int], list[int]]:
    """Return the rows of which a column says that the test failed, and those with an unknown word.

    Args:
        name: One of `STATES`.
        column: Its cells.
    """
    bad, fine = STATES[name]
    words = ["" if cell is None else str(cell).strip().lower() for cell in column]
    failed = [row for row, word in enumerate(words) if word in bad]
    known = {
        word for word in set(words) if word in bad or word in fine or _says_nothing(word, name)
    }
    return failed, [row for row, word in enumerate(words) if word not in known]


def _says_nothing(word: str, name: str) -> bool:
    if _ALL.fullmatch(word):  # 8/8
        return name not in ("fail", "failed")
    try:
        number = float(word)
    except ValueError:
        return False
    if name in _ERRORS:  # 0.02 is the error of a measurement
        return number == 0 or not number.is_integer()
    return name in _RESULTS and math.isfinite(number)
