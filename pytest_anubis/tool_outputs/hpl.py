"""Read the output of HPL (``xhpl``): rate and residual of every system of equations that it solved.

Tests in `suites/tools/` use it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pytest_anubis.tool_outputs.plain_lines import tool_lines
from pytest_anubis.tool_outputs.unreadable import UnreadableOutput, count, number, shown

TOOL = "HPL"

_RULES = {  # end of a line with a count -> what is counted
    "tests completed and passed residual checks,": "passed",
    "tests completed and failed residual checks,": "failed",
    "tests skipped because of illegal input values.": "skipped",
}
_MARK = re.compile(r"HPLinpack \d|\|\|Ax-b\|\|_oo/")
_COLUMNS = frozenset(("T/V", "N", "Time", "Gflops"))
_VARIANT = re.compile(r"W[RC]\w{1,20}")
_RESIDUAL = "||Ax-b||"
_ROUNDING = 0.01
"""Relative: the time has two decimals and the rate five digits, so this is enough from a second on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Solved:
    """One system of equations."""

    variant: str  # HPL's code for how it was solved
    size: int  # its order
    seconds: float
    rate: float  # GFLOP/s
    residual: float  # the scaled residual
    passed: bool  # HPL accepts the residual


@dataclass(frozen=True, slots=True, kw_only=True)
class HplRun:
    """The results of one run."""

    version: str  # version of HPL; empty if it is unknown
    solved: tuple[Solved, ...]


def read_hpl(text: str) -> HplRun:
    """Read the output of one run.

    Raises:
        UnreadableOutput: It has no result, a result has no residual, the counts at the end are missing or do
            not match, or a rate does not match its time.
    """
    version = ""
    solved: list[Solved] = []
    waiting: dict[str, str] | None = None
    columns: list[str] = []
    counted: dict[str, int] = {}
    for place, line in enumerate(tool_lines(text, TOOL, _MARK), start=1):
        words = line.split()
        if line.startswith("HPLinpack ") and len(words) > 1:
            version = version or words[1]
        elif set(words) >= _COLUMNS:
            columns = words
        elif (
            columns
            and (cells := dict(zip(columns, words, strict=False))).keys() >= _COLUMNS
            and (_VARIANT.fullmatch(cells["T/V"]))
        ):
            if waiting is not None:
                raise UnreadableOutput(TOOL, f"line {place}: a result without a residual before")
            waiting = cells
        elif line.startswith(_RESIDUAL) and "...... " in line:
            if waiting is None:
                raise UnreadableOutput(TOOL, f"line {place}: a residual without a result")
            solved.append(_solved(waiting, words, f"line {place}"))
            waiting = None
        else:
            rule = next((rule for rule in _RULES if line.strip().endswith(rule)), None)
            if rule is not None:
                counted[_RULES[rule]] = count(words[0], TOOL, f"line {place}")
    if not solved or waiting is not None:
        raise UnreadableOutput(TOOL, "no result with a residual")
    passed = sum(one.passed for one in solved)
    if counted != {"passed": passed, "failed": len(solved) - passed, "skipped": 0}:
        raise UnreadableOutput(TOOL, f"the counts at its end are others: {counted}")
    return HplRun(version=version, solved=tuple(solved))


def _solved(cells: dict[str, str], residual: list[str], place: str) -> Solved:
    word = residual[-1]
    if word not in ("PASSED", "FAILED") or len(residual) < 3:
        raise UnreadableOutput(TOOL, f"{place}: neither PASSED nor FAILED: {shown(word)}")
    size = count(cells["N"], TOOL, f"{place}: N")
    seconds, rate = (number(cells[name], TOOL, f"{place}: {name}") for name in ("Time", "Gflops"))
    work = (2 / 3 * size + 3 / 2) * size * size  # as HPL counts
    # In addition half of the time's last decimal, since small systems take hundredths of a second.
    if abs(rate * 1e9 * seconds - work) > _ROUNDING * work + 0.006 * rate * 1e9:
        raise UnreadableOutput(TOOL, f"{place}: the rate is not operations / time")
    return Solved(
        variant=cells["T/V"],
        size=size,
        seconds=seconds,
        rate=rate,
        residual=number(residual[-3], TOOL, f"{place}: residual"),
        passed=word == "PASSED",
    )
