"""Output of nccl-tests and rccl-tests: one line per message size, out of place and in place."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pytest_anubis.core.metric import Metric
from pytest_anubis.tool_outputs.unreadable import UnreadableOutput, count, number, shown

TOOL = "nccl-tests"
COLLECTIVES = (
    "all_reduce", "all_gather", "alltoall", "broadcast", "reduce_scatter", "reduce", "sendrecv",
    "gather", "scatter", "hypercube",
)  # fmt: skip

BANDWIDTH_FROM = 1 << 20
"""Bytes from which on the bandwidth is printed with enough digits; below it the time says more."""

END = "Out of bounds values"
"""What stands in the last line but one, in that of every version."""

_WORD = re.compile(r"\w+")
_PROGRAM = "_perf"
_STARTING = "# Collective test starting:"
_VERSION = "# nccl-tests version "
_TYPES = frozenset((
    *("int8", "uint8", "int32", "uint32", "int64", "uint64", "half", "float", "double", "bfloat16"),
    *("f8e4m3", "f8e5m2", "fp8_e4m3", "fp8_e5m2"),
))  # fmt: skip
_FIGURE = re.compile(r"[0-9]+(\.[0-9]+)?|N/A")
_FIGURES = 6
"""Of a line of results behind its type, at least: twice time and two bandwidths."""
_COLUMNS = 11
"""Of a line of results, at least: size, count, type, and twice time, two bandwidths and errors."""
_ROUNDING = 0.006
"""Bandwidths have two decimals: half of the last one, and a little for the time's own rounding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Half:
    """What was measured of one size, out of place or in place.

    Attributes:
        time: Microseconds.
        algorithm: Algorithm bandwidth in GB/s: size over time.
        bus: Bus bandwidth in GB/s: what each link carried.
        errors: What stands in the last column, None where nothing was checked: how many elements are wrong,
            of old programs the largest difference.
    """

    time: float
    algorithm: float
    bus: float
    errors: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of results.

    Attributes:
        size: Bytes of the message.
        halves: Out of place and in place.
    """

    size: int
    halves: tuple[Half, Half]

    def metrics(self) -> Iterator[tuple[Metric, float, Half]]:
        """Yield what counts of it: from 1 MiB on bandwidths, below it times; in place with an own name."""
        for suffix, half in zip(("", "_in_place"), self.halves, strict=True):
            if self.size >= BANDWIDTH_FROM:
                name = f"busbw_{self.size}{suffix}"
                yield Metric(name=name, unit="GB/s", better="higher"), half.bus, half
            else:
                name = f"time_{self.size}{suffix}"
                yield Metric(name=name, unit="us", better="lower"), half.time, half


class NcclLog:
    """Reads a log line by line, as an importer needs it: what is wrong with a line spoils no other.

    Attributes:
        collective: Name such as ``all_reduce``, empty until a line tells it.
        version: Of nccl-tests; before 2.17 the programs do not tell theirs.
        counts_wrong: The last column counts wrong elements; the older programs print the largest difference,
            which is seldom 0 for floating point.
        ended: The line that the program prints last was there.
        failure: What the program says went wrong; empty if nothing.
    """

    def __init__(self) -> None:
        self.collective = ""
        self.version = ""
        self.counts_wrong = False
        self.ended = False
        self.failure = ""

    def take(self, line: str) -> Row | None:
        """Take one line; return its results if it is a line of results.

        Raises:
            UnreadableOutput: It looks like one and is none.
        """
        if line.lstrip().startswith("#"):
            self.counts_wrong = self.counts_wrong or "#wrong" in line
            self.collective = self.collective or _named(line)
            if line.startswith(_VERSION):
                self.version = self.version or next(iter(line[len(_VERSION) :].split()), "")
            if END in line:
                self.ended = True
                if "OK" not in line:
                    self.failure = "the program reports wrong results (out of bounds values)"
            return None
        if "Test NCCL failure" in line or "Test CUDA failure" in line:
            self.failure = f"the program failed: {line.strip()[:100]}"
            return None
        words = line.split()
        if len(words) < 3 or not (words[0].isdecimal() and words[1].isdecimal()):
            if _almost_a_row(words):
                raise UnreadableOutput(
                    TOOL, f"a line of results without its size: {shown(line.strip())}"
                )
            return None
        if len(words) < _COLUMNS:
            raise UnreadableOutput(TOOL, f"{len(words)} columns, at least {_COLUMNS} expected")
        size = count(words[0], TOOL, "size")
        return Row(size=size, halves=(_half(words[-8:-4]), _half(words[-4:])))


@dataclass(frozen=True, slots=True, kw_only=True)
class NcclRun:
    """What one run of one program measured.

    Attributes:
        collective: Name such as ``all_reduce``; empty where the log does not tell.
        version: Of nccl-tests, empty where it does not tell.
        rows: In the order of the log.
        failure: What the program says went wrong; empty if nothing.
    """

    collective: str
    version: str
    rows: tuple[Row, ...]
    failure: str

    def wrong(self) -> dict[str, float]:
        """Return how many elements are wrong, by metric; only those of which some are."""
        halves = ((m.name, half.errors) for row in self.rows for m, _, half in row.metrics())
        return {name: errors for name, errors in halves if errors}


def read_nccl_tests(text: str) -> NcclRun:
    """Read what one program printed that was run with checks (``-c 1``).

    Raises:
        UnreadableOutput: A line of results is not as it should be, wrong elements are not counted, columns do
            not mean what they should (the bandwidth is not size over time), or the end is missing.
    """
    log = NcclLog()
    rows: list[Row] = []
    for place, line in enumerate(text.split("\n"), start=1):
        try:
            row = log.take(line)
        except UnreadableOutput as error:
            raise UnreadableOutput(TOOL, f"line {place}: {error.what}") from None
        if row is None:
            continue
        _check(row, f"line {place}", shown(line.strip()))
        rows.append(row)
    if not log.failure:
        if not rows:
            raise UnreadableOutput(TOOL, "no line of results")
        if not log.counts_wrong:
            raise UnreadableOutput(TOOL, "no column #wrong: the version is too old to count errors")
        if not log.ended:
            raise UnreadableOutput(TOOL, f"the line '{END}' is missing at the end")
    return NcclRun(
        collective=log.collective, version=log.version, rows=tuple(rows), failure=log.failure
    )


def _check(row: Row, place: str, line: str) -> None:
    if row.halves[0].errors is None:
        raise UnreadableOutput(TOOL, f"{place}: the results were not checked: {line}")
    for half in row.halves:
        if row.size and not half.time:
            raise UnreadableOutput(TOOL, f"{place}: a time of 0: {line}")
        expected = row.size / half.time / 1e3 if row.size else 0.0
        if abs(half.algorithm - expected) > _ROUNDING + 0.01 * expected:  # times have four digits
            raise UnreadableOutput(TOOL, f"{place}: the bandwidth is not size / time: {line}")


def _almost_a_row(words: Sequence[str]) -> bool:
    """Say whether words are those of a line of results whose beginning was lost: a type, then figures."""
    place = next((n for n, word in enumerate(words) if word in _TYPES), len(words))
    return sum(bool(_FIGURE.fullmatch(word)) for word in words[place:]) >= _FIGURES


def _named(line: str) -> str:
    """Return the collective that a line of the head names, empty if it names none."""
    if _STARTING in line:
        words = line.partition(_STARTING)[2].split()
        return words[0].removesuffix(_PROGRAM) if len(words) == 1 else ""
    programs = (word for word in _WORD.findall(line) if word.endswith(_PROGRAM))
    return next(programs, "").removesuffix(_PROGRAM)


def _half(words: Sequence[str]) -> Half:
    time, algorithm, bus, errors = words
    return Half(
        time=number(time, TOOL, "time"),
        algorithm=number(algorithm, TOOL, "algbw"),
        bus=number(bus, TOOL, "busbw"),
        errors=None if errors in ("N/A", "n/a") else number(errors, TOOL, "errors"),
    )
