"""Read the output of nccl-tests and rccl-tests: one line per message size, out of place and in place.

`read_nccl_tests` is for the benchmark and refuses an output with a wrong line. `NcclLog` is for the importer:
it reads the log of one or several runs, and a wrong line does not affect the others.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from pytest_anubis.core.metric import Metric
from pytest_anubis.tool_outputs.plain_lines import tool_lines
from pytest_anubis.tool_outputs.unreadable import UnreadableOutput, count, number, shown

TOOL = "nccl-tests"
COLLECTIVES = (
    "all_reduce", "all_gather", "alltoall", "broadcast", "reduce_scatter", "reduce", "sendrecv",
    "gather", "scatter", "hypercube",
)  # fmt: skip

BANDWIDTH_FROM = 1 << 20
"""Bytes from which on the printed bandwidth has enough digits; below, the time is more precise."""

END = "Out of bounds values"
"""Words of the last line but one, in every version."""

_MARK = re.compile(
    r"#\s*(?=nThread:?\s|Collective test starting|[a-z]{1,6}-tests version |.{0,300}\bbusbw\b)"
)
_VERSION = re.compile(r"#\s*[nr]ccl-tests version (\S+)")
_STARTING = re.compile(r"#\s*Collective test starting:(?:\s+(\w+?)(?:_perf(?:_mpi)?)?)?\s*")
_CONCLUDED = re.compile(r"#\s*Collective test concluded:\s*(\w+?)_perf(?:_mpi)?\s*")
_OPTIONS = re.compile(r"#\s*nThread:?\s.*")
_OPTION = re.compile(r"(agg iters|graph|unalign): (\d{1,9})")
_USUAL = {"agg iters": "1", "graph": "0", "unalign": "0"}
_RANK = re.compile(
    r"#\s*Rank\s+(\d{1,7})\s+(?:Group\s+(\d{1,7})\s)?.{0,80}?\bon\s+(\S{1,255})\s+device\s.*"
)
_BANDWIDTH = re.compile(r"#\s*Avg bus bandwidth\s*:\s*(\S+)\s+FAILED\s*")
_COMMAND = re.compile(r"\b(\w+?)_perf(?:_mpi)?(?=\s+-|[\s'\"]*$)")
_FAILED = re.compile(r"\bTest (?:\w{1,9} )?failure\b")
_CRASHED = re.compile(r"Segmentation fault|\bunhandled \w{1,9} error\b")
"""Words that any program may print, so they count only within a run."""
_DATED = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")
_FIGURE = re.compile(r"-?[0-9]+(\.[0-9]+)?|N/A")
_WORDS = {
    "type": r"u?int(?:8|32|64)|half|float|double|bfloat16|f\w{0,3}8_?e\dm\d",
    "redop": r"[a-z]\w{0,20}",
    "root": r"-?\d{1,7}",
}
_NEEDED = ("size", "count", "type", "time", "algbw", "busbw", "#wrong")
_OTHER_NAMES = {"cputime": "time", "error": "#wrong"}
"""Other names of columns: time by the host's clock (-C), and the largest difference in old programs."""
_MAY_BE_BLANK = ("redop", "root")
"""Columns that old programs leave empty for collectives without them."""
_UNITS = frozenset(("(B)", "(elements)", "(us)", "(GB/s)", "(%)"))
_FIGURES = 6
"""Figures of a line of results: twice time and two bandwidths."""
_ROUNDING = 0.006
"""GB/s: half of the second decimal of a bandwidth, and a little for the rounding of the time."""
_MIN_ALGORITHM = 0.05
"""GB/s of algorithm bandwidth from which on rounding does not make the bus bandwidth 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Half:
    """The measurements of one size, out of place or in place."""

    time: float  # microseconds
    algorithm: float  # algorithm bandwidth in GB/s: size over time
    bus: float  # bus bandwidth in GB/s, which each link carried
    # Number of wrong elements, or the largest difference in old programs; None if not checked
    errors: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of results."""

    size: int  # bytes of the message
    halves: tuple[Half, ...]  # out of place and, mostly, in place
    # Unusual type, reduction, root and clock, for the metric's name; mostly empty
    variant: str = ""

    def metrics(self) -> Iterator[tuple[Metric, float, Half]]:
        """Yield bandwidths from 1 MiB on and times below, with names of their own for in place."""
        for suffix, half in zip(("", "_in_place"), self.halves, strict=False):
            name = f"{self.size}{self.variant}{suffix}"
            if self.size >= BANDWIDTH_FROM:
                yield Metric(name=f"busbw_{name}", unit="GB/s", better="higher"), half.bus, half
            else:
                yield Metric(name=f"time_{name}", unit="us", better="lower"), half.time, half


@dataclass(slots=True, kw_only=True)
class NcclRun:
    """One run of one program."""

    collective: str = ""  # name such as ``all_reduce``; empty if it is unknown
    version: str = ""  # version of nccl-tests; empty before 2.17
    rows: list[Row] = field(default_factory=list)
    failure: str = ""  # the failure that the program reports; empty without one
    place: int = 1  # line on which it begins
    ended: bool = False  # the last line of a whole output was there
    # The last column counts wrong elements; older programs print the largest difference, which is
    # seldom 0 for floating point
    counts_wrong: bool = False
    # Numbers of the ranks; empty if the log does not list them
    ranks: set[int] = field(default_factory=set)
    # Numbers of the communicators into which the ranks were split (``NCCL_TESTS_SPLIT``)
    groups: set[str] = field(default_factory=set)
    hosts: dict[str, None] = field(default_factory=dict)
    options: str = ""  # unusual options that change what is measured
    # The average bandwidth in GB/s that the program calls failed (``NCCL_TESTS_MIN_BW``)
    slow: str = ""

    @property
    def group(self) -> str:
        """What makes runs comparable: ranks, hosts, their groups, options, whether results were checked."""
        ranks = f"{len(self.ranks)} ranks" if self.ranks else ""
        hosts = f"{len(self.hosts)} hosts" if len(self.hosts) > 1 else ""
        groups = f"{len(self.groups)} groups" if len(self.groups) > 1 else ""
        # Some collectives have no result in place.
        unchecked = any(row.halves[0].errors is None for row in self.rows)
        checks = "results not checked" if unchecked else ""
        return ", ".join(filter(None, (ranks, hosts, groups, self.options, checks)))

    def wrong(self) -> dict[str, float]:
        """Return metric -> number of wrong elements, without zeros."""
        halves = ((m.name, half.errors) for row in self.rows for m, _, half in row.metrics())
        return {name: errors for name, errors in halves if errors}


class NcclLog:
    """The log of one or several runs, in which a wrong line does not affect the others.

    Attributes:
        wrong: Line -> its error.

    Raises:
        UnreadableOutput: Outputs of several processes are mixed.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.runs: list[NcclRun] = []
        self.wrong: dict[int, str] = {}
        self._named = ""
        self._failure = ""
        self._stage = 0
        self._columns: list[str] = []
        self._swapped = False
        lines = tool_lines(text, TOOL, _MARK)
        self.lines = len(lines) - (not lines[-1])
        for place, line in enumerate(lines, start=1):
            try:
                if line.lstrip().startswith("#"):
                    self._comment(place, line.strip())
                else:
                    self._other(line)
            except UnreadableOutput as error:
                self.wrong[place] = error.what
        if self._failure:  # no run began
            self.runs.append(NcclRun(collective=self._named, failure=self._failure))

    def _comment(self, place: int, line: str) -> None:
        if found := _VERSION.match(line):
            self._run(place, 1).version = found[1]
        elif found := _STARTING.fullmatch(line):
            run = self._run(place, 2)
            run.collective = found[1] or run.collective
        elif _OPTIONS.fullmatch(line):
            unusual = [
                f"{key} {number}" for key, number in _OPTION.findall(line) if _USUAL[key] != number
            ]
            self._run(place, 3).options = ", ".join(unusual)
        elif "busbw" in line.split():
            self._head(self._run(place, 4), line[1:].split())
        elif "out-of-place" in line and "in-place" in line:
            self._swapped = line.index("in-place") < line.index("out-of-place")
        elif "(B)" in line.split():
            if units := {word for word in line.split() if word.startswith("(")} - _UNITS:
                self._columns = []
                raise UnreadableOutput(
                    TOOL, f"unknown units in the head: {', '.join(sorted(units))}"
                )
        elif self.runs:
            self._summary(self.runs[-1], line)

    def _summary(self, run: NcclRun, line: str) -> None:
        if found := _RANK.fullmatch(line):
            run.ranks.add(int(found[1]))
            run.hosts[found[3]] = None
            run.groups.update(filter(None, (found[2],)))
        elif found := _CONCLUDED.fullmatch(line):
            run.collective = run.collective or found[1]
        elif found := _BANDWIDTH.fullmatch(line):
            run.slow = found[1]
        elif ":" in line and (END in line or "Bitwise mismatches" in line):  # else it was cut off
            run.ended = run.ended or END in line
            if "OK" not in line.split():
                run.failure = f"the program reports wrong results: {line[1:].strip()[:100]}"

    def _run(self, place: int, stage: int) -> NcclRun:
        """Return the run of a line of a head: a new one if the last run is past this stage."""
        if not self.runs or stage <= self._stage:
            self.runs.append(NcclRun(place=place, collective=self._named, failure=self._failure))
            self._named = self._failure = ""
            self._columns = []
            self._swapped = False
        self._stage = stage
        return self.runs[-1]

    def _head(self, run: NcclRun, names: list[str]) -> None:
        run.counts_wrong = "#wrong" in names
        columns = [_OTHER_NAMES.get(name, name) for name in names if name != "timestamp"]
        lacking = [name for name in _NEEDED if name not in columns]
        halves = {columns.count(name) for name in _NEEDED[3:]} - {0}
        if lacking or len(halves) > 1 or max(halves) > 2:
            what = f"uneven halves {' '.join(names)}"
            if lacking:
                what = f"no column {', '.join(lacking)}"
            raise UnreadableOutput(TOOL, f"{what} in the head")
        self._columns = ["cputime", *columns] if "cputime" in names else columns

    def _other(self, line: str) -> None:
        running = bool(self.runs) and not self.runs[-1].ended
        if _FAILED.search(line) or (running and _CRASHED.search(line)):
            failure = f"the program failed: {line.strip()[:100]}"
            if self.runs:
                self.runs[-1].failure = self.runs[-1].failure or failure
            else:
                self._failure = self._failure or failure
            return
        words = _DATED.sub("", line).split()
        if not _like_a_row(words):
            named = set(_COMMAND.findall(line))
            if named:
                self._named = named.pop() if len(named) == 1 else ""
            return
        if not self._columns:
            raise UnreadableOutput(
                TOOL, f"a line of results without its head: {shown(line.strip())}"
            )
        run = self.runs[-1]
        row = _row(self._columns, words)
        if self._swapped:
            row = replace(row, halves=row.halves[::-1])
        out = row.halves[0]
        if len(run.ranks) == 1 or (not out.bus and out.algorithm >= _MIN_ALGORITHM):
            raise UnreadableOutput(
                TOOL,
                "one rank alone, which has no bus bandwidth: start it with -g CARDS, or build it with MPI=1 "
                "and start it with mpirun",
            )
        run.rows.append(row)


def read_nccl_tests(text: str) -> NcclRun:
    """Read the output of one program that was run with checks (``-c 1``).

    Raises:
        UnreadableOutput: A line of results has an unknown form, wrong elements are not counted, a bandwidth
            is not size over time, or the end is missing.
    """
    log = NcclLog(text)
    for place, what in log.wrong.items():
        raise UnreadableOutput(TOOL, f"line {place}: {what}")
    if len(log.runs) != 1:
        what = f"{len(log.runs)} runs, one expected" if log.runs else "no line of results"
        raise UnreadableOutput(TOOL, what)
    run = log.runs[0]
    for row in run.rows:
        _check(row)
    if not run.failure:
        if not run.rows:
            raise UnreadableOutput(TOOL, "no line of results")
        if not run.counts_wrong:
            raise UnreadableOutput(TOOL, "no column #wrong: the version is too old to count errors")
        if not run.ended:
            raise UnreadableOutput(TOOL, f"the line '{END}' is missing at the end")
    return run


def _check(row: Row) -> None:
    if row.halves[0].errors is None:
        raise UnreadableOutput(TOOL, f"{row.size} bytes: the results were not checked")
    for half in row.halves:
        if row.size and not half.time:
            raise UnreadableOutput(TOOL, f"{row.size} bytes: a time of 0")
        expected = row.size / half.time / 1e3 if row.size else 0.0
        if abs(half.algorithm - expected) > _ROUNDING + 0.01 * expected:  # times have four digits
            raise UnreadableOutput(
                TOOL,
                f"{row.size} bytes: the bandwidth is not size / time: {half.algorithm}, {half.time}",
            )


def _like_a_row(words: Sequence[str]) -> bool:
    """Return whether words are a possibly damaged line of results: two numbers first, or mostly figures."""
    if len(words) >= 3 and words[0].isdecimal() and words[1].isdecimal():
        return True
    figures = sum(bool(_FIGURE.fullmatch(word)) for word in words)
    return figures >= _FIGURES and 3 * figures >= 2 * len(words)


def _row(columns: Sequence[str], words: Sequence[str]) -> Row:
    names = [name for name in columns if name != "cputime"]
    lacks = len(names) - len(words)
    if lacks:
        blank = _MAY_BE_BLANK[:lacks] if 0 < lacks <= len(_MAY_BE_BLANK) else ()
        names = [name for name in names if name not in blank]
    if len(names) != len(words):
        raise UnreadableOutput(
            TOOL, f"{len(words)} values, {len(names)} in the head: {shown(' '.join(words))}"
        )
    cells: dict[str, list[str]] = defaultdict(list)
    for name, word in zip(names, words, strict=True):
        cells[name].append(word)
    for name, rule in _WORDS.items():
        if name in cells and not re.fullmatch(rule, cells[name][0]):
            raise UnreadableOutput(TOOL, f"{name}: {shown(cells[name][0])} is none")
    count(cells["count"][0], TOOL, "count")
    usual = ("float", "sum", "none", "-1", "0", "")
    kind, reduction, root = (cells[name][0] if name in cells else "" for name in _WORDS)
    variant = [kind, reduction, f"root{root}" if root not in usual else ""]
    variant += ["cputime"] if "cputime" in columns else []
    return Row(
        size=count(cells["size"][0], TOOL, "size"),
        halves=tuple(_half(cells, place) for place in range(len(cells["busbw"]))),
        variant="".join(f"_{word}" for word in variant if word not in usual),
    )


def _half(cells: dict[str, list[str]], place: int) -> Half:
    errors = cells["#wrong"][place]
    return Half(
        time=number(cells["time"][place], TOOL, "time"),
        algorithm=number(cells["algbw"][place], TOOL, "algbw"),
        bus=number(cells["busbw"][place], TOOL, "busbw"),
        errors=None if errors in ("N/A", "n/a") else number(errors, TOOL, "errors"),
    )
