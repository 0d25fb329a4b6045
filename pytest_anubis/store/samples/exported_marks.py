"""Take off exported samples the mark that nothing may be learned from their run, and name the marked runs.

`parquet_files` writes it. `collected_runs` calls this: judging takes such samples as they are.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from pytest_anubis.core.sample import REFUSED
from pytest_anubis.store.samples.columnar_files import Columns

Unit = tuple[str, str]
"""Run and node."""


def without_marks(columns: Columns) -> tuple[Columns, dict[Unit, str]]:
    """Return exported samples as judging takes them, and the runs that were marked with the reason."""
    refused: dict[Unit, str] = {}
    populations = []
    for one in columns.populations:
        marked = {row for row, problem in one.problems.items() if problem.kind == REFUSED}
        for row in marked:
            refused.setdefault((one.runs[row], one.nodes[row]), one.problems[row].text)
        if marked:
            rest = {row: problem for row, problem in one.problems.items() if row not in marked}
            one = replace(one, problems=rest)
        populations.append(one)
    return replace(columns, populations=tuple(populations)) if refused else columns, refused


def without_units(columns: Columns, units: Collection[Unit]) -> Columns:
    """Return columns without some runs and their samples."""
    populations = []
    for one in columns.populations:
        named = enumerate(zip(one.runs, one.nodes, strict=True))
        populations.append(one.only([row for row, unit in named if unit not in units]))
    runs = tuple(run for run in columns.runs if (run.run, run.node) not in units)
    return replace(columns, populations=tuple(populations), runs=runs)
