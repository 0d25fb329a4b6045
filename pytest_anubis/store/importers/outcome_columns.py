"""Recognise columns of tables that say in words whether a test failed, such as ``status`` or ``passed``.

`long_form` uses it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from pytest_anubis.store.importers.number_cells import NO_VALUE, number_of
from pytest_anubis.tool_outputs.failure_lines import failure_said

_FAILED = frozenset((
    "fail", "failed", "failure", "failures", "error", "errored", "timeout", "timed out", "timed_out",
    "timedout", "timed-out", "killed", "crash", "crashed", "crashes", "abort", "aborted", "ko", "nok", "bad",
    "unhealthy", "rejected", "unsuccessful", "not ok", "unreachable", "node_fail", "down", "incomplete",
    "unfinished", "broken", "hung", "interrupted", "invalid", "hang", "hangs", "stuck", "fault", "faulty",
    "mismatch", "mismatched", "wrong",
    "corrupt", "corrupted", "unverified", "unqualified", "disqualified", "✗", "✘", "❌",
    # Slurm's states; one that somebody cancelled says nothing of its node.
    "out_of_memory", "oom", "boot_fail", "deadline",
    # German.
    "nicht bestanden", "durchgefallen", "fehlgeschlagen", "fehler", "fehlerhaft", "defekt",
))  # fmt: skip
"""Words that mean that a test failed; at the end of a column's name, what a yes in it means."""
_PASSED = frozenset((
    "pass", "passed", "ok", "success", "succeeded", "successful", "complete", "completed", "done", "good",
    "fine", "healthy", "accepted", "finished", "valid", "verified", "qualified", "approved", "✓", "✔", "✅",
    "match", "matched", "matches", "bestanden", "erfolgreich", "in ordnung",
))  # fmt: skip
"""Words that mean that a test passed; at the end of a column's name, what a yes in it means."""
_BLANK = NO_VALUE | {"", "nan"}
_FINE = _PASSED | _BLANK
"""Words that mean no failure."""
_YES = frozenset(("true", "yes", "y", "t", "1", "ja", "wahr"))
_NO = frozenset(("false", "no", "n", "f", "0", "nein", "falsch"))
_DIGITS = frozenset(("0", "1"))
_MARKED = re.compile(r"([\[(<{*_|]*)\s*(.*?)\s*([\])>}*_|!.]*)")
"""A word between brackets or stars."""
_LONGEST = 200
"""Characters of a cell that may be a word with a remark."""
_CLOSING = str.maketrans("([{<", ")]}>")
_MORE = re.compile(r"(.+?)[\s*!]*[\[(](.*)[\])]\*?")
"""A word with more in brackets behind it."""
_HARMLESS = re.compile(r"\d[\d.:]* ?(?:ms|s|sec|seconds?|m|min|minutes?|h)|(\d+)/\1")
"""What may follow a word of success in brackets: a duration, or 8/8."""
_REMARKS = re.compile(
    r"(?:.*_)?(?:comment|remark|note|message|msg|reason|detail|info|err|stderr|log)s?"
)
"""Names of columns of free text about a row's test."""
_FAULT_COUNTS = re.compile(
    r"(?!.*(?<!un)correct)(?:.*_)?(?:errors|failures|mismatches|xids?|(?:error|failure|fault)_?count|failed_\w+s"
    r"|(?:status|exit|error)_?code)"
    r"(?:_count)?"
)
"""Names of columns that count faults, but corrected ones; they are read like ``errors``."""
_FAULT = re.compile(
    r"errors?|fail(?:ed|ures?|s)?|fatals?|mismatch(?:es|ed)?|wrong|uncorrect(?:ed|able)|crash(?:es|ed)?|timeouts?|hangs?"
    r"|hung|fehler|nans?|aborts?|killed|kills|oom|faults?|xids?|signal|err|errno|sdc|dbe|corruptions?|lost"
)
"""Words in names of columns that count faults, if most of their cells are 0."""
_FAULT_PHRASES = re.compile(
    r"out[\W_]?of[\W_]?(?:bounds|range|spec|tolerance)|(?<![a-z])oob(?![a-z])"
)
"""The same in several words."""
_PASS_FAIL = re.compile(r"(?<![a-z])p[\W_]?f(?![a-z])")
"""Names of columns of P and F."""
_NO_COUNT = frozenset(("s", "ms", "sec", "seconds", "rate", "ratio", "percent", "pct", "limit"))
"""Words in names of columns of another quantity."""
_ERRORS = ("error", "errors", "error_message", "exception")
_ERROR_TEXT = re.compile(r"(?:error|fail|failure)s?[\W_](?:cause|detail|message|msg|reason|text)s?")
"""Names of columns that say why a test failed; they are read like ``error_message``."""
_ERROR_CODES = ("err", "errs", "errno")
"""Columns whose numbers are error codes, also where most are not 0."""
_OUTCOME_ENDINGS = ("status", "state", "outcome", "verdict", "result")
"""Ends of names of columns of outcomes."""
_GOOD_IF_YES = (_FAILED | _NO, _FINE | _YES)
_BAD_IF_YES = (_FAILED | _YES, _FINE | _NO)
STATES = {
    **dict.fromkeys((*_OUTCOME_ENDINGS, "test_status"), (_FAILED | {"no", "false"}, _FINE | {"0"})),
    **dict.fromkeys(("pass", "passed", "success", "ok"), _GOOD_IF_YES),
    **dict.fromkeys(("fail", "failed", *_ERRORS), _BAD_IF_YES),
}
"""Column -> words that mean that the test failed, and words that mean that it did not."""
_RESULTS = ("result", "outcome", "verdict")
"""Columns that contain numbers in some tables, except in rows of failed tests."""
_ALL = re.compile(r"(?!0+/)(\d+)/\1")
_WHOLE = re.compile(r"^([01])\.0+$")
"""A yes or no of a column of numbers with a point."""
_NOT = frozenset(("not", "non", "nicht"))
"""Words that reverse the meaning of a name."""
_UNDONE = frozenset(("skipped", "cancelled", "canceled"))
"""Ends of names of which a yes means neither success nor failure."""
_OTHER_NOT = frozenset(("no", "without", "kein", "keine", "ohne"))
"""Words in names such as ``no_failed``, whose meaning is open."""
_NEARLY_ALL = 0.9
"""Share of a column's words that are outcomes, from which on it is a column of outcomes."""
MAX_WORDS = 1_000
"""Maximum number of different words in a column of outcomes without a known name; with more it is text."""


class Outcomes(NamedTuple):
    """The places of words that mean a failure, and of unknown ones, among the words of a column."""

    failed: list[int]  # words that mean that a test failed
    # Unknown words; among words of success also numbers and empty cells, among zeros empty cells
    unknown: list[int]


def outcomes(name: str, cells: Sequence[Any], counts: Sequence[int]) -> Outcomes | None:
    """Return the meaning of a column's words, its distinct cells; None if it is no column of outcomes.

    Columns of outcomes are those in `STATES`, those with a word of success or failure below a name that ends
    in one, and any other in which nearly all cells that are not empty are outcomes.
    """
    words = ["" if cell is None else _word(str(cell)) for cell in cells]
    name = "error_message" if _ERROR_TEXT.fullmatch(name) else name
    counting = name not in STATES and _counts_faults(name, words)
    if counting:
        zero = (_number(word) in (0.0, None) for word in words)
        none = sum(count for count, one in zip(counts, zero, strict=True) if one)
        name = "errors" if 2 * none >= sum(counts) or name in _ERROR_CODES else name
    fraction = any(_is_finite(word) and not float(word).is_integer() for word in words)
    if (counting or name not in _ERRORS) and not fraction:
        words = [_WHOLE.sub(r"\1", word) for word in words]
    bad, fine = STATES.get(name) or _meanings(name)
    named = name in STATES or "no" in bad | fine
    filled = [count * (word not in _BLANK) for word, count in zip(words, counts, strict=True)]
    good = _NO if name in _ERRORS else fine - _BLANK  # there an empty cell mostly means no error
    spoken = not (good - _DIGITS).isdisjoint(words)
    coded = name not in (*_RESULTS, *_ERRORS) and not (good & _DIGITS).isdisjoint(words)
    sure = fine - _DIGITS if spoken and name not in _ERRORS else fine
    if (spoken or coded) and (named or 2 * sum(filled) > sum(counts)):
        sure -= _BLANK
    known = [word in bad or word in sure or _says_nothing(word, name) for word in words]
    if name not in STATES:
        clear = sum(count for count, one in zip(filled, known, strict=True) if one)
        telling = ((bad | fine | (_YES if named else bad)) - _BLANK).intersection(words)
        certain = telling - _DIGITS if named else spoken and name.endswith(_OUTCOME_ENDINGS)
        if not telling or not (certain or clear >= _NEARLY_ALL * sum(filled)):
            return None
    elif name in _RESULTS:
        known = [
            not spoken if _is_finite(word) else one for one, word in zip(known, words, strict=True)
        ]
    if name == "pass" and sorted(words) == ["0", "1"] and len(set(counts)) == 1:
        return Outcomes(failed=[], unknown=[0, 1])  # it rather numbers the passes
    return Outcomes(
        failed=[place for place, word in enumerate(words) if word in bad],
        unknown=[place for place, one in enumerate(known) if not one],
    )


def _counts_faults(name: str, words: Sequence[str]) -> bool:
    """Return whether a column may count faults, by its name and the form of its words."""
    if _FAULT_COUNTS.fullmatch(name):
        return True
    parts = re.split(r"[\W_]+", name)
    other = _NO_COUNT | _NOT | _OTHER_NOT
    return (
        (any(map(_FAULT.fullmatch, parts)) or _FAULT_PHRASES.search(name) is not None)
        and other.isdisjoint(parts)
        and not any(part.startswith("correct") for part in parts)
        and all(word in _BLANK or _number(word) is not None for word in words)
    )


def failed_remarks(name: str, cells: Sequence[Any]) -> list[int]:
    """Return the places of cells that report a failure, in a column that is none of outcomes."""
    remarks = _REMARKS.fullmatch(name) is not None
    return [
        place
        for place, cell in enumerate(cells)
        if isinstance(cell, str) and failure_said(cell, of_node=remarks)
    ]


def return_code(cell: Any) -> tuple[float, bool]:
    """Return the return code that a cell means, NaN for none, and whether it is written in other words.

    Words of success are 0, all others -1, as are fractions.
    """
    try:
        number = number_of(cell)
    except (TypeError, ValueError, OverflowError):
        word = "" if cell is None else _word(str(cell))
        passed = word in _PASSED or word in ("0x0", "0:0")
        return (0.0 if passed else math.nan if word in _BLANK else -1.0), True
    if not math.isfinite(number):
        return (math.nan if math.isnan(number) else -1.0), False
    whole = -1.0 if 0 < abs(number) < 1 else max(-(2.0**31), min(2.0**31, round(number)))
    return whole, whole != number


def _meanings(name: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return the words of failure and of none, with yes and no if the column's name shows their meaning."""
    words = re.findall(r"(?:^(?:is|has|was|did))?(timed[\W_]?out|[a-z]+)", name)
    if words and words[-1] in _UNDONE:
        return _FAILED, _FINE | _NO
    if {"pass", "fail"}.issubset(words) or _PASS_FAIL.search(name):
        return _FAILED | _NO, _FINE | _YES | {"p"}
    said = (_PASSED | _FAILED - {"down"}).intersection(words)  # "cool_down"
    if said and words[-1] in said and _OTHER_NOT.isdisjoint(words):
        denied = sum(word in _NOT for word in words) % 2  # "not_passed"
        if said <= (_FAILED if denied else _PASSED):
            return _GOOD_IF_YES
        if said <= (_PASSED if denied else _FAILED):
            return _BAD_IF_YES
    return _FAILED, _FINE


def _word(cell: str) -> str:
    """Return a cell's word of success or failure without marks and what follows in brackets; else the cell.

    A star or a remark behind a word of success may take it back, so such a cell stays as it is.
    """
    text = cell.strip().lower()
    if text in _PASSED or text in _FAILED or not text or len(text) > _LONGEST:
        return text
    bare = text
    match = _MARKED.fullmatch(text)
    if match is not None:
        begin, bare, end = match.groups()
        if bare in _FAILED or (bare in _PASSED and begin.translate(_CLOSING)[::-1] == end):
            return bare
    more = _MORE.fullmatch(bare) or _MORE.fullmatch(text)
    if more is not None:
        word, remark = more.groups()
        word = word.strip("[](){}<>*_ ")
        harmless = word in _PASSED and "*" not in text and _HARMLESS.fullmatch(remark)
        if word in _FAILED or harmless:
            return str(word)
    return text


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
