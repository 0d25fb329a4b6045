"""Count the values of an imported file that support no verdict, by cause, with the first ones as examples.

`grouping`, `import_result` and `superbench` use it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from pytest_anubis.core.metric import Metric, metric_name
from pytest_anubis.core.sample import ABSENT, IntArray, Population, SampleProblem

if TYPE_CHECKING:
    from pytest_anubis.store.importers.table_columns import EncodedRows

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
    """The cells that were lost for one cause."""

    kind: str  # ``unit``, ``invalid``, ``failed`` or ``missing``, as `SampleProblem.kind`
    # Number of rows; for `missing`, and `failed` in a summary, number of units under test
    count: int
    example: str  # place and content of the first one, or of the first few that are empty


def lost_of_rows(
    rows: EncodedRows,
    lost: Mapping[str, Mask],
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
        lost: Kind, as of `LostCells` -> shape (n,), which rows are lost for it.
        most: The metric of each key, with the unit and direction of most rows.
        key: Shape (n,), the key of each row.
        populations: The populations of the rows.
        keyed: Columns are named after benchmark and metric, as in a SuperBench summary, not after their
            content, as in a table.
        counted: Units with a cell that is counted as a wrong line, so that they are not missing as well.
    """
    found = []
    for kind, mask in lost.items():
        where = np.flatnonzero(mask)
        count = len(where)
        # What is empty has to be looked up and filled.
        named = MAX_EMPTY_NAMED if kind == "missing" else 1
        first = where[np.argsort(rows.lines[where], kind="stable")[:named]]
        examples = [
            _example(rows, kind, row, most[int(key[row])], keyed=keyed) for row in first.tolist()
        ]
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


def _example(rows: EncodedRows, kind: str, row: int, usual: Metric, *, keyed: bool) -> str:
    """Return the place of a row's lost cell and its content; `usual` is the metric as most rows have it."""

    def name(column: str) -> str:
        return rows.names[column][int(rows.codes[column][row])]

    line = int(rows.lines[row])
    column, text, more = "value", "", ""
    if kind == "unit":
        column = "unit" if name("unit") != usual.unit else "better"
        text = name(column)
        metric = f"{name('benchmark')} {usual.name}"[: 2 * MAX_NAME_SHOWN]
        more = f" (most of {metric}: {getattr(usual, column)!r})"
    elif kind == "invalid":
        value = rows.values[row]
        text = rows.words.get(line, "NaN" if np.isnan(value) else f"{value:g}")
    elif kind == "failed":
        code = str(int(rows.return_codes[row]))
        column, text = rows.failure(row) or (rows.code_column, code)
    if keyed:
        device = name("device")
        rank = f":{device[4:]}" if device.startswith("rank") and column == "value" else ""
        column = f"{name('benchmark')}/{name('metric') if column == 'value' else column}{rank}"
    place = f"line {line}, node {name('node')[:MAX_NAME_SHOWN]}"
    return f"{place}, column {cut(column, MAX_COLUMN_SHOWN)}: {text[:MAX_NAME_SHOWN]!r}{more}"


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
    counts = Counter[str]()
    examples: dict[str, str] = {}
    for population in populations:
        for row, problem in population.problems.items():
            kind = "missing" if problem.lacks else problem.kind
            if kind not in kinds or (gaps and problem.kind != ABSENT):
                continue
            if gaps and counted:
                place = (population.devices[row], population.nodes[row], population.runs[row])
                if (population.benchmark, population.metric.name, *place) in counted:
                    continue
            counts[kind] += 1
            if kind not in examples:
                device = population.devices[row]
                size = MAX_NAME_SHOWN
                on = "" if device == "node" else f" on {device[:size]}"
                name = metric_name(population.benchmark[:size], population.metric.name[:size])
                node = population.nodes[row][:size]
                examples[kind] = f"node {node}, {name}{on}: {problem.text}"
    return tuple(
        LostCells(kind=kind, count=counts[kind], example=examples[kind])
        for kind in kinds
        if kind in counts
    )


def cut(text: str, most: int) -> str:
    """Return the text, cut to `most` characters with an ellipsis at the end."""
    return text if len(text) <= most else f"{text[: most - 1]}…"
