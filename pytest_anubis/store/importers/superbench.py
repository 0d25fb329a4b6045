"""Import SuperBench summaries: ``results-summary.jsonl``, one flat object per node.

A key has the form ``{benchmark}[:annotation]/[{run}/]{metric}[:{rank}]``, its value is a number. The file has
neither units nor directions, so both come from a map of known metrics, or from words in their names.

`collected_runs` uses it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_anubis.codec import CodecError, parse_json
from pytest_anubis.core.metric import Direction
from pytest_anubis.store.importers.grouping import group_rows
from pytest_anubis.store.importers.import_result import (
    RETURN_CODE,
    UNCLASSIFIED,
    Imported,
    ImportFileError,
    Progress,
    WrongLines,
    file_date,
    read_lines,
    renamed_lines,
    run_name,
    runs_of,
)
from pytest_anubis.store.importers.long_form import LongForm
from pytest_anubis.store.importers.lost_cells import MAX_COLUMN_SHOWN, UnitName, cut
from pytest_anubis.store.importers.metric_map import MetricMap, known_metrics
from pytest_anubis.store.importers.table_columns import MAX_NAME_LENGTH
from pytest_anubis.tool_outputs.failure_lines import named_in

# The first pattern that matches the metric's name, without rank and ignoring case, decides. Each takes linear
# time, since only one end is open, or it is tied to the beginning.
DIRECTIONS: tuple[tuple[str, str, Direction], ...] = (
    (r"steptime|step_time", "ms", "lower"),
    (r"throughput|samples_per_sec|_qps$|\bqps\b", "1/s", "higher"),
    (r"busbw|algbw", "GB/s", "higher"),
    (r"^ib_(write|read|send).*(avg|peak|bw)|^(?>.*?ib).*_bw", "MB/s", "higher"),
    (r"(^|_)bw($|_)|bandwidth|htod|dtoh|dtod|_by_(sm|dma)", "GB/s", "higher"),
    (r"iops", "op/s", "higher"),
    (r"^(fp|tf|bf|int)\d+|flops|tops$", "GFLOP/s", "higher"),
    (r"_(time)?_?lat(ency)?(_|$)|lat_ns|latency", "us", "lower"),
    (r"(event|wall)_(time|overhead)", "ms", "lower"),
    (r"^(allreduce|allgather|alltoall|broadcast|reduce|reducescatter|sendrecv).*_time", "us", "lower"),
    (r"cost|^(allreduce|allgather|nosharding)$", "ms", "lower"),
    (r"(_|^)time(_|$)|_s$|_ms$|duration", "ms", "lower"),
    (r"error|fail|mismatch|corrupt|uncorrected_ecc", "count", "equal"),
)  # fmt: skip

_KEY = re.compile(r"(?P<benchmark>.+?)/(?:(?P<run>\d+)/)?(?P<metric>[^/]+?)(?::(?P<rank>\d+))?")

_WHOLE = re.compile("-?[0-9]{1,9}")
_NODE = re.compile(r'"node"\s*:\s*"([^"\\]{1,200})"')
"""The node's name in a line that is not JSON, such as a truncated one."""

_COLUMNS = (
    "benchmark", "metric", "device", "unit", "better", "component", "time", "node", "run", "value",
    "return_code",
)  # fmt: skip

_LONGEST_OF_DIAGNOSIS = 40
"""Characters of the names of a diagnosis."""

# Reasons why a key's values are not used.
_RETURN_CODE = "a return code"
_MONITOR = "a monitor reading"
_UNKNOWN = "of unknown direction"
_NO_METRIC = "not benchmark/metric"


_Columns = tuple[str, str, str, str, str, str, int]


@dataclass(frozen=True, slots=True)
class _Key:
    """One key of the file, parsed once."""

    # Benchmark, metric, device, unit, direction, component, and the run's number as time
    columns: _Columns
    problem: str = ""  # why its values are not used; empty if they are
    # No map has the metric, so unit and direction are guessed from words in its name
    guessed: bool = False


def import_superbench(
    path: Path,
    *,
    hardware_class: str = UNCLASSIFIED,
    run: str = "",
    node: str = "",
    known: MetricMap | None = None,
    progress: Progress | None = None,
) -> Imported:
    """Read a SuperBench summary: one object a line, or a single object over several lines.

    A benchmark with a return code other than 0 has the problem ``failed`` in every metric that other nodes
    have of it, or in the metric ``return_code`` if there is none. A metric that most nodes have and one node
    lacks is ``missing``. Metrics of unknown direction, and readings of the monitor other than uncorrected
    memory errors, are listed and left out.

    Args:
        path: The ``.jsonl`` file.
        hardware_class: The class of all nodes in it.
        run: The run's id; default: the file's name.
        node: The node of an object that names none; empty: objects must name one.
        known: The metric map; default: the one of the package.
        progress: Called after every object with the number of nodes so far, in one line.

    Raises:
        ImportFileError: The file cannot be read, or has no node.
    """
    run = run or run_name(path)
    wrong = WrongLines()
    form = LongForm(_COLUMNS, wrong, hardware_class=hardware_class, run=run)
    reader = _Reader(form, wrong, run, known or known_metrics(), node)
    try:
        for number, line in _objects(path):
            if line.strip():
                reader.line(number, line)
                if progress is not None:
                    progress(f"{path.name}: {len(reader.nodes):,} nodes")
        reader.add_wrong()
        reader.add_failed()
        rows = form.rows()
        counted = {(*unit[:3], form.kept.get(unit[3], unit[3]), unit[4]) for unit in reader.counted}
        grouped = group_rows(rows, keyed=True, counted=counted)
    except ImportFileError as error:
        raise ImportFileError(f"{path}: {error}") from None
    if not reader.nodes and not any(reader.wrong.nodes):  # a node with only wrong lines counts
        first = f" ({reader.wrong.lines[0]})" if reader.wrong.lines else ""
        raise ImportFileError(f"{path}: no node in it, so it is no SuperBench summary{first}")
    populations = grouped.populations
    return Imported(
        source=path,
        populations=populations,
        runs=runs_of(populations, file_date(path), unread=reader.wrong.nodes, run=run),
        values=grouped.values,
        wrong=tuple(sorted(reader.wrong.lines, key=lambda one: one.line)),
        wrong_count=reader.wrong.count,
        causes=dict(reader.wrong.causes),
        lost_cells=grouped.lost,
        notes=(*reader.notes(), *renamed_lines(form.kept)),
        left_out=reader.left_out,
    )


def _objects(path: Path) -> Iterator[tuple[int, str]]:
    """Yield number and text of each object: a line, or the rest of the file after a line with only ``{``."""
    lines = enumerate(read_lines(path), start=1)
    for number, line in lines:
        if line.strip() == "{":
            yield number, "\n".join((line, *(rest for _, rest in lines)))
            return
        yield number, line


class _Reader:
    """A reader that takes the nodes one by one and adds their values to the long form as rows."""

    def __init__(
        self, form: LongForm, wrong: WrongLines, run: str, known: MetricMap, node: str
    ) -> None:
        self.wrong = wrong
        self._node = node
        self.nodes: dict[str, int] = {}  # node -> number of its objects
        self._form = form
        self._run = run
        self._known = known
        self.left_out = 0
        self.counted: set[UnitName] = set()  # units with a cell that counts as a wrong line
        self._again: list[str] = []
        # Line, its text, what is wrong, cause.
        self._of_no_node: list[tuple[int, str, str, str]] = []
        # (line, node, run) -> (benchmark, device) -> return code.
        self._failed: dict[tuple[int, str, str], dict[tuple[str, str], int]] = {}
        self._keys: dict[str, _Key] = {}

    def line(self, number: int, line: str) -> None:
        """Read the object of one node."""
        try:
            data: Any = parse_json(line, strict=False)
        except CodecError as error:
            named = _NODE.search(line)
            if node := named[1] if named else self._node:
                self.wrong.add(number, error.problem, "not JSON", node)
            else:
                self._of_no_node.append((number, line[:MAX_NAME_LENGTH], error.problem, "not JSON"))
            return
        fields: dict[str, Any] = data if isinstance(data, dict) else {}
        if _is_diagnosis(fields):
            raise ImportFileError(
                "the output of 'sb result diagnosis', which has deviations instead of values; import its "
                "input, results-summary.jsonl"
            )
        node = fields.pop("node", None)
        if node is None and any("/" in name for name in fields):
            node = self._node
            if not node:
                text = "an object that names no node; name it with --node"
                self._of_no_node.append((number, "", text, text))
                return
        node = str(node) if type(node) is int else node
        if not isinstance(node, str) or not node.strip() or not node.isprintable():
            text = "not an object with a node's name in 'node'"
            self._of_no_node.append((number, line[:MAX_NAME_LENGTH], text, text))
            return
        times = self.nodes[node] = self.nodes.get(node, 0) + 1
        run = self._run if times == 1 else f"{self._run}-{times}"
        if times > 1:
            self._again.append(f"node {node} occurs again; kept as run {run}")
        self._take(number, node, run, fields)

    def _take(self, number: int, node: str, run: str, data: Mapping[str, Any]) -> None:
        keys = self._keys
        failed: dict[tuple[str, str], int] = {}
        rows: list[_Columns] = []
        values: list[float | None] = []
        unreadable: list[tuple[str, _Key, Any]] = []
        for name, value in data.items():
            key = keys.get(name) or self._key(name)
            if key.problem == _NO_METRIC and _is_code(name) and value not in (0, "0"):
                text = f"node {node[:40]}, column {cut(name, MAX_COLUMN_SHOWN)}: {str(value)[:20]!r} is not 0"
                self.wrong.add(number, text, "the node's run failed", node)
            elif key.problem == _RETURN_CODE:
                if isinstance(value, str) and _WHOLE.fullmatch(value.strip()):
                    value = int(value)
                whole = type(value) in (int, float) and abs(value) < 2**31
                if not whole or value != 0:  # null or a word is no success either
                    failed[key.columns[0], key.columns[2]] = (int(value) if whole else 0) or -1
            elif value is None and not key.problem:  # the tool had no result, so it is missing
                rows.append(key.columns)
                values.append(None)
            elif type(value) not in (int, float):
                if value is not None:
                    unreadable.append((name, key, value))
            elif not key.problem:
                rows.append(key.columns)
                values.append(float("inf") if abs(value) >= 1e300 else value)  # keeps NaN
            elif key.problem == _UNKNOWN:
                self.left_out += 1
            elif key.problem == _NO_METRIC:
                text = f"node {node[:40]}, column {cut(name, MAX_COLUMN_SHOWN)!r} is {_NO_METRIC}"
                self.wrong.add(number, text, f"column is {_NO_METRIC}")
        for name, key, value in unreadable:
            if not key.problem and _code(key.columns, failed):
                continue  # its benchmark failed, which is counted
            text = f"node {node[:40]}, column {cut(name, MAX_COLUMN_SHOWN)}: "
            text += f"{str(value)[:20]!r} is not a number"
            self.wrong.add(number, text, "value is not a number", node)
            self.counted.add((*key.columns[:3], node, run))
        if not rows and not failed and not unreadable:
            text = "no result of any benchmark"
            self.wrong.add(number, f"node {node[:40]}: {text}", text, node)
        if failed:
            self._failed[number, node, run] = failed
        self._add((number, node, run), rows, values, failed)

    def _add(
        self,
        of: tuple[int, str, str],
        rows: Sequence[_Columns],
        values: Sequence[float | None],
        failed: Mapping[tuple[str, str], int],
    ) -> None:
        """Add the rows of a line, node and run, with the return codes of what failed in it."""
        if rows:
            line, node, run = of
            count = len(rows)
            codes = [_code(row, failed) for row in rows] if failed else [0] * count
            columns = (*zip(*rows, strict=True), [node] * count, [run] * count, values, codes)
            self._form.add([line] * count, columns)

    def add_wrong(self) -> None:
        """List lines that are no node's results, each charged to the nodes of the file that it names."""
        known = self.nodes.keys()
        for number, line, text, cause in self._of_no_node:
            first, *others = sorted(named_in(line, known)) or [""]
            self.wrong.add(number, text, cause, first)
            self.wrong.nodes.update(others)

    def add_failed(self) -> None:
        """Add a row for failed benchmarks to every metric of theirs, or to a metric of their own."""
        units: dict[str, dict[_Columns, None]] = {}
        for key in self._keys.values():
            if not key.problem:
                units.setdefault(key.columns[0], {})[(*key.columns[:6], 0)] = None
        for of, failed in self._failed.items():
            for benchmark in dict.fromkeys(benchmark for benchmark, _ in failed):
                rows = [row for row in units.get(benchmark, ()) if _code(row, failed)]
                if not rows:  # it failed everywhere, so no metric of it is known
                    part = self._known.component_of(benchmark)
                    rows = [
                        (benchmark, RETURN_CODE, device, "count", "equal", part, 0)
                        for one, device in failed
                        if one == benchmark
                    ]
                self._add(of, rows, [None] * len(rows), failed)

    def _key(self, name: str) -> _Key:
        match = _KEY.fullmatch(name)
        if match is None or not name.isprintable():
            key = _Key(("", "", "", "", "", "", 0), _NO_METRIC)
        else:
            device = "node" if match["rank"] is None else f"rank{match['rank']}"
            rule = self._known.find(match["benchmark"], match["metric"])
            known = (rule.unit, rule.better, rule.component) if rule else None
            known = known or _guess(match["metric"])
            problem = "" if known else _UNKNOWN
            if _is_code(match["metric"]):
                problem = _RETURN_CODE
            elif name.startswith("monitor/") and "uncorrected_ecc" not in name:
                problem = _MONITOR
            number = int((match["run"] or "0")[:9])
            place = (match["benchmark"], match["metric"], device)
            key = _Key((*place, *(known or ("", "", "")), number), problem, guessed=rule is None)
        self._keys[name] = key
        return key

    def notes(self) -> list[str]:
        """Return notes on what was left out or guessed, one line each."""
        taken = [key for key in self._keys.values() if not key.problem]
        guessed = sorted({"/".join(key.columns[:2]) for key in taken if key.guessed})
        unknown: dict[str, set[str]] = {}
        for key in self._keys.values():
            if key.problem == _UNKNOWN:
                unknown.setdefault(key.columns[1], set()).add(key.columns[0])
        found = [
            f"metric {name[:80]!r} of {min(of)[:80]}{f' and {len(of) - 1} more' if len(of) > 1 else ''}: "
            "direction unknown, left out; name it in a metric map (--map FILE)"
            for name, of in sorted(unknown.items())
        ]
        found += self._again
        if guessed:
            are, suggest, more = ("metric is", "its name suggests", "")
            if len(guessed) > 1:
                are, suggest, more = ("metrics are", "their names suggest", ", ...")
            found.append(
                f"{len(guessed)} {are} in no metric map (--map FILE); unit and direction are what {suggest}: "
                f"{guessed[0][:80]}{more}"
            )
        monitor = sum(key.problem == _MONITOR for key in self._keys.values())
        if monitor:
            are, were = ("readings are", "were") if monitor > 1 else ("reading is", "was")
            found.append(f"{monitor} monitor {are} no benchmark and {were} left out")
        return found


def _guess(metric: str) -> tuple[str, str, str] | None:
    """Return the unit and direction that words in a metric's name suggest, without a component."""
    for pattern, unit, better in DIRECTIONS:
        if re.search(pattern, metric, re.IGNORECASE):
            return unit, better, ""
    return None


def _is_diagnosis(data: Mapping[str, Any]) -> bool:
    """Return whether an object is a node's line in ``diagnosis_summary.jsonl``."""
    names = {name.lower() for name in data if len(name) < _LONGEST_OF_DIAGNOSIS}
    return {"category", "defective details"} <= names or any(
        name.startswith("diagnosis/") for name in names
    )


def _is_code(metric: str) -> bool:
    """Return whether a metric is a return code, in whatever letters, and of whatever rank."""
    return metric.partition(":")[0].strip().lower() == RETURN_CODE


def _code(row: _Columns, failed: Mapping[tuple[str, str], int]) -> int:
    # A return code without a rank speaks for all ranks, one with a rank for its own.
    return failed.get((row[0], row[2])) or failed.get((row[0], "node")) or 0
