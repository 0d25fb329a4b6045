"""SuperBench summaries: ``results-summary.jsonl``, one flat object per node.

A key reads ``{benchmark}[:annotation]/[{run}/]{metric}[:{rank}]`` and holds a number; the file names neither
units nor directions, so both come from a table of the metrics that the tool is known to write.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_anubis.core.metric import Direction, Metric
from pytest_anubis.core.sample import Problem
from pytest_anubis.store.gather import Gather
from pytest_anubis.store.importers.imported import (
    UNCLASSIFIED,
    Imported,
    ImportFileError,
    WrongLines,
    file_date,
    read_text,
    run_name,
)
from pytest_anubis.store.importers.table import Progress, runs_of

# First match decides; matched against the metric's name without rank, ignoring case.
DIRECTIONS: tuple[tuple[str, str, Direction], ...] = (
    (r"steptime|step_time", "ms", "lower"),
    (r"throughput|samples_per_sec|_qps$|\bqps\b", "1/s", "higher"),
    (r"busbw|algbw", "GB/s", "higher"),
    (r"^ib_(write|read|send).*(avg|peak|bw)|ib.*_bw", "MB/s", "higher"),
    (r"(^|_)bw($|_)|bandwidth|htod|dtoh|dtod|_by_(sm|dma)", "GB/s", "higher"),
    (r"iops", "op/s", "higher"),
    (r"^(fp|tf|bf|int)\d+|flops|tops$", "GFLOP/s", "higher"),
    (r"_(time)?_?lat(ency)?(_|$)|lat_ns|latency", "us", "lower"),
    (r"(event|wall)_(time|overhead)", "ms", "lower"),
    (r"^(allreduce|allgather|alltoall|broadcast|reduce|reducescatter|sendrecv).*_time", "us", "lower"),
    (r"cost|^(allreduce|allgather|nosharding)$", "ms", "lower"),
    (r"(_|^)time(_|$)|_s$|_ms$|duration", "ms", "lower"),
    (r"error|fail|mismatch|corrupt", "count", "equal"),
)  # fmt: skip

_KEY = re.compile(r"(?P<benchmark>.+?)/(?:(?P<run>\d+)/)?(?P<metric>[^/]+?)(?::(?P<rank>\d+))?")


@dataclass(frozen=True, slots=True)
class _Key:
    benchmark: str
    metric: str
    device: str
    run: int


def import_superbench(
    path: Path,
    *,
    hardware_class: str = UNCLASSIFIED,
    run: str = "",
    directions: Mapping[str, tuple[str, Direction]] | None = None,
    progress: Progress | None = None,
) -> Imported:
    """Read a SuperBench summary.

    A benchmark with a return code other than 0 gives every metric that other nodes have of it the
    problem ``failed``; a metric that most nodes have and one node lacks is ``missing``. Metrics whose
    direction is unknown, and the monitor's, are listed and left out.

    Args:
        path: The ``.jsonl`` file.
        hardware_class: The class of all nodes in it.
        run: The run's id; default: the file's name.
        directions: Regular expression on the metric's name -> (unit, direction), tried first.
        progress: Called with one short line now and then.

    Raises:
        ImportFileError: The file cannot be read, or holds no node at all.
    """
    reader = _Reader(path, run or run_name(path), directions or {})
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        if line.strip():
            reader.line(number, line)
            if progress is not None:
                progress(f"{path.name}: {len(reader.nodes):,} nodes")
    if not reader.nodes:
        first = f" ({reader.wrong.lines[0]})" if reader.wrong.lines else ""
        raise ImportFileError(f"{path}: no node in it, so it is no SuperBench summary{first}")
    gather = reader.gather(hardware_class)
    populations = gather.populations()
    return Imported(
        source=path,
        populations=populations,
        runs=runs_of(populations, file_date(path)),
        lines=reader.lines,
        values=sum(len(population.values) for population in populations),
        wrong=tuple(reader.wrong.lines),
        wrong_count=reader.wrong.count,
        notes=tuple(reader.notes()),
    )


class _Reader:
    """Collects the keys of all nodes before anything is judged missing."""

    def __init__(
        self, path: Path, run: str, directions: Mapping[str, tuple[str, Direction]]
    ) -> None:
        self.wrong = WrongLines()
        self.lines = 0
        self.nodes: dict[tuple[str, str], dict[_Key, float]] = {}  # (node, run) -> its values
        self._path = path
        self._run = run
        self._rules = [(re.compile(p, re.IGNORECASE), u, d) for p, (u, d) in directions.items()]
        self._rules += [(re.compile(p, re.IGNORECASE), u, d) for p, u, d in DIRECTIONS]
        self._failed: dict[tuple[str, str], dict[tuple[str, str], int]] = {}
        self._metrics: dict[str, Metric | None] = {}
        self._parsed: dict[str, _Key | None] = {}
        self._monitor: set[str] = set()

    def line(self, number: int, line: str) -> None:
        """Take one node."""
        self.lines += 1
        try:
            data: Any = json.loads(line)
        except (ValueError, RecursionError):
            self.wrong.add(number, "not valid JSON")
            return
        node = data.get("node") if isinstance(data, dict) else None
        if not isinstance(node, str) or not node.strip() or not node.isprintable():
            self.wrong.add(number, "not an object with a node's name in 'node'")
            return
        run, again = self._run, 2
        while (node, run) in self.nodes:
            run, again = f"{self._run}-{again}", again + 1
        if again > 2:
            self.wrong.add(number, f"node {node} stands there again; kept as run {run}")
        values = self.nodes[node, run] = {}
        failed = self._failed[node, run] = {}
        for name, value in data.items():
            if name != "node":
                self._take(number, name, value, values, failed)

    def _take(
        self,
        number: int,
        name: str,
        value: Any,
        values: dict[_Key, float],
        failed: dict[tuple[str, str], int],
    ) -> None:
        if name.startswith("monitor/"):
            self._monitor.add(name)
            return
        key = self._key(name)
        if key is None:
            self.wrong.add(number, f"{name[:80]!r} is not benchmark/metric")
            return
        if isinstance(value, bool) or not isinstance(value, int | float):
            if value is not None:  # null: the tool had no result, so it is missing
                self.wrong.add(number, f"{name[:80]}: {str(value)[:20]!r} is not a number")
            return
        if key.metric == "return_code":
            if value != 0:
                failed[key.benchmark, key.device] = int(value) if abs(value) < 2**31 else -1
            return
        if self._metric(key.metric) is not None:
            values[key] = float(value) if abs(value) < 1e300 else float("inf")

    def _key(self, name: str) -> _Key | None:
        if name not in self._parsed:
            match = _KEY.fullmatch(name)
            self._parsed[name] = match and _Key(
                match["benchmark"],
                match["metric"],
                "node" if match["rank"] is None else f"rank{match['rank']}",
                int((match["run"] or "0")[:9]),
            )
        return self._parsed[name]

    def _metric(self, name: str) -> Metric | None:
        if name not in self._metrics:
            rule = next((rule for rule in self._rules if rule[0].search(name)), None)
            valid = rule is not None and name.strip() and name.isprintable()
            self._metrics[name] = (
                Metric(name=name, unit=rule[1], better=rule[2]) if rule and valid else None
            )
        return self._metrics[name]

    def notes(self) -> list[str]:
        """Say what was left out, one line each."""
        found = [
            f"metric {name[:80]!r}: direction unknown, left out; say whether higher or lower is better"
            for name, metric in sorted(self._metrics.items())
            if metric is None
        ]
        if self._monitor:
            found.append(
                f"{len(self._monitor)} monitor readings are no benchmark and were left out"
            )
        return found

    def gather(self, hardware_class: str) -> Gather:
        """Return all samples, with what failed and what is missing."""
        gather = Gather()
        units: dict[tuple[str, str, str], int] = {}
        for values in self.nodes.values():
            for unit in {(key.benchmark, key.metric, key.device) for key in values}:
                units[unit] = units.get(unit, 0) + 1
        for (node, run), values in self.nodes.items():
            series: dict[tuple[str, str, str], list[float]] = {}
            for key in sorted(values, key=lambda key: key.run):
                unit = (key.benchmark, key.metric, key.device)
                series.setdefault(unit, []).append(values[key])
            failed = self._failed[node, run]
            for unit, count in units.items():
                problem = _problem(unit, failed, there=unit in series)
                common = count > len(self.nodes) / 2
                if (
                    unit not in series
                    and problem is not None
                    and problem.kind == "missing"
                    and not common
                ):
                    continue
                metric = self._metrics[unit[1]]
                if metric is not None:
                    gather.add(
                        hardware_class=hardware_class,
                        benchmark=unit[0],
                        metric=metric,
                        component="",
                        group="",
                        node=node,
                        device=unit[2],
                        run=run,
                        values=[] if problem else series[unit],
                        problem=problem,
                    )
        return gather


def _problem(
    unit: tuple[str, str, str], failed: Mapping[tuple[str, str], int], *, there: bool
) -> Problem | None:
    benchmark, _, device = unit
    # A return code without a rank speaks for all ranks, one with a rank for its own.
    code = failed.get((benchmark, device)) or failed.get((benchmark, "node"))
    if code:
        return Problem(kind="failed", text=f"return code {code}")
    if there:
        return None
    return Problem(kind="missing", text="not in the results, although most nodes have it")
