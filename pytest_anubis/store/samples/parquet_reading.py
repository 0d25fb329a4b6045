"""Samples out of the Parquet files that `parquet_files` writes, read in columns, some at a time.

A file of another form is left to the importers, which look at every line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from pytest_anubis.codec.input_limits import LARGEST_DATA, ROW, most_bytes, too_large
from pytest_anubis.core.gather import Shelf, invalid_rows
from pytest_anubis.core.metric import DIRECTIONS, Metric
from pytest_anubis.core.sample import ABSENT, FloatArray, Population, Problem
from pytest_anubis.store.samples.parquet_files import (
    COLUMNS,
    VERSION,
    ParquetError,
    first_line,
    literal,
)

_AT_ONCE = 1 << 22
"""Rows of a file that are read at a time: 64 MiB with their numbers."""
_VALUE = 8
"""Bytes of a value."""
_ON_SHELF = 4 << 30
"""Bytes of a metric's values where they need not be in memory: two million units of 256. Parquet repeats a
value in no space at all, and nobody's file may fill the disk."""
_KINDS = ("VARCHAR",) * (len(COLUMNS) - 2) + ("BIGINT", "DOUBLE")
_LIMITS: dict[str, str | bool | int | float | list[str]] = {
    "memory_limit": "512MB",
    "temp_directory": "",
}
"""Memory of DuckDB next to the arrays: it groups a million units in a third of it, and must fill no disk."""
_UNIT = ("node", "device", "run", "problem")
_LONG = 1000
"""Characters that a name may have at most, as in other tables."""
_PROBLEMS = ("failed", "missing", ABSENT, "disturbed", "waived", "invalid", "unit", "version")


def read_samples(path: Path, shelf: Shelf | None = None) -> Population | None:
    """Return the population of a file that was exported; None if it is of another form.

    Args:
        path: A Parquet file.
        shelf: Where values lie that are too many for the memory; None: in memory.

    Raises:
        ParquetError: It is damaged, or too large for the memory where there is no shelf.
    """
    try:
        import duckdb
    except ImportError:
        return None  # whoever reads other tables says what is missing
    errors = (duckdb.Error, RuntimeError, ValueError, OverflowError)
    try:
        with duckdb.connect(":memory:", config=_LIMITS) as connection:
            return _population(connection, literal(path), shelf)
    except ParquetError as error:
        raise ParquetError(f"{path}: {error}") from None
    except errors as error:
        said = f"damaged, or no Parquet file ({first_line(error)})"
        raise ParquetError(f"{path}: {said}; export it anew, or remove it") from None


def _population(connection: Any, name: str, shelf: Shelf | None) -> Population | None:
    head = connection.execute("SELECT * FROM read_parquet(?) LIMIT 0", [name]).description
    known = list(zip(COLUMNS, _KINDS, strict=True))
    described = [(str(one[0]), str(one[1])) for one in head]
    versioned = (VERSION, "BIGINT") in described
    if described != known[:-2] + [(VERSION, "BIGINT")] * versioned + known[-2:]:
        return None
    version = 1
    if versioned:
        found = connection.execute("SELECT DISTINCT version FROM read_parquet(?) LIMIT 2", [name])
        versions = found.fetchall()
        if len(versions) != 1 or versions[0][0] is None or versions[0][0] < 1:
            return None
        version = int(versions[0][0])
    shared = connection.execute(
        'SELECT class, benchmark, metric, unit, better, component, "group", count(*) '
        "FROM read_parquet(?) GROUP BY ALL LIMIT 2",
        [name],
    ).fetchall()
    if len(shared) != 1 or any(not isinstance(text, str) for text in shared[0][:-1]):
        return None
    *texts, total = shared[0]
    plain = _texts(np.array(texts, dtype=object)) is not None
    if not plain or texts[4] not in DIRECTIONS or not all(texts[1:4]):
        return None
    most = most_bytes(LARGEST_DATA if shelf is None else _ON_SHELF)
    if total * _VALUE > most:
        raise ParquetError(too_large(f"{total:,} values", most))
    odd = connection.execute(
        "SELECT count(*), count(*) FILTER (WHERE c <> last + 1 OR low <> high) FROM ("
        "SELECT count(*) AS c, max(number) AS last, min(problem) AS low, max(problem) AS high "
        "FROM read_parquet(?) GROUP BY node, device, run)",
        [name],
    ).fetchone()
    most = most_bytes(LARGEST_DATA)
    if odd[0] * ROW > most:
        raise ParquetError(too_large(f"{odd[0]:,} units", most))
    names = ", ".join(
        f"left({one}, {_LONG + 1}) AS {one}" for one in _UNIT
    )  # the file repeats a long text
    units = connection.execute(
        f"SELECT file_row_number AS begins, {names} "  # noqa: S608 - of our own constants
        "FROM read_parquet(?, file_row_number=true) WHERE number = 0 ORDER BY file_row_number",
        [name],
    ).fetchnumpy()
    offsets = np.append(np.asarray(units["begins"], dtype=np.int64), total)
    if odd != (len(units["begins"]), 0) or offsets[0] != 0:
        return None
    columns = {one: _texts(units[one]) for one in _UNIT}
    if any(column is None for column in columns.values()) or not all(columns["node"] or ()):
        return None
    problems = _problems(columns["problem"] or ())
    parts = _values(connection, name, offsets)
    try:
        values = np.concatenate([*parts]) if shelf is None else shelf.keep(parts)
    except _OtherOrderError:
        return None
    population = Population(
        hardware_class=texts[0],
        benchmark=texts[1],
        metric=Metric(name=texts[2], unit=texts[3], better=texts[4], version=version),
        component=texts[5],
        group=texts[6],
        nodes=columns["node"] or (),
        devices=columns["device"] or (),
        runs=columns["run"] or (),
        values=values,
        offsets=offsets,
        problems=problems | invalid_rows(values, offsets, problems),
    )
    if shelf is not None:
        shelf.release()
    return population


class _OtherOrderError(Exception):
    """The values do not stand in the order of their numbers."""


def _values(connection: Any, name: str, offsets: Any) -> Iterator[FloatArray]:
    begins, total = offsets[:-1], int(offsets[-1])
    for first in range(0, total, _AT_ONCE):
        part = connection.execute(
            "SELECT number, value FROM read_parquet(?, file_row_number=true) "
            "WHERE file_row_number >= ? AND file_row_number < ?",
            [name, first, first + _AT_ONCE],
        ).fetchnumpy()
        count = min(_AT_ONCE, total - first)
        if len(part["value"]) != count or np.ma.is_masked(part["number"]):
            raise _OtherOrderError
        place = np.arange(first, first + count)
        unit = np.searchsorted(begins, place, side="right") - 1
        if not np.array_equal(part["number"], place - begins[unit]):
            raise _OtherOrderError
        # A value that is NULL is none: as NaN its row is refused.
        yield np.asarray(np.ma.filled(part["value"], np.nan), dtype=np.float64)


def _texts(found: Any) -> tuple[str, ...] | None:
    """Return a column's texts, equal ones as one object; None where any is no plain text."""
    if np.ma.is_masked(found):
        return None
    known: dict[str, str] = {}
    texts = tuple(known.setdefault(text, text) for text in np.asarray(found).tolist())
    good = all(isinstance(t, str) and t.isprintable() and len(t) <= _LONG for t in known)
    return texts if good else None


def _problems(texts: Iterable[str]) -> dict[int, Problem]:
    found = {}
    for row, text in enumerate(texts):
        kind, _, why = text.partition(": ")
        if text:
            known = kind if kind in _PROBLEMS else "invalid"
            found[row] = Problem(kind=known, text=why or text)
    return found
