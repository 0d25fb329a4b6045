"""Read the output of NVIDIA's nvbandwidth: JSON (``-j``, since 0.5) and text.

`read_nvbandwidth` is for the benchmark and refuses an output with a case that cannot be read;
`scan_nvbandwidth` is for the importer and reads the others. `nvbandwidth_matrices` and `suites/tools/` use
it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from pytest_anubis.codec import CodecError, from_plain
from pytest_anubis.core.field_types import NotNegative
from pytest_anubis.tool_outputs.plain_lines import json_objects, lines_around, tool_lines
from pytest_anubis.tool_outputs.unreadable import UnreadableOutput, count, number, shown

TOOL = "nvbandwidth"
Unit = Literal["GB/s", "ns"]

_UNIT = re.compile(r"\((GB/s|ns)\)\s*$|\b(BW)\s*$")
"""Ends a description; the one without a unit is a bandwidth too."""
_PAIR = re.compile(r"([0-9]{1,4})->\s*([0-9]{1,4})\s+(\S.*)")
"""A row of one value, which names sender and receiver."""
_BISECT = "_bisect_"
"""Part of the name of a case in which each card writes to one other, all at once."""
_NOTHING = "N/A"
_PARTS = {"_read_": ("read1", "read2", "total"), "_write_": ("write1", "write2", "total")}
"""Part of a case's name -> its matrices, for copies between two cards in both directions."""
_VERSION = "nvbandwidth Version:"
_MARK = re.compile(r"nvbandwidth Version:|Running [a-z]+_\w{1,100}\.$")
_RUNNING = re.compile(r"Running (\w{1,100})\.?")
_LAST = "NOTE: The reported results"
"""Begins the last line of a run, in versions that have one."""
_SUM = "SUM "
_WAIVED = "waived"
_FAILED = re.compile(  # its own words; other programs' lines hold the word "error" too
    r"^\[(?:CUDA_ERROR|cudaError)\w{0,60}\]|^NVML_ERROR|^ASSERT in|^error\b(?!: ld\.so)|"
    r"^invalid value when checking",
    re.IGNORECASE,
)
_NO_CASE = re.compile(r"^error: testcase .{1,200} (?:not found|out of bound)", re.IGNORECASE)
"""Names a case that was asked for by a wrong name, which says nothing about the case before."""
_NOT_FOUND = "ERROR"
"""Status of such a case in JSON; of one that failed it is ``Error``."""
_RUNNING_STATUS = "Running"
_SMALL = re.compile(
    r"chosen a buffer size that is smaller than the default(?: buffer size)?"
    r"(?:.{0,120}?\((\d{1,6} ?[kKMG]i?B)\))?"
)
"""The only trace that option ``--bufferSize`` leaves in an output, and the default."""
_NOT_RUN = "Not Found"
"""Status of a case that this version does not have."""
_TEXT_ROUNDING = 0.006
"""Of a cell in the text form, which has two decimals."""
_JSON_ROUNDING = 1e-5
"""Relative, of a cell in JSON, which has six significant digits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One test case that ran."""

    name: str  # E.g. ``host_to_device_memcpy_ce``.
    unit: Unit  # ``GB/s``, or ``ns`` for latencies
    cells: tuple[float, ...]  # the numbers in its matrix, row by row: one for each device or pair
    total: float  # their sum as the tool prints it
    places: tuple[tuple[int, int], ...] = ()  # row and column of each cell
    rows: int = 1
    # Which of the three matrices of a copy in both directions, e.g. ``read1`` or ``total``, with
    # which the name ends; empty for other cases.
    part: str = ""
    # That its run had buffers below the default size, and which; empty for other runs
    group: str = ""

    @property
    def worst(self) -> float:
        """The slowest device or pair."""
        return max(self.cells) if self.unit == "ns" else min(self.cells)


@dataclass(slots=True)
class NvbandwidthRun:
    """The results of one run, or of several in one output."""

    version: str = ""  # The tool's version, e.g. ``v0.6``; empty if it is unknown.
    cases: list[Case] = field(default_factory=list)
    # Case and failure; an empty case means all of them
    failures: list[tuple[str, str]] = field(default_factory=list)
    # Parts of the output that cannot be read, one line each: a truncated case, an unknown form
    unread: list[str] = field(default_factory=list)


def read_nvbandwidth(text: str) -> NvbandwidthRun:
    """Read the output of one run.

    Raises:
        UnreadableOutput: It has neither form, no case ran, a case was cut off, or a matrix does not match its
            sum.
    """
    run = scan_nvbandwidth(text)
    for what in run.unread:
        raise UnreadableOutput(TOOL, what)
    return run


def scan_nvbandwidth(text: str) -> NvbandwidthRun:
    """Read the output of one run; a case that cannot be read does not affect the others.

    Raises:
        UnreadableOutput: It has neither form, or no case ran.
    """
    run, has_json = NvbandwidthRun(), False
    for _, data in json_objects(text, TOOL, frozenset(("nvbandwidth",)), unique=True):
        has_json = True
        _read_json(data, run)
    if has_json:
        around = (line for _, line in lines_around(text) if _FAILED.search(line))
        run.failures += [("", line[:200]) for line in around]
    else:
        _read_text(text, run)
    if not run.cases and not run.failures:
        raise UnreadableOutput(TOOL, run.unread[0] if run.unread else "no test case ran")
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
    warning: Any = ""


def _read_json(printed: Mapping[str, object], run: NvbandwidthRun) -> None:
    try:
        body = from_plain(_Body, printed["nvbandwidth"], unknown="ignore")
    except CodecError as error:
        raise UnreadableOutput(TOOL, str(error)[:200]) from None
    run.version = run.version or body.version
    group = _group(f"{body.warning}")
    later: set[str] = set()
    running = ""
    for case in reversed(body.testcases):  # a case that failed has a second entry
        if case.status == _RUNNING_STATUS and not case.error and case.name not in later:
            if body.error:
                running = running or case.name
            else:
                run.unread.append(f"{case.name}: cut off: it still ran")
        later.add(case.name)
    if body.error:
        run.failures.append((running, body.error))
    for case in body.testcases:
        if case.status == _RUNNING_STATUS and not case.error:
            continue
        if case.status == _NOT_FOUND:
            run.failures.append(("", f"{case.name}: {case.status} {case.error}".strip()))
        elif case.status == _NOT_RUN:
            run.unread.append(f"{case.name}: this version does not have it")
        elif case.status == "Passed" and not case.error:
            try:
                run.cases += [replace(one, group=group) for one in _json_cases(case)]
            except UnreadableOutput as error:
                run.unread.append(error.what)
        elif case.status == "Error" or case.error:
            run.failures.append((case.name, f"{case.status} {case.error}".strip()))
        elif case.status != "Waived":
            run.unread.append(f"{case.name}: unknown status {shown(case.status)}")


def _group(text: str) -> str:
    """Return the group of the cases of a run with this warning; empty if it has none on its buffers."""
    small = _SMALL.search(text)
    return f"buffer below {small[1] or 'the default'}" if small else ""


def _json_cases(case: _Case) -> list[Case]:
    """Return the matrices of one case: one, or three in one array with the sum of the last."""
    rows = [dict(enumerate(_cells(row, case.name))) for row in case.bandwidth_matrix]
    if _BISECT in case.name and all(len(row) == 1 for row in rows):
        half = len(rows) // 2
        rows = [{(i + half) % len(rows): row[0]} for i, row in enumerate(rows)]
    about = case.bandwidth_description
    parts = parts_of(case.name)
    if not parts or "Total" not in about or len(rows) % len(parts):
        parts = ("",)
    high = len(rows) // len(parts)
    made = []
    for place, part in enumerate(parts):
        own = dict(enumerate(rows[place * high : (place + 1) * high]))
        total = sum(cell for row in own.values() for cell in row.values() if cell is not None)
        made.append(_case(case.name, about, own, case.sum if part == parts[-1] else total, part))
    _check(made[-1], sum(_JSON_ROUNDING * cell for cell in made[-1].cells))
    return made


def parts_of(name: str) -> tuple[str, ...]:
    """Return the names of the matrices of a case, if it has several."""
    if "bidirectional" not in name:
        return ()
    return next((parts for word, parts in _PARTS.items() if word in name), ())


def _read_text(text: str, run: NvbandwidthRun) -> None:
    blocks = [_Block()]  # the lines before the first case
    group = ""
    ahead = ""  # a warning that the run of the next version line printed before it
    ended: dict[int, bool] = {}  # line on which a run begins -> whether its closing note is there
    for place, printed in enumerate(tool_lines(text, TOOL, _MARK), start=1):
        line = printed.strip()
        if line.startswith(_VERSION):
            run.version = line[len(_VERSION) :].strip()
            ended[place] = False
            group, ahead = ahead, ""
            blocks[-1].closed = True
        elif small := _group(line):
            begun = bool(blocks[-1].name) and not blocks[-1].closed
            if begun or not ended:
                ahead = small
            if not begun:
                group = small
        elif ended and line.startswith(_LAST):
            ended[max(ended)] = True
        elif found := _RUNNING.fullmatch(line):
            blocks.append(_Block(found[1], place, group))
            ahead = ""
        else:
            blocks[-1].lines.append(line)
    # Versions without the note have it in no run, and a run by itself lacks cases if it was cut off.
    cut = [place for place, whole in ended.items() if not whole] if any(ended.values()) else []
    run.unread += [f"the run that begins on line {place} lacks its end" for place in cut]
    for block in blocks:
        waived = any(line.lower().startswith(_WAIVED) for line in block.lines)
        run.failures += [("", line[:200]) for line in block.lines if _NO_CASE.search(line)]
        lines = [line for line in block.lines if not _NO_CASE.search(line)]
        summed = next((line for line in lines if line.startswith(_SUM)), "")
        failed = next((i for i, line in enumerate(lines) if _FAILED.search(line)), len(lines))
        whole: list[Case] = []
        try:
            if block.name and (summed or not waived):
                whole = _text_cases(block.name, lines[:failed])
            elif summed:
                raise UnreadableOutput(TOOL, f"a sum without its matrix: {shown(summed)}")
        except UnreadableOutput as error:
            if failed == len(lines):
                run.unread.append(f"{error.what} (from line {block.place})")
        run.cases += [replace(case, group=block.group) for case in whole]
        if failed < len(lines):  # after a whole case it is the run's
            run.failures.append(("" if whole else block.name, lines[failed][:200]))


@dataclass(slots=True)
class _Block:
    """The lines from one case's name to the next; `closed` if another run begins within."""

    name: str = ""
    place: int = 1
    group: str = ""
    lines: list[str] = field(default_factory=list)
    closed: bool = False


def _text_cases(name: str, lines: Sequence[str]) -> list[Case]:
    """Return the matrices of one case, each with a description, column numbers, rows, and a sum.

    Lines of other programs are skipped; the sum reveals a line that was wrongly taken or skipped.
    """
    made: list[Case] = []
    description = ""
    columns: list[int] = []
    rows: dict[int, dict[int, float | None]] = {}
    for line in lines:
        words = line.split()
        if line.startswith(_SUM):
            part = next((p for p in parts_of(name) if words[1:2] == [f"{name}_{p}"]), "")
            if len(words) != 3 or not (part or words[1] == name):
                raise UnreadableOutput(TOOL, f"{name}: its sum is missing: {shown(line)}")
            total = number(words[2], TOOL, f"sum of {name}")
            made.append(_case(name, description, rows, total, part))
            _check(made[-1], _TEXT_ROUNDING * (len(made[-1].cells) + 1))
            description = ""
            columns = []
            rows = {}
        elif _UNIT.search(line[-40:]):
            description = line
            columns = []
            rows = {}
        elif pair := _PAIR.fullmatch(line) if columns else None:
            row, column = int(pair[1]), int(pair[2])
            own = pair[3].split()
            if columns != [0] or row in rows or len(own) != 1:
                raise UnreadableOutput(TOOL, f"{name}: no row of its matrix: {shown(line)}")
            rows[row] = {column: _cells(own, name)[0]}
        elif columns and words and words[0].isdecimal():
            row = count(words[0], TOOL, f"{name}: a row")
            if len(words) != len(columns) + 1 or row in rows:
                raise UnreadableOutput(TOOL, f"{name}: no row of its matrix: {shown(line)}")
            rows[row] = dict(zip(columns, _cells(words[1:], name), strict=True))
        elif words and all(word.isdecimal() for word in words):
            columns = [count(word, TOOL, f"{name}: a column") for word in words]
    lacks = set(parts_of(name)) - {case.part for case in made}
    if description or not made or (made[0].part and lacks):
        raise UnreadableOutput(TOOL, f"{name}: cut off: its sum is missing")
    return made


def _cells(words: Sequence[str], name: str) -> list[float | None]:
    return [None if word == _NOTHING else number(word, TOOL, f"matrix of {name}") for word in words]


def _case(
    name: str,
    description: str,
    rows: Mapping[int, Mapping[int, float | None]],
    total: float,
    part: str = "",
) -> Case:
    unit = _UNIT.search(description[-40:])
    if unit is None:
        raise UnreadableOutput(TOOL, f"{name}: no unit in {shown(description)}")
    found = {
        (i, j): cell
        for i, row in rows.items()
        for j, cell in row.items()
        # The first version prints 0 for a card with itself.
        if cell is not None and (cell or i != j or "device_to_device" not in name)
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
