"""Read columns of tables that say in words whether a test failed: ``status``, ``passed`` and the like."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

_FAILED = frozenset(
    (
        *("fail", "failed", "failure", "error", "timeout", "timed out", "timed_out", "timedout"),
        *("killed", "crash", "crashed", "aborted", "ko", "nok", "bad", "unhealthy", "rejected"),
        *("unsuccessful", "not ok", "down", "unreachable", "node_fail"),
    )
)
_PASSED = frozenset(
    (
        *("pass", "passed", "ok", "success", "succeeded", "successful", "complete", "completed"),
        *("done", "good", "fine", "healthy", "accepted"),
    )
)
"""Words that mean that a test passed."""
_BLANK = frozenset(("", "n/a", "na", "-", "none", "null"))
_FINE = _PASSED | _BLANK
"""Words that mean no failure."""
_YES = frozenset(("true", "yes", "y", "t", "1"))
_NO = frozenset(("false", "no", "n", "f", "0"))
_ERRORS = ("error", "errors", "error_message", "exception")
STATES = {
    **dict.fromkeys(
        ("status", "test_status", "state", "outcome", "verdict", "result"), (_FAILED, _FINE | {"0"})
    ),
    **dict.fromkeys(("pass", "passed", "success", "ok"), (_FAILED | _NO, _FINE | _YES)),
    **dict.fromkeys(
        ("fail", "failed", "error", "errors", "error_message", "exception"),
        (_FAILED | _YES, _FINE | _NO),
    ),
}
"""Column -> words that mean that the test failed, and words that mean that it did not."""
_RESULTS = ("result", "outcome", "verdict")
"""Columns that contain numbers in some tables, except in rows of failed tests."""
_ALL = re.compile(r"(?!0+/)(\d+)/\1")


_NAMED_GOOD = frozenset(("pass", "passed", "ok", "healthy", "success", "succeeded", "successful"))
_NAMED_BAD = frozenset(
    (
        *("fail", "failed", "failure", "error", "crash", "crashed", "killed", "unhealthy"),
        *("timeout", "timedout", "timed_out", "timed out", "timed-out"),
    )
)
"""Words at the end of a column's name that show the meaning of a yes in it."""
_NOT = frozenset(("no", "not", "non", "without"))
_NEARLY_ALL = 0.9
"""Share of a column's words that are outcomes, from which on it is a column of outcomes."""
MAX_WORDS = 1_000
"""Different words of a column of outcomes without a known name."""


class Outcomes(NamedTuple):
    """The places of words that mean a failure, and of unknown ones, among the words of a column.

    Attributes:
        failed: Words that mean that a test failed.
        unknown: Unknown words. A number is unknown only if some word means that a test passed.
    """

    failed: list[int]
    unknown: list[int]


def outcomes(name: str, cells: Sequence[Any], counts: Sequence[int]) -> Outcomes | None:
    """Return the meaning of a column's words, its distinct cells; None if it is no column of outcomes.

    Columns of outcomes are those in `STATES`, and any other in which nearly all cells that are not empty are
    outcomes.
    """
    words = ["" if cell is None else str(cell).strip().lower() for cell in cells]
    bad, fine = STATES.get(name) or _meanings(name)
    known = [word in bad or word in fine or _says_nothing(word, name) for word in words]
    if name not in STATES:
        said = [count * (word not in _BLANK) for word, count in zip(words, counts, strict=True)]
        clear = sum(count for count, one in zip(said, known, strict=True) if one)
        telling = not (bad | fine - _BLANK).isdisjoint(words)
        if not telling or clear < _NEARLY_ALL * sum(said):
            return None
    elif name in _RESULTS:
        bare = _PASSED.isdisjoint(words)
        known = [bare if _is_finite(word) else one for one, word in zip(known, words, strict=True)]
    return Outcomes(
        failed=[place for place, word in enumerate(words) if word in bad],
        unknown=[place for place, one in enumerate(known) if not one],
    )


def code_said(word: str) -> float:
    """Return the return code that a word means: 0 for a pass, NaN for none, -1 for any other word."""
    word = word.strip().lower()
    if word in _PASSED or word in ("0x0", "0:0"):
        return 0.0
    return math.nan if word in _BLANK else -1.0


def _meanings(name: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return the words of failure and of none, with yes and no if the column's name shows their meaning."""
    words = re.findall(r"(?:^(?:is|has))?(timed[\W_]?out|[a-z]+)", name)
    said = (_NAMED_GOOD | _NAMED_BAD | _NOT).intersection(words)
    if said and words[-1] in said:
        if said <= _NAMED_GOOD:
            return _FAILED | _NO, _FINE | _YES
        if said <= _NAMED_BAD:
            return _FAILED | _YES, _FINE | _NO
    return _FAILED, _FINE


def _says_nothing(word: str, name: str) -> bool:
    if _ALL.fullmatch(word):  # 8/8
        return name not in ("fail", "failed", *_ERRORS)
    number = _number(word)
    # A number such as 0.02 in a column "error" is a deviation.
    return name in _ERRORS and number is not None and not (number and number.is_integer())


def _is_finite(word: str) -> bool:
    number = _number(word)
    return number is not None and math.isfinite(number)


def _number(word: str) -> float | None:
    try:
        return float(word)
    except ValueError:
        return None
