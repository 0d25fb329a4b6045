"""Look up unit, direction and component of other tools' metrics in a small table that people review.

`known_metrics.csv` next to this file has the names of SuperBench, nccl-tests, nvbandwidth and fio; a user's
own table of the same form comes first.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pytest_anubis.core.metric import DIRECTIONS
from pytest_anubis.store.importers.import_result import ImportFileError, read_text

COLUMNS = ("benchmark", "metric", "unit", "better", "component")
_KNOWN = Path(__file__).with_name("known_metrics.csv")
_MAX_RULES = 10_000
"""Lines of a map, each of which is tried for every new name; the tools' own map has some sixty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricRule:
    """One line of a map."""

    benchmark: re.Pattern[str]  # matches the benchmark's name in small letters
    metric: re.Pattern[str]  # matches the metric's, likewise
    unit: str
    better: str
    component: str  # the component that it exercises; may be empty
    line: int  # its line in the file, from 1


class MetricMap:
    """A list of rules for metrics, of which the first that fits is used."""

    def __init__(self, rules: Sequence[MetricRule]) -> None:
        self._rules = tuple(rules)
        self._found: dict[tuple[str, str], MetricRule | None] = {}

    def find(self, benchmark: str, metric: str) -> MetricRule | None:
        """Return the rule of a metric; None without one. Case does not matter."""
        key = (benchmark, metric)
        if key not in self._found:
            of_benchmark = (r for r in self._rules if r.benchmark.fullmatch(benchmark.lower()))
            fits = (r for r in of_benchmark if r.metric.fullmatch(metric.lower()))
            self._found[key] = next(fits, None)
        return self._found[key]

    def component_of(self, benchmark: str) -> str:
        """Return the component that a benchmark exercises; empty if it is unknown."""
        known = (rule for rule in self._rules if rule.component)
        return next((r.component for r in known if r.benchmark.fullmatch(benchmark.lower())), "")

    def line_of_unit(self, unit: str) -> int:
        """Return the line of the first rule with a unit; 0 without one."""
        return next((rule.line for rule in self._rules if rule.unit == unit), 0)

    def before(self, other: MetricMap) -> MetricMap:
        """Return a map with the rules of this one before those of the other."""
        return MetricMap((*self._rules, *other._rules))


def read_metric_map(path: Path) -> MetricMap:
    """Read a map: CSV with the columns ``benchmark, metric, unit, better, component``.

    Benchmark and metric may contain ``*`` for any characters. A SuperBench benchmark is its key up to the
    last ``/``.

    Raises:
        ImportFileError: It cannot be read, or a line is wrong; the message names the line.
    """
    rows = csv.reader(io.StringIO(read_text(path)))
    rules: list[MetricRule] = []
    try:
        head = [name.strip().lower() for name in next(rows, [])]
        if head != list(COLUMNS):
            raise ImportFileError(f"{path}: the first line must be {','.join(COLUMNS)}")
        for row in rows:
            if not row:
                continue
            cells = [cell.strip() for cell in row]
            if len(cells) != len(COLUMNS) or not all(cells[:4]) or cells[3] not in DIRECTIONS:
                raise ImportFileError(
                    f"{path} line {rows.line_num}: needs {', '.join(COLUMNS)}, of which the first four are "
                    f"not empty and better is one of {', '.join(DIRECTIONS)}"
                )
            if not "".join(cells).isprintable():
                raise ImportFileError(f"{path} line {rows.line_num}: unprintable text; take it out")
            if len(rules) == _MAX_RULES:
                raise ImportFileError(
                    f"{path} line {rows.line_num}: a map has at most {_MAX_RULES:,} lines; use * for names "
                    "alike"
                )
            rules.append(
                MetricRule(
                    benchmark=_pattern(cells[0]),
                    metric=_pattern(cells[1]),
                    unit=cells[2],
                    better=cells[3],
                    component=cells[4],
                    line=rows.line_num,
                )
            )
    except csv.Error as error:
        raise ImportFileError(f"{path} line {rows.line_num}: not CSV ({error})") from None
    return MetricMap(rules)


@cache
def known_metrics() -> MetricMap:
    """Return the map that comes with the package."""
    return read_metric_map(_KNOWN)


def _pattern(name: str) -> re.Pattern[str]:
    """Return a name with ``*`` for any characters as a pattern that takes time linear in the text."""
    first, *rest = map(re.escape, name.lower().split("*"))
    inner = "".join(f"(?>.*?{part})" for part in rest[:-1])
    return re.compile(f"{first}{inner}.*{rest[-1]}" if rest else first, re.DOTALL)
