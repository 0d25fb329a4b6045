"""Count the values of an imported file that support no verdict, by cause, with the first ones as examples.

`grouping`, `import_result` and `superbench` use it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from pytest_anubis.core.metric import Metric, metric_name
from pytest_anubis.core.sample import ABSENT, IntArray, Population, SampleProblem

if TYPE_CHECKING:
    from pytest_anubis.store.importers.encoded_rows import EncodedRows

Mask = npt.NDArray[np.bool_]

UnitName = tuple[str, str, str, str, str]
"""Benchmark, metric, device, node and run."""
MISSING = SampleProblem(kind=ABSENT, text="not in the results, although most nodes have it")

MAX_NAME_SHOWN = 60
"""Characters of a cell or name in an example."""
MAX_EMPTY_NAMED = 8
"""Empty cells that are named."""
MAX_COLUMN_SHOWN = 160
"""Characters of a column's name: SuperBench's consist of a benchmark, a model, a metric and the rank."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LostCells:
    """The cells that were lost for one cause.

    Attributes:
        kind: ``unit``, ``invalid``, ``failed`` or ``missing``, as `SampleProblem.kind`.
        count: Number of rows; for `missing`, and `failed` in a summary, number of units under test.
        example: Place and content of the first one, or of the first few that are empty.
    """

    kind: str
    count: int
    example: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LostRows:
    """Masks of the lost rows, each for one cause; shape (n,), in the order of the file.

    Attributes:
        other: Unit or direction differ from most rows of the metric.
        invalid: The value is NaN, infinite, negative, or a duration of 0.
    """

    failed: Mask
    empty: Mask
    other: Mask
    invalid: Mask


def impossible(values: npt.NDArray[np.float64], durations: Mask) -> Mask:
    """Return which values are impossible, shape (n,).

    Args:
        values: Shape (n,).
        durations: Shape (n,); durations, which cannot be 0 (`Metric.is_duration`).
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
    counted: Collection[UnitName] = (),
) -> tuple[LostCells, ...]:
    """Count the lost cells of a file in long form.

    Args:
        rows: The good rows.
        lost: Which of them are lost.
        most: The metric of each key, with the unit and direction of most rows.
        key: Shape (n,), the key of each row.
        populations: The populations of the rows.
        keyed: Columns are named after benchmark and metric, as in a SuperBench summary, not after their
            content, as in a table.
        counted: Units with a cell that is counted as a wrong line, so that they are not missing as well.
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
        count = len(where)
        # What is empty has to be looked up and filled.
        named = MAX_EMPTY_NAMED if kind == "missing" else 1
        examples = [text(row) for row in _first(where, rows.lines, named)]
        left = f"; and {count - named} more" if count > named > 1 else ""
        units = lost_of_populations(populations, (kind,), gaps=kind == "missing", counted=counted)
        if units and (kind == "missing" or (kind == "failed" and keyed)):
            # Missing units have no line, and a benchmark in a summary fails in all of its metrics.
            count = units[0].count + (count if kind == "missing" else 0)
            examples.append(units[0].example)
        if count:
            example = "; ".join(examples[:named]) + left
            found.append(LostCells(kind=kind, count=count, example=example))
    return tuple(found)


def _first(where: IntArray, lines: IntArray, count: int) -> list[int]:
    """Return the rows that are first in the file, at most `count`."""
    return [int(row) for row in where[np.argsort(lines[where], kind="stable")[:count]]]


def lost_of_populations(
    populations: Sequence[Population],
    kinds: Sequence[str] = ("unit", "invalid", "failed", "missing"),
    *,
    gaps: bool = False,
    counted: Collection[UnitName] = (),
) -> tuple[LostCells, ...]:
    """Count the units under test without values, for files whose cells have no lines.

    Args:
        populations: The samples of a file.
        kinds: The kinds of problems to count.
        gaps: Count only units that do not occur in the file.
        counted: With `gaps`, units that are counted elsewhere.
    """
    found: dict[str, tuple[int, str]] = {}
    for population in populations:
        for row, problem in population.problems.items():
            kind = "missing" if problem.lacks else problem.kind
            if kind not in kinds or (gaps and problem.kind != ABSENT):
                continue
            if gaps and counted:
                place = (population.devices[row], population.nodes[row], population.runs[row])
                if (population.benchmark, population.metric.name, *place) in counted:
                    continue
            count, example = found.get(kind, (0, ""))
            if not count:
                device = population.devices[row]
                size = MAX_NAME_SHOWN
                on = "" if device == "node" else f" on {device[:size]}"
                name = metric_name(population.benchmark[:size], population.metric.name[:size])
                example = f"node {population.nodes[row][:size]}, {name}{on}: {problem.text}"
            found[kind] = (count + 1, example)
    return tuple(
        LostCells(kind=kind, count=found[kind][0], example=found[kind][1])
        for kind in kinds
        if kind in found
    )


def cut(text: str, most: int) -> str:
    """Return the text, cut to `most` characters with an ellipsis at the end."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


class _Cells:
    """A formatter of examples: the place of a row's cell and its content."""

    def __init__(
        self, rows: EncodedRows, most: Sequence[Metric], key: IntArray, *, keyed: bool
    ) -> None:
        self._rows = rows
        self._most = most
        self._key = key
        self._keyed = keyed

    def other(self, row: int) -> str:
        """Return the example of an unusual unit or direction."""
        usual = self._most[int(self._key[row])]
        column = "unit" if self._name("unit", row) != usual.unit else "better"
        expected = usual.unit if column == "unit" else usual.better
        metric = f"{self._name('benchmark', row)} {usual.name}"[: 2 * MAX_NAME_SHOWN]
        return self._at(row, column, self._name(column, row), f" (most of {metric}: {expected!r})")

    def value(self, row: int) -> str:
        """Return the example of an impossible value."""
        value = self._rows.values[row]
        text = "NaN" if np.isnan(value) else f"{value:g}"
        return self._at(row, "value", self._rows.words.get(int(self._rows.lines[row]), text))

    def failed(self, row: int) -> str:
        """Return the example of a failed test."""
        column, text = self._rows.failure(row) or (
            self._rows.code_column,
            str(int(self._rows.return_codes[row])),
        )
        return self._at(row, column, text)

    def empty(self, row: int) -> str:
        """Return the example of an empty cell."""
        return self._at(row, "value", "")

    def _at(self, row: int, column: str, text: str, more: str = "") -> str:
        if self._keyed:
            device = self._name("device", row)
            rank = f":{device[4:]}" if device.startswith("rank") and column == "value" else ""
            metric = self._name("metric", row) if column == "value" else column
            column = f"{self._name('benchmark', row)}/{metric}{rank}"
        line = int(self._rows.lines[row])
        node = self._name("node", row)[:MAX_NAME_SHOWN]
        column = cut(column, MAX_COLUMN_SHOWN)
        return f"line {line}, node {node}, column {column}: {text[:MAX_NAME_SHOWN]!r}{more}"

    def _name(self, column: str, row: int) -> str:
        return self._rows.names[column][int(self._rows.codes[column][row])]
