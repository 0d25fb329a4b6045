"""Read the output of McCalpin's STREAM, the program in C. Tests in `suites/tools/` use it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pytest_anubis.tool_outputs.plain_lines import tool_lines
from pytest_anubis.tool_outputs.unreadable import UnreadableOutput, count, number, shown

TOOL = "STREAM"
KERNELS = {"Copy": 2, "Scale": 2, "Add": 3, "Triad": 3}
"""Kernel -> number of arrays that a pass reads or writes."""

_ELEMENT = re.compile(
    r"This system uses (\d{1,2}) bytes per (?:array element|DOUBLE PRECISION word)\."
)
_ARRAY = re.compile(r"Array size = (\d{1,18})\b.{0,80}")
_VERSION = re.compile(r"STREAM version \$Revision: ([0-9.]{1,20}) \$")
_MARK = re.compile(r"STREAM version \$|Function\s.{0,200}Rate")
_COLUMN = re.compile(r"Function|(?:Best )?Rate \(?MB/s\)?|(?:Avg|Min|Max) time")
_ROUNDING = 0.01
"""Relative tolerance of rate times time; one unit of the time's last decimal comes in addition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRun:
    """The results of one run."""

    version: str
    array: int  # bytes of one of its three arrays
    rates: dict[str, float]  # kernel -> the best rate, in MB/s
    failure: str  # the error that it reports in its arrays; empty if they are right


def read_stream(text: str) -> StreamRun:
    """Read the output of one run.

    Raises:
        UnreadableOutput: A kernel, the arrays' size or the validation is missing, or a rate is not bytes over
            time.
    """
    lines = [line.strip() for line in tool_lines(text, TOOL, _MARK)]
    element, array, version = (
        next((found[1] for line in lines if (found := rule.fullmatch(line))), "")
        for rule in (_ELEMENT, _ARRAY, _VERSION)
    )
    size = count(element, TOOL, "bytes of an element") * count(array, TOOL, "array size")
    rates: dict[str, float] = {}
    columns: list[str] = []
    for line in lines:
        words = line.split()
        name = next((word[:-1] for word in words if word[-1] == ":" and word[:-1] in KERNELS), "")
        if "Function" in words and "Rate" in words:
            columns = ["Rate" if "Rate" in column else column for column in _COLUMN.findall(line)]
        elif name:
            if name in rates:
                raise UnreadableOutput(TOOL, f"{name} occurs twice")
            rates[name] = _rate(columns, words, KERNELS[name] * size, line)
    missing = [name for name in KERNELS if name not in rates]
    if missing:
        raise UnreadableOutput(TOOL, f"{', '.join(missing)} missing")
    failed = next((line for line in lines if line.startswith("Failed Validation")), "")
    if not failed and not any(line.startswith("Solution Validates") for line in lines):
        raise UnreadableOutput(TOOL, "no word about the solution")
    return StreamRun(version=version, array=size, rates=rates, failure=failed)


def _rate(columns: list[str], words: list[str], size: int, line: str) -> float:
    if len(words) != len(columns) or not {"Rate", "Min time"} <= set(columns):
        names = ", ".join(columns) or "no columns"
        raise UnreadableOutput(TOOL, f"{shown(line)}: no line of a kernel; its head has {names}")
    cells = dict(zip(columns, words, strict=True))
    rate, least = (number(cells[name], TOOL, shown(line)) for name in ("Rate", "Min time"))
    last = 10.0 ** -len(cells["Min time"].partition(".")[2])
    if abs(rate * 1e6 * least - size) > _ROUNDING * size + last * rate * 1e6:
        raise UnreadableOutput(TOOL, f"the rate is not bytes / time: {shown(line)}")
    return rate
