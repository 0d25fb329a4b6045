"""Read samples back from the Parquet files that `parquet_files` writes, in chunks of columns.

A file of another form is left to the importers, which check every line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from pytest_anubis.codec.input_limits import LARGEST_DATA, ROW_BYTES, most_bytes, too_large
from pytest_anubis.core.gather import SampleStorage, invalid_rows
from pytest_anubis.core.metric import DIRECTIONS, Metric
from pytest_anubis.core.sample import ABSENT, REFUSED, FloatArray, Population, SampleProblem
from pytest_anubis.store.samples.parquet_files import (
    COLUMNS,
    MAX_TEXT_LENGTH,
    ParquetError,
    first_line,
    literal,
)

_AT_ONCE = 1 << 22
"""Rows of a file that are read at a time: 64 MiB with their numbers."""
_VALUE_BYTES = 8
_MAX_STORED_BYTES = 4 << 30
"""Bytes of a metric's values that may go to disk: two million units of 256. Parquet takes no space to repeat
a value, so a small file could fill the disk."""
_TYPES = ("VARCHAR",) * (len(COLUMNS) - 3) + ("BIGINT", "BIGINT", "DOUBLE")
_LIMITS: dict[str, str | bool | int | float | list[str]] = {
    "memory_limit": "512MB",
    "temp_directory": "",
}
"""Memory of DuckDB next to the arrays: it groups a million units in a third of this, without a disk."""
_UNIT = ("node", "device", "run", "problem")
_PROBLEMS = (
    "failed", "missing", ABSENT, REFUSED, "disturbed", "waived", "invalid", "unit", "version",
)  # fmt: skip


def read_samples(path: Path, storage: SampleStorage | None = None) -> Population | None:
    """Return the population of a file that was exported; None if it is of another form.

    Without a storage for values that exceed the memory, all are kept there.

    Raises:
        ParquetError: It is damaged, was exported by an older version, or is too large for the memory where
            there is no storage.
    """
    try:
        import duckdb
    except ImportError:
        return None  # the importer of tables reports that it is missing
    errors = (duckdb.Error, RuntimeError, ValueError, OverflowError)
    try:
        with duckdb.connect(":memory:", config=_LIMITS) as connection:
            return _population(connection, literal(path), storage)
    except ParquetError as error:
        raise ParquetError(f"{path}: {error}") from None
    except errors as error:
        said = f"damaged, or no Parquet file ({first_line(error)})"
        raise ParquetError(f"{path}: {said}; export it anew, or remove it") from None


def _population(connection: Any, name: str, storage: SampleStorage | None) -> Population | None:
    head = connection.execute("SELECT * FROM read_parquet(?) LIMIT 0", [name]).description
    columns = [(str(one[0]), str(one[1])) for one in head]
    known = list(zip(COLUMNS, _TYPES, strict=True))
    if columns == [column for column in known if column[0] != "version"]:
        raise ParquetError("exported by an older version of pytest-anubis; export it anew")
    if columns != known:
        return None
    shared = connection.execute(
        'SELECT class, benchmark, metric, unit, better, component, "group", version, count(*) '
        "FROM read_parquet(?) GROUP BY ALL LIMIT 2",
        [name],
    ).fetchall()
    if len(shared) != 1:
        return None
    *texts, version, total = shared[0]
    if version is None or version < 1 or not all(isinstance(text, str) for text in texts):
        return None
    plain = _texts(np.array(texts, dtype=object)) is not None
    if not plain or texts[4] not in DIRECTIONS or not all(texts[1:4]):
        return None
    most = most_bytes(LARGEST_DATA if storage is None else _MAX_STORED_BYTES)
    if total * _VALUE_BYTES > most:
        raise ParquetError(too_large(f"{total:,} values", most))
    odd = connection.execute(
        "SELECT count(*), count(*) FILTER (WHERE c <> last + 1 OR low <> high) FROM ("
        "SELECT count(*) AS c, max(number) AS last, min(problem) AS low, max(problem) AS high "
        "FROM read_parquet(?) GROUP BY node, device, run)",
        [name],
    ).fetchone()
    most = most_bytes(LARGEST_DATA)
    if odd[0] * ROW_BYTES > most:
        raise ParquetError(too_large(f"{odd[0]:,} units", most))
    # Cut, since a file can repeat a long text in no space.
    names = ", ".join(f"left({one}, {MAX_TEXT_LENGTH + 1}) AS {one}" for one in _UNIT)
    units = connection.execute(
        f"SELECT file_row_number AS begins, {names} "  # noqa: S608 - of our own constants
        "FROM read_parquet(?, file_row_number=true) WHERE number = 0 ORDER BY file_row_number",
        [name],
    ).fetchnumpy()
    offsets = np.append(np.asarray(units["begins"], dtype=np.int64), total)
    if odd != (len(units["begins"]), 0) or offsets[0] != 0:
        return None
    texts_of = {one: _texts(units[one]) for one in _UNIT}
    if any(column is None for column in texts_of.values()) or not all(texts_of["node"] or ()):
        return None
    problems = _problems(texts_of["problem"] or ())
    parts = _values(connection, name, offsets)
    try:
        values = np.concatenate([*parts]) if storage is None else storage.keep(parts)
    except _OtherOrderError:
        return None
    population = Population(
        hardware_class=texts[0],
        benchmark=texts[1],
        metric=Metric(name=texts[2], unit=texts[3], better=texts[4], version=int(version)),
        component=texts[5],
        group=texts[6],
        nodes=texts_of["node"] or (),
        devices=texts_of["device"] or (),
        runs=texts_of["run"] or (),
        values=values,
        offsets=offsets,
        problems=problems | invalid_rows(values, offsets, problems),
    )
    if storage is not None:
        storage.release()
    return population


class _OtherOrderError(Exception):
    """The values are not in the order of their numbers."""


def _values(connection: Any, name: str, offsets: Any) -> Iterator[FloatArray]:
    begins = offsets[:-1]
    total = int(offsets[-1])
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
        # NULL becomes NaN, which makes the row invalid.
        yield np.asarray(np.ma.filled(part["value"], np.nan), dtype=np.float64)


def _texts(found: Any) -> tuple[str, ...] | None:
    """Return a column's texts, equal ones as one object; None if one is no plain text."""
    if np.ma.is_masked(found):
        return None
    known: dict[str, str] = {}
    texts = tuple(known.setdefault(text, text) for text in np.asarray(found).tolist())
    good = all(isinstance(t, str) and t.isprintable() and len(t) <= MAX_TEXT_LENGTH for t in known)
    return texts if good else None


def _problems(texts: Iterable[str]) -> dict[int, SampleProblem]:
    found = {}
    for row, text in enumerate(texts):
        kind, _, why = text.partition(": ")
        if text:
            known = kind if kind in _PROBLEMS else "invalid"
            found[row] = SampleProblem(kind=known, text=why or text)
    return found
