"""What importers share: the result (`Imported`), the collector of one node's samples, reading of files."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, NotRequired, TypedDict, TypeVar, Unpack

from pytest_anubis.codec import CodecError, read_bytes
from pytest_anubis.codec.foreign_text import decoded, open_text
from pytest_anubis.codec.input_limits import LARGEST_DATA, LARGEST_JSON, most_bytes, too_large
from pytest_anubis.core.gather import Gather
from pytest_anubis.core.metric import Metric
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.sample import Population, SampleProblem
from pytest_anubis.store.importers.lost_cells import LostCells, lost_of_populations
from pytest_anubis.tool_outputs.failure_lines import failure_said
from pytest_anubis.tool_outputs.plain_lines import lines_around
from pytest_anubis.tool_outputs.unreadable import UnreadableOutput

T = TypeVar("T")

Progress = Callable[[str], None]

UNCLASSIFIED = "unclassified"
IMPORTS_FOLDER = "imports"

RETURN_CODE = "return_code"
"""Metric of a benchmark that failed before it measured anything: whether it came to its end."""

_ENDINGS = re.compile(
    r"(\.(csv|tsv|psv|txt|log|out|dat|json|jsonl|ndjson|parquet|pq|xlsx?|npz|gz|bz2|xz|zst|zip))+$",
    re.IGNORECASE,
)
_JSON = re.compile(r"\{\s*\"")
_MAX_LINES_LISTED = 1000
_MAX_RENAMED = 4
"""Second names of nodes that are listed."""
_NO_TEXT = "\ufffd"
"""Replacement of invalid characters, as in decoding."""


class ImportFileError(ValueError):
    """A file cannot be imported at all; the message is one line for people."""


class DoubleImportError(ValueError):
    """A copy of this file was imported before; the message is one line for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrongLine:
    """One line (or key) that was left out."""

    line: int  # its number, from 1; 0 for a file without meaningful lines
    text: str  # the error and how to fix it
    first: bool = False  # it is the first one with its cause

    def __str__(self) -> str:
        return f"line {self.line}: {self.text}" if self.line else self.text


class WrongLines:
    """A list of wrong lines: the first thousand, and counts of all."""

    def __init__(self) -> None:
        self.lines: list[WrongLine] = []
        self.count = 0
        self.causes: Counter[str] = Counter()
        self.nodes: Counter[str] = Counter()

    def add(self, line: int, text: str, cause: str = "", node: str = "") -> None:
        """Add a wrong line.

        Args:
            line: Its number, from 1; 0 if lines have no meaning.
            text: The error.
            cause: The error without details of this line; one of few, of which the first line is always kept.
            node: The node that it is about, if it is known. Unprintable characters become U+FFFD, so that the
                node still counts.
        """
        self.count += 1
        self.causes[cause] += 1
        name = "".join(c if c.isprintable() else _NO_TEXT for c in node)
        self.nodes[name if name.strip(_NO_TEXT) else ""] += 1
        if self.count <= _MAX_LINES_LISTED or (cause and self.causes[cause] == 1):
            self.lines.append(WrongLine(line=line, text=text, first=self.causes[cause] == 1))

    def rename(self, names: Mapping[str, str]) -> None:
        """Charge the lines of nodes to other names of theirs; to none if the name is empty."""
        for name, other in names.items():
            if name in self.nodes:
                self.nodes[other] += self.nodes.pop(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """The samples of a file, and what could not be read."""

    source: Path
    # All samples, one population per hardware class, benchmark, metric and group
    populations: tuple[Population, ...]
    runs: tuple[RunRecord, ...]  # one per run and node in the file
    values: int  # number of values kept
    wrong: tuple[WrongLine, ...] = ()  # the first thousand wrong lines, and the first of each cause
    wrong_count: int = 0  # number of wrong lines
    notes: tuple[str, ...] = ()  # notes for the user, one line each
    left_out: int = 0  # number of values that were left out in good lines
    # Lines on parameters in unused columns, whose values were taken for repeats
    merged: tuple[str, ...] = ()
    # Hosts, named like the node, of runs in which it took no part, as the file's own lines say
    elsewhere: tuple[str, ...] = ()
    # Cause -> number of wrong lines; empty if causes are not distinguished
    causes: Mapping[str, int] = field(default_factory=dict)
    lost_cells: tuple[LostCells, ...] = ()  # cells that no verdict can be based on, by cause
    # The file has no dates, so its runs have the date on which it was written
    file_dated: bool = True

    @property
    def lost(self) -> int:
        """Number of lines, values and columns that could not be used: wrong, left out, or impossible.

        A failed test and an empty cell are information about a node, and do not count.
        """
        spoiled = sum(one.count for one in self.lost_cells if one.kind in ("unit", "invalid"))
        return self.wrong_count + self.left_out + spoiled + len(self.merged)

    def dated(self, moment: float) -> Imported:
        """Return the import with all of its runs at another moment, seconds since 1970."""
        when = datetime.fromtimestamp(moment, UTC).isoformat(timespec="seconds")
        runs = tuple(replace(run, started=when, ended=when, file_dated=False) for run in self.runs)
        return replace(self, runs=runs, file_dated=False)


class Unit(NamedTuple):
    """The identity of one sample within a node and run; `group` as of `Population.group`."""

    benchmark: str
    metric: Metric
    device: str
    group: str = ""


_CAME_TO_ITS_END = Metric(name=RETURN_CODE, unit="count", better="equal")


class Samples:
    """A collector of one node's values and problems from one output.

    Attributes:
        values: Unit -> values in time order; empty for a unit that has only a problem.
        problems: Unit -> why its values are not used.
        components: Benchmark -> the component that it exercises.
    """

    def __init__(self) -> None:
        self.values: dict[Unit, list[float]] = {}
        self.problems: dict[Unit, SampleProblem] = {}
        self.components: dict[str, str] = {}
        self.wrong = WrongLines()
        self.notes: list[str] = []
        self._failed: list[tuple[str, str, str, Metric]] = []

    def add(self, unit: Unit, *values: float) -> None:
        """Add values of a unit; also without values the unit is known."""
        self.values.setdefault(unit, []).extend(values)

    def problem(self, unit: Unit, kind: str, text: str) -> None:
        """Mark a unit as having no usable values."""
        self.add(unit)
        self.problems[unit] = SampleProblem(kind=kind, text=text)

    def fail(
        self, benchmark: str, device: str, text: str, metric: Metric = _CAME_TO_ITS_END
    ) -> None:
        """Add a benchmark that failed on a device before it measured anything, with the reason in one line.

        The metric is used if the output has no other of the benchmark.
        """
        self._failed.append((benchmark, device, text, metric))

    def finish(self) -> None:
        """Add the failed benchmarks to all known metrics of theirs, or to a metric of their own."""
        known = {(unit.benchmark, unit.metric, unit.group) for unit in self.values}
        for benchmark, device, text, usual in self._failed:
            own = [(metric, group) for one, metric, group in known if one == benchmark]
            for metric, group in own or [(usual, "")]:
                self.problem(Unit(benchmark, metric, device, group), "failed", text)


class OfNode(TypedDict):
    """The node, class and run of a tool's output, which does not name them."""

    node: str  # the node that it comes from
    hardware_class: NotRequired[str]  # the node's class; default: unclassified
    run: NotRequired[str]  # the run's id; default: the file's name


def runs_of(
    populations: tuple[Population, ...],
    started: str,
    dates: Mapping[tuple[str, str], tuple[str, str]] = MappingProxyType({}),
    traits: Mapping[tuple[str, str], Mapping[str, str]] = MappingProxyType({}),
    took: Mapping[tuple[str, str], Mapping[str, float]] = MappingProxyType({}),
    unread: Mapping[str, int] = MappingProxyType({}),
    run: str = "",
) -> tuple[RunRecord, ...]:
    """Return one run record for each run and node that occurs in populations or unread lines, sorted.

    Args:
        populations: The samples.
        started: The file's date, for runs without a better one.
        dates: (run, node) -> when it began and ended, if the file has dates.
        traits: (run, node) -> traits of the node in the file.
        took: (run, node) -> benchmark -> seconds.
        unread: Node -> number of lines about it that could not be read.
        run: Run of nodes with unread lines only.
    """
    found = {
        (run, node, population.hardware_class)
        for population in populations
        for run, node in set(zip(population.runs, population.nodes, strict=True))
    }
    read = {node for _, node, _ in found}
    classes = {name for _, _, name in found}
    if len(read | unread.keys() - {""}) == 1 == len(read):  # every line is about this node
        unread = dict.fromkeys(read, sum(unread.values()))
    for node in unread.keys() - read - {""}:
        found.add((run, node, min(classes) if len(classes) == 1 else UNCLASSIFIED))
    records = []
    for run, node, name in sorted(found):
        began, ended = dates.get((run, node), (started, started))
        records.append(
            RunRecord(
                run=run,
                node=node,
                hardware_class=name,
                started=began,
                ended=ended,
                traits=traits.get((run, node), {}),
                took=took.get((run, node), {}),
                file_dated=(run, node) not in dates,
                unread=unread.get(node, 0),
            )
        )
    return tuple(records)


def read_output(path: Path, reader: Callable[[str], T], fix: str = "") -> T:
    """Read a file with the reader of a tool's output.

    `fix` is advice on writing JSON, which is not for a file that has JSON or begins with a failure.

    Raises:
        ImportFileError: The file cannot be read, or its form is unknown to the reader.
    """
    text = read_text(path)
    try:
        return reader(text)
    except UnreadableOutput as error:
        _, first = next(lines_around(text), (0, ""))
        useless = _JSON.search(text) or failure_said(first)
        raise ImportFileError(
            f"{path}: {error}{f'; {fix}' if fix and not useless else ''}"
        ) from None


def refused_file(path: Path, *, node: str, run: str = "", hardware_class: str = "") -> Imported:
    """Return an empty import of a node's unreadable file, which shows that there was one."""
    name = run or run_name(path)
    key = hardware_class or UNCLASSIFIED
    date = file_date(path)
    record = RunRecord(run=name, node=node, hardware_class=key, started=date, ended=date, unread=1)
    return Imported(source=path, populations=(), runs=(record,), values=0)


def import_samples(
    path: Path, samples: Samples, component: str, **of_node: Unpack[OfNode]
) -> Imported:
    """Make an import of one node's samples from one tool's output.

    `component` is that of benchmarks whose component the samples do not have.
    """
    gather = Gather()
    node = of_node["node"]
    samples.finish()
    if not any(one.kind == "failed" for one in samples.problems.values()):  # else it failed anyway
        around = list(lines_around(read_text(path)))
        labels = sum(text.startswith(node) for _, text in around)
        # A name at the beginning of most lines is their label, not part of a message.
        named = {node} if labels <= max(4, len(around) // 2) else set()
        for number, text in around:
            if what := failure_said(text, named):
                samples.wrong.add(number, f"the output says that {what}: {text.strip()[:100]}")
    for unit, values in samples.values.items():
        gather.add(
            hardware_class=of_node.get("hardware_class", UNCLASSIFIED),
            benchmark=unit.benchmark,
            metric=unit.metric,
            component=samples.components.get(unit.benchmark, component),
            group=unit.group,
            node=node,
            device=unit.device,
            run=of_node.get("run") or run_name(path),
            values=() if unit in samples.problems else values,
            problem=samples.problems.get(unit),
        )
    populations = gather.populations()
    return Imported(
        source=path,
        populations=populations,
        runs=runs_of(populations, file_date(path), unread={node: samples.wrong.count}),
        values=sum(len(population.values) for population in populations),
        lost_cells=lost_of_populations(populations),
        wrong=tuple(samples.wrong.lines),
        wrong_count=samples.wrong.count,
        notes=tuple(samples.notes),
    )


def renamed_lines(kept: Mapping[str, str]) -> list[str]:
    """Return a line on each node that a file names in several ways, but the last of many."""
    lines = [
        f"{name[:40]} and {other[:40]} are taken for two names of one machine, {other[:40]} here: their rows "
        "are one node's"
        for name, other in sorted(kept.items())
    ]
    more = [f"{len(lines) - _MAX_RENAMED} more names are taken for others of one machine"]
    return lines if len(lines) <= _MAX_RENAMED else lines[:_MAX_RENAMED] + more


def run_name(path: Path) -> str:
    """Return the run id of an imported file: its name without endings of known forms."""
    return _ENDINGS.sub("", path.name) or "import"


def file_date(path: Path) -> str:
    """Return when the file was last written, ISO 8601, UTC; empty if that is unknown."""
    try:
        moment = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    except (OSError, OverflowError, ValueError):
        return ""
    return moment.isoformat(timespec="seconds")


def read_text(path: Path) -> str:
    """Read a whole text file; invalid UTF-8 is replaced.

    Raises:
        ImportFileError: It cannot be read, or is too large.
    """
    try:
        return decoded(read_bytes(path, largest=LARGEST_JSON))
    except CodecError as error:
        raise ImportFileError(f"{path}: {error}") from None
    except OSError as error:
        raise ImportFileError(f"{path}: cannot be read ({error.strerror})") from error


def read_lines(path: Path) -> Iterator[str]:
    """Yield the lines of a text file without their ends; invalid UTF-8 is replaced.

    Raises:
        ImportFileError: It cannot be read, or it or a line is too large; the message lacks the file's name.
    """
    try:
        most = most_bytes(LARGEST_DATA)
        longest = most_bytes(LARGEST_JSON)
        with open_text(path) as file:
            total = 0
            while line := file.readline(longest + 1):
                total += len(line)
                if len(line) > longest:
                    raise ImportFileError(too_large("a line is too long", longest))
                if total > most:
                    raise ImportFileError(too_large("too large", most))
                yield line.rstrip("\n")
    except CodecError as error:
        raise ImportFileError(str(error)) from None
    except OSError as error:
        raise ImportFileError(f"cannot be read ({error.strerror})") from error
