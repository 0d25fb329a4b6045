"""Write samples as Parquet, for DuckDB and the like: a file for each metric of a class, a row for each value.

The columns are those of an imported table, and ``problem``: why nothing may be learned from the values, be it
their own or their run's, empty for good ones. `parquet_reading` reads these files back.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from pytest_anubis.core.gather import key_of
from pytest_anubis.core.sample import REFUSED, Population, SampleProblem

COLUMNS = (
    "node", "device", "run", "problem", "class", "benchmark", "metric", "unit", "better", "component",
    "group", "version", "number", "value",
)  # fmt: skip
"""Columns of a file, in order; the last three are numbers, `number` is the value's place in its sample."""
_MAX_NAME_LENGTH = 60
"""Characters of a metric's name in a file's name; the digest after it makes the name unique."""
MAX_TEXT_LENGTH = 1000
"""Characters of a name or a problem, as in other tables."""
_DIGITS = 8
"""Hexadecimal digits of a key's digest in a file's name: a class has hundreds of metrics, not millions."""


class ParquetError(ValueError):
    """Samples cannot be written as Parquet, or read; the message is one line for people."""


def literal(path: Path) -> str:
    """Return a path in which DuckDB sees no wildcard."""
    return "".join(f"[{mark}]" if mark in "*?[" else mark for mark in str(path))


def first_line(error: Exception) -> str:
    """Return the first line of what DuckDB says went wrong, cut; or the kind of its error."""
    return next(iter(str(error).splitlines()), type(error).__name__)[:120]


def save_parquet(
    populations: Iterable[Population],
    folder: Path,
    *,
    unlearnable: Mapping[tuple[str, str], str] = MappingProxyType({}),
    progress: Callable[[str], None] | None = None,
) -> tuple[Path, ...]:
    """Write each population to its own file, whole or not at all; an older file of the name is replaced.

    Rows without values (tests that failed or recorded nothing) are left out. `unlearnable` says for (run,
    node) why nothing may be learned from the run. `progress` is called with each file's name.

    Raises:
        ParquetError: DuckDB is missing, or the disk refuses.
    """
    try:
        import duckdb
    except ImportError:
        raise ParquetError(
            "Parquet needs DuckDB; install it with `pip install 'pytest-anubis[fleet]'`"
        ) from None
    written: list[Path] = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with duckdb.connect(":memory:") as connection:
            for population in populations:
                path = folder / _name(population)
                if progress is not None:
                    progress(path.name)
                if not len(population.values):
                    continue
                half = path.with_suffix(".unfinished")  # never taken for a table
                connection.register("samples", _columns(population, unlearnable))
                connection.sql("SELECT * FROM samples").write_parquet(str(half), compression="zstd")
                connection.unregister("samples")
                half.replace(path)
                written.append(path)
    except OSError as error:
        raise ParquetError(f"{folder}: cannot be written ({error.strerror})") from error
    except duckdb.Error as error:
        said = " ".join(str(error).split())[:160]  # fits on a line with the folder
        raise ParquetError(f"{folder}: cannot be written ({said})") from None
    return tuple(written)


def _columns(population: Population, unlearnable: Mapping[tuple[str, str], str]) -> dict[str, Any]:
    """Return one array a column, a row for each value."""
    sizes = np.diff(population.offsets)
    total = int(sizes.sum())
    units = zip(population.runs, population.nodes, strict=True)
    problems = [
        _problem(population.problems.get(row), unlearnable.get(unit, ""))
        for row, unit in enumerate(units)
    ]
    columns: dict[str, Any] = {
        name: np.repeat(np.array(list(values), dtype=object), sizes)
        for name, values in (
            ("node", population.nodes),
            ("device", population.devices),
            ("run", population.runs),
            ("problem", problems),
        )
    }
    for name, value in (
        ("class", population.hardware_class),
        ("benchmark", population.benchmark),
        ("metric", population.metric.name),
        ("unit", population.metric.unit),
        ("better", population.metric.better),
        ("component", population.component),
        ("group", population.group),
    ):
        columns[name] = np.full(total, value, dtype=object)
    columns["version"] = np.full(total, population.metric.version, dtype=np.int64)
    # A value's place in its sample: rows of a table have no order.
    columns["number"] = np.arange(total) - np.repeat(population.offsets[:-1], sizes)
    columns["value"] = population.values[population.offsets[0] : population.offsets[-1]]
    return columns


def _problem(own: SampleProblem | None, why_refused: str) -> str:
    """Return the cell of a row: its own problem, or else that of its run; empty for a good row."""
    if own is None and not why_refused:
        return ""
    kind, text = (own.kind, own.text) if own is not None else (REFUSED, why_refused)
    plain = "".join(letter if letter.isprintable() else " " for letter in text)
    return f"{kind}: {plain}"[:MAX_TEXT_LENGTH]


def _name(population: Population) -> str:
    key = key_of(population)
    digest = hashlib.sha256("\0".join(key).encode(errors="replace")).hexdigest()[:_DIGITS]
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", population.metric.name)[:_MAX_NAME_LENGTH].strip(".-")
    return f"{name or 'metric'}-{digest}.parquet"
