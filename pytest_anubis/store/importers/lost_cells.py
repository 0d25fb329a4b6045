"""Cells of a file that no verdict can rest on: how many for which cause, and where the first one stands."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from pytest_anubis.core.metric import Metric, metric_name
from pytest_anubis.core.sample import ABSENT, IntArray, Population, SampleProblem

if TYPE_CHECKING:
    from pytest_anubis.store.importers.long_form import EncodedRows

Mask = npt.NDArray[np.bool_]

UnitName = tuple[str, str, str, str, str]
"""Benchmark, metric, device, node and run."""
MISSING = SampleProblem(kind=ABSENT, text="not in the results, although most nodes have it")

LONGEST = 60
"""Characters of a cell or name in an example."""
COLUMN = 160
"""Characters of the name of a column: SuperBench's have a benchmark, a model and a metric each, and end with
the rank."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LostCells:
    """The cells that one cause has cost.

    Attributes:
        kind: ``unit``, ``invalid``, ``failed`` or ``missing``, as `SampleProblem.kind`.
        count: How many rows of a table; units under test for what is missing, and for what failed in a
            summary.
        example: Where the first one stands and what it holds.
    """

    kind: str
    count: int
    example: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LostRows:
    """Which rows are lost, each for one cause; shape (n,), in the order of the file.

    Attributes:
        other: Unit or direction are not those of most rows of its metric.
        invalid: Its value is NaN, infinite, negative, or a duration of 0.
    """

    failed: Mask
    empty: Mask
    other: Mask
    invalid: Mask


def impossible(values: npt.NDArray[np.float64], durations: Mask) -> Mask:
    """Return which values can be none of a sample, shape (n,).

    Args:
        values: Shape (n,).
        durations: Shape (n,); those of which none can be 0 (`Metric.is_duration`).
    """
    return np.asarray(~np.isfinite(values) | (values < 0) | ((values == 0) & durations))


def lost_of_rows(
    rows: EncodedRows,
    lost: LostRows,
    most: Sequence[Metric],
    key: IntArray,
    populations: Sequence[Population],
    *,
    keyed: bool,
    told: Collection[UnitName] = (),
) -> tuple[LostCells, ...]:
    """Count the lost cells of a file in long form.

    Args:
        rows: The good rows.
        lost: Which of them are lost.
        most: The metric of each key, with the unit and direction that most rows have.
        key: Shape (n,), the key of each row.
        populations: What was made of the rows.
        keyed: A cell's column is named by benchmark and metric, as in a SuperBench summary; else by what it
            holds, as in a table.
        told: Units of which a cell is counted elsewhere, so that they are not missing as well.
    """
    cells = _Cells(rows, most, key, keyed=keyed)
    found = []
    for kind, mask, text in (
        ("unit", lost.other, cells.other),
        ("invalid", lost.invalid, cells.value),
        ("failed", lost.failed, cells.failed),
        ("missing", lost.empty & ~lost.failed, cells.empty),
    ):
        where = np.flatnonzero(mask)
        count, examples = len(where), [text(row) for row in _first(where, rows.lines)]
        units = lost_of_populations(populations, (kind,), gaps=kind == "missing", told=told)
        if units and (kind == "missing" or (kind == "failed" and keyed)):
            # What a file does not hold is on no line; a summary's benchmark fails in all of its metrics.
            count = units[0].count + (count if kind == "missing" else 0)
            examples.append(units[0].example)
        if count:
            found.append(LostCells(kind=kind, count=count, example=examples[0]))
    return tuple(found)


def _first(where: IntArray, lines: IntArray) -> list[int]:
    """Return the one row of some that stands first in the file, or none."""
    return [int(where[np.argmin(lines[where])])] if len(where) else []


def lost_of_populations(
    populations: Sequence[Population],
    kinds: Sequence[str] = ("unit", "invalid", "failed", "missing"),
    *,
    gaps: bool = False,
    told: Collection[UnitName] = (),
) -> tuple[LostCells, ...]:
    """Count the units under test without values, of files whose cells have no lines.

    Args:
        populations: The samples of a file.
        kinds: The kinds of problems to count.
        gaps: Only those of which the file says nothing at all.
        told: Of those, the units that are counted elsewhere.
    """
    found: dict[str, tuple[int, str]] = {}
    for population in populations:
        for row, problem in population.problems.items():
            kind = "missing" if problem.lacks else problem.kind
            if kind not in kinds or (gaps and problem.kind != ABSENT):
                continue
            if gaps and told:
                place = (population.devices[row], population.nodes[row], population.runs[row])
                if (population.benchmark, population.metric.name, *place) in told:
                    continue
            count, example = found.get(kind, (0, ""))
            if not count:
                device = population.devices[row]
                on = "" if device == "node" else f" on {device[:LONGEST]}"
                name = metric_name(population.benchmark[:LONGEST], population.metric.name[:LONGEST])
                example = f"node {population.nodes[row][:LONGEST]}, {name}{on}: {problem.text}"
            found[kind] = (count + 1, example)
    return tuple(
        LostCells(kind=kind, count=found[kind][0], example=found[kind][1])
        for kind in kinds
        if kind in found
    )


def cut(text: str, most: int) -> str:
    """Return a text of so many characters at most, with an ellipsis where something was cut."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


class _Cells:
    """Says where the cell of a row stands and what it holds."""

    def __init__(
        self, rows: EncodedRows, most: Sequence[Metric], key: IntArray, *, keyed: bool
    ) -> None:
        self._rows, self._most, self._key, self._keyed = rows, most, key, keyed

    def other(self, row: int) -> str:
        """Of a unit or direction that is not the usual one."""
        usual = self._most[int(self._key[row])]
        column = "unit" if self._name("unit", row) != usual.unit else "better"
        expected = usual.unit if column == "unit" else usual.better
        metric = f"{self._name('benchmark', row)} {usual.name}"[: 2 * LONGEST]
        return self._at(row, column, self._name(column, row), f" (most of {metric}: {expected!r})")

    def value(self, row: int) -> str:
        """Of a value that can be none."""
        value = self._rows.values[row]
        return self._at(row, "value", "NaN" if np.isnan(value) else f"{value:g}")

    def failed(self, row: int) -> str:
        """Of a test that failed."""
        return self._at(row, "return_code", str(int(self._rows.return_codes[row])))

    def empty(self, row: int) -> str:
        """Of no value."""
        return self._at(row, "value", "")

    def _at(self, row: int, column: str, text: str, more: str = "") -> str:
        if self._keyed:
            device = self._name("device", row)
            rank = f":{device[4:]}" if device.startswith("rank") and column == "value" else ""
            metric = self._name("metric", row) if column == "value" else column
            column = f"{self._name('benchmark', row)}/{metric}{rank}"
        line, node = int(self._rows.lines[row]), self._name("node", row)
        return f"line {line}, node {node[:LONGEST]}, column {cut(column, COLUMN)}: {text[:LONGEST]!r}{more}"

    def _name(self, column: str, row: int) -> str:
        return self._rows.names[column][int(self._rows.codes[column][row])]
