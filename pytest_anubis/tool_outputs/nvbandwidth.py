"""Output of NVIDIA's nvbandwidth: JSON (``-j``, from 0.5 on) and text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pytest_anubis.codec import CodecError, from_plain, parse_json
from pytest_anubis.core.field_types import Alias, NotNegative
from pytest_anubis.tool_outputs.unreadable import UnreadableOutput, number, shown

TOOL = "nvbandwidth"
Unit = Literal["GB/s", "ns"]

_UNIT = re.compile(r"\((GB/s|ns)\)\s*$")
_NOTHING = "N/A"
_PARTS = {"_read_": ("read1", "read2", "total"), "_write_": ("write1", "write2", "total")}
"""What is in a case's name -> its matrices, where it copies between two cards in both directions."""
_VERSION = "nvbandwidth Version:"
_RUNNING, _SUM, _WAIVED = "Running ", "SUM ", "Waived"
_ROUNDING = 0.006
"""Of a cell in the text, which has two decimals; in JSON cells have six significant digits."""
_DIGITS = 1e-5


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One test case that ran.

    Attributes:
        name: E.g. ``host_to_device_memcpy_ce``.
        unit: ``GB/s``, or ``ns`` for latencies.
        cells: Of its matrix, those that are numbers, row by row: one for each device or pair.
        total: Their sum, as the tool says.
        places: Row and column of each cell.
        rows: How many rows the matrix has.
        part: Which of the three matrices of a copy in both directions, e.g. ``read1`` or ``total``; it ends
            the name. Of other cases empty.
    """

    name: str
    unit: Unit
    cells: tuple[float, ...]
    total: float
    places: tuple[tuple[int, int], ...] = ()
    rows: int = 1
    part: str = ""

    @property
    def worst(self) -> float:
        """The slowest device or pair."""
        return max(self.cells) if self.unit == "ns" else min(self.cells)


@dataclass(frozen=True, slots=True, kw_only=True)
class NvbandwidthRun:
    """What one run measured.

    Attributes:
        version: As the tool says it, e.g. ``v0.6``; empty if it does not.
        cases: Those that ran.
        waived: How many do not apply to this machine, as the tool found.
        failures: What went wrong, one line each.
    """

    version: str
    cases: tuple[Case, ...]
    waived: int
    failures: tuple[str, ...]


def read_nvbandwidth(text: str) -> NvbandwidthRun:
    """Read what one run printed.

    Raises:
        UnreadableOutput: It is neither form, no case ran, or a matrix and its sum do not fit.
    """
    run = _read_json(text) if text.lstrip().startswith("{") else _read_text(text)
    if not run.cases and not run.failures:
        raise UnreadableOutput(TOOL, "no test case ran")
    return run


@dataclass(frozen=True, slots=True)
class _Case:
    name: str
    status: str
    bandwidth_description: str = ""
    bandwidth_matrix: tuple[tuple[str, ...], ...] = ()
    sum: NotNegative = 0.0
    error: str = ""


@dataclass(frozen=True, slots=True)
class _Body:
    version: str = ""
    testcases: tuple[_Case, ...] = ()
    error: str = ""


@dataclass(frozen=True, slots=True)
class _Output:
    body: Annotated[_Body, Alias("nvbandwidth")] = field(default_factory=_Body)


def _read_json(text: str) -> NvbandwidthRun:
    try:
        data: Mapping[str, Any] = parse_json(text)
        body = from_plain(_Output, data, unknown="ignore").body
    except CodecError as error:
        raise UnreadableOutput(TOOL, str(error)[:200]) from None
    cases, failures, waived = [], [body.error] if body.error else [], 0
    for case in body.testcases:
        if case.status == "Waived":
            waived += 1
        elif case.status != "Passed" or case.error:
            failures.append(f"{case.name}: {case.status} {case.error}".strip())
        else:
            cases += _json_cases(case)
    return NvbandwidthRun(
        version=body.version, cases=tuple(cases), waived=waived, failures=tuple(failures)
    )


def _json_cases(case: _Case) -> list[Case]:
    """Return the matrices of one case: three in one array, of which the last sum is told, or one."""
    rows = [_cells(row, case.name) for row in case.bandwidth_matrix]
    parts = _parts(case.name)
    if not parts or "Total" not in case.bandwidth_description or len(rows) % len(parts):
        made = [_case(case.name, case.bandwidth_description, rows, case.sum)]
    else:
        high = len(rows) // len(parts)
        made = []
        for number, part in enumerate(parts):
            own = rows[number * high : (number + 1) * high]
            total = (
                case.sum
                if part == parts[-1]
                else sum(c for row in own for c in row if c is not None)
            )
            made.append(_case(case.name, case.bandwidth_description, own, total, part))
    _check(made[-1], sum(_DIGITS * cell for cell in made[-1].cells))
    return made


def _parts(name: str) -> tuple[str, ...]:
    """Return what the matrices of a case are called, if it has several."""
    if "bidirectional" not in name:
        return ()
    return next((parts for word, parts in _PARTS.items() if word in name), ())


def _read_text(text: str) -> NvbandwidthRun:
    version, waived, name = "", 0, ""
    cases, failures = [], []
    lines = iter(text.split("\n"))
    for line in lines:
        if line.startswith(_VERSION):
            version = line[len(_VERSION) :].strip()
        elif line.startswith(_WAIVED):
            waived += 1
        elif "error" in line.lower():
            failures.append(line.strip()[:200])
        elif line.startswith(_RUNNING):
            name = line[len(_RUNNING) :].strip().removesuffix(".")
            cases.append(_text_case(name, next(lines, ""), lines))
        elif _parts(name) and _UNIT.search(line[-40:]):  # the next matrix of the same case
            cases.append(_text_case(name, line, lines))
        elif line.startswith(_SUM):
            raise UnreadableOutput(TOOL, f"a sum without its matrix: {shown(line)}")
    return NvbandwidthRun(
        version=version, cases=tuple(cases), waived=waived, failures=tuple(failures)
    )


def _text_case(name: str, description: str, lines: Iterator[str]) -> Case:
    """Read the column numbers of a matrix, its rows and its sum, which stand in this order."""
    columns = next(lines, "").split()
    rows: list[list[float | None]] = []
    for line in lines:
        words = line.split()
        if not words:
            continue
        if line.startswith(_SUM):
            part = next((p for p in _parts(name) if words[1:2] == [f"{name}_{p}"]), "")
            if len(words) != 3 or not (part or words[1] == name):
                raise UnreadableOutput(TOOL, f"{name}: its sum is missing: {shown(line)}")
            total = number(words[2], TOOL, f"sum of {name}")
            case = _case(name, description, rows, total, part)
            _check(case, _ROUNDING * (len(case.cells) + 1))
            return case
        if words[0] != str(len(rows)) or len(words) != len(columns) + 1:
            raise UnreadableOutput(TOOL, f"{name}: no row of its matrix: {shown(line)}")
        rows.append(_cells(words[1:], name))
    raise UnreadableOutput(TOOL, f"{name}: cut off")


def _cells(words: Sequence[str], name: str) -> list[float | None]:
    return [None if word == _NOTHING else number(word, TOOL, f"matrix of {name}") for word in words]


def _case(
    name: str,
    description: str,
    rows: Sequence[Sequence[float | None]],
    total: float,
    part: str = "",
) -> Case:
    unit = _UNIT.search(description[-40:])
    if unit is None:
        raise UnreadableOutput(TOOL, f"{name}: no unit in {shown(description)}")
    found = {
        (i, j): cell for i, row in enumerate(rows) for j, cell in enumerate(row) if cell is not None
    }
    if not found:
        raise UnreadableOutput(TOOL, f"{name}: an empty matrix")
    return Case(
        name=f"{name}_{part}" if part else name,
        unit="ns" if unit[1] == "ns" else "GB/s",
        cells=tuple(found.values()),
        total=total,
        places=tuple(found),
        rows=len(rows),
        part=part,
    )


def _check(case: Case, rounding: float) -> None:
    if abs(sum(case.cells) - case.total) > rounding:
        raise UnreadableOutput(TOOL, f"{case.name}: the sum is not that of the matrix")
