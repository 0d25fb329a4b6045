"""Import plain tables in long form, CSV or Parquet, one row a value, and what `anubis export` wrote.

`collected_runs` uses it.
"""

from __future__ import annotations

import csv
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

from pytest_anubis.codec import CodecError
from pytest_anubis.codec.foreign_text import open_text
from pytest_anubis.codec.input_limits import LARGEST_DATA, most_bytes, too_large
from pytest_anubis.core.gather import SampleStorage
from pytest_anubis.core.run import RunRecord
from pytest_anubis.store.importers.grouping import (
    group_rows,
    row_dates,
    row_durations,
    row_traits,
    run_of_each_day,
)
from pytest_anubis.store.importers.import_result import (
    UNCLASSIFIED,
    Imported,
    ImportFileError,
    Progress,
    WrongLines,
    file_date,
    renamed_lines,
    run_name,
    runs_of,
)
from pytest_anubis.store.importers.long_form import LongForm, check_rows
from pytest_anubis.store.importers.merged_parameters import merged_parameters
from pytest_anubis.store.importers.metric_map import MetricMap, known_metrics
from pytest_anubis.store.importers.odd_lines import OddLines, divided
from pytest_anubis.store.importers.table_columns import DURATION, MAX_NAME_LENGTH, NUMBERS, TEXTS
from pytest_anubis.store.samples.parquet_files import ParquetError, first_line, literal
from pytest_anubis.store.samples.parquet_reading import read_samples
from pytest_anubis.tool_outputs.table_heads import count_known, table_head

_CHUNK = 1_000  # rows: more at once leaves the processor's cache and slows the collector
_SHORT_TYPES = (
    "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER",
    "UBIGINT", "UHUGEINT", "FLOAT", "DOUBLE", "DECIMAL", "DATE", "TIME", "UUID",
)  # fmt: skip
"""Beginnings of DuckDB's types that take a few bytes a value; truth values are read as words."""
_MIN_MEMORY = 256 << 20
"""Bytes that DuckDB needs to read anything."""
_NAMES = (*TEXTS, *NUMBERS)
_MAX_HEAD_LINE = 20
"""Lines that are searched for the head, above which titles, remarks and Excel's ``sep=;`` may be."""
_PROGRESS_ROWS = 100_000  # rows between two calls of `progress`


def import_table(
    path: Path,
    *,
    hardware_class: str = UNCLASSIFIED,
    run: str = "",
    node: str = "",
    known: MetricMap | None = None,
    progress: Progress | None = None,
) -> Imported:
    """Read a table with one row a value.

    Columns, in any order: ``node, benchmark, metric, unit, better, value`` and, if wanted, ``device``
    (else ``node``), ``time`` (seconds or ISO 8601), ``class``, ``group``, ``component``, ``run``,
    ``return_code``, `duration`, and properties of the node (`TRAITS`). Where unit, direction or component are
    empty, or their columns are missing, a metric map may know them. Wrong lines are listed and left out.
    Where the times are moments, a node's run began at the earliest of its rows; else its date is the file's.

    Args:
        path: A ``.parquet`` file, else CSV with a head (comma, semicolon, tab or bar), in UTF-8 or UTF-16.
        hardware_class: The class of rows that name none.
        run: The run of rows that name none; default: the file's name.
        node: The node of rows that name none; empty: rows must name one.
        known: The metric map; default: the one of the package.
        progress: Called with one short line now and then.

    Raises:
        ImportFileError: The file cannot be read, or a needed column is missing.
    """
    run = run or run_name(path)
    wrong = WrongLines()
    parquet = path.suffix.lower() in (".parquet", ".pq")
    if parquet and (exported := exported_samples(path)) is not None:
        return exported
    reader = _Parquet(path) if parquet else _Csv(path, wrong, node)
    try:
        form = LongForm(
            reader.columns,
            wrong,
            hardware_class=hardware_class,
            run=run,
            node=node,
            known=known or known_metrics(),
            separator=reader.separator,
        )
        count = 0
        for lines, columns in reader.chunks():
            form.add(lines, columns)
            count += len(lines)
            if progress is not None and count % _PROGRESS_ROWS < _CHUNK:
                progress(f"{path.name}: {count:,} lines")
        rows = run_of_each_day(form.rows())
        grouped = group_rows(rows)
        dates = row_dates(rows)
        traits = row_traits(rows)
        took, odd = row_durations(rows)
    except ImportFileError as error:
        raise ImportFileError(f"{path}: {error}") from None
    finally:
        reader.close()
    populations, unread = grouped.populations, wrong.nodes + Counter(grouped.empty)
    runs = runs_of(populations, file_date(path), dates, traits, took, unread, run)
    merged = merged_parameters(rows)
    unused = [name for name in form.unused if name not in merged]
    notes = [*reader.notes, *(f"column {name[:40]!r} is not used" for name in unused)]
    notes += renamed_lines(form.kept)
    if odd:
        notes.append(
            f"column {DURATION!r}: {odd[0][:40]!r} is no duration: write seconds, or 90s, 5m, 2h"
        )
    if not populations:
        notes.append("no good line at all")
    return Imported(
        source=path,
        populations=populations,
        runs=_of_samples(runs) if form.exported else runs,
        file_dated=not dates,
        values=grouped.values,
        wrong=tuple(sorted(wrong.lines, key=lambda item: item.line)),
        wrong_count=wrong.count,
        causes=dict(wrong.causes),
        lost_cells=grouped.lost,
        notes=tuple(notes),
        merged=tuple(
            f"values with different {name[:40]!r} are taken for repeats of one measurement: put this column "
            "into device, group or the metric's name"
            for name in merged
        ),
    )


def exported_samples(path: Path, storage: SampleStorage | None = None) -> Imported | None:
    """Read a file that ``anubis export`` wrote, a metric's samples; None if it is of another form.

    Raises:
        ImportFileError: It cannot be read.
    """
    if not path.is_file():
        return None
    try:
        population = read_samples(path, storage)
    except ParquetError as error:
        raise ImportFileError(str(error)) from None
    if population is None:
        return None
    return Imported(
        source=path,
        populations=(population,),
        runs=_of_samples(runs_of((population,), file_date(path))),
        values=len(population.values),
    )


def _of_samples(runs: Sequence[RunRecord]) -> tuple[RunRecord, ...]:
    """Return runs of which an exported file has the samples alone."""
    return tuple(replace(run, samples_only=True) for run in runs)


class _Csv:
    """A reader of a CSV file in chunks of columns.

    Attributes:
        columns: Names in the head: the first line with ``value`` and two other known names.
        separator: Character between the columns.
    """

    def __init__(self, path: Path, wrong: WrongLines, node: str) -> None:
        self.notes: list[str] = []
        self._wrong = wrong
        self._nodes = {node} - {""}
        self._odd = OddLines()
        try:
            # Invalid UTF-8 is kept, so that it is refused with its line.
            self._file = open_text(path, errors="surrogateescape", newline="")
        except CodecError as error:
            raise ImportFileError(f"{path}: {error}") from None
        except OSError as error:
            raise ImportFileError(f"{path}: cannot be read ({error.strerror})") from error
        try:
            most = most_bytes(LARGEST_DATA)
            if os.fstat(self._file.fileno()).st_size > most:
                raise ImportFileError(f"{path}: {too_large('too large', most)}")
            self._head(path)
        except (OSError, csv.Error, CodecError, UnicodeError) as error:
            self._file.close()
            raise ImportFileError(f"{path}: cannot be read ({error})") from error
        except ImportFileError:
            self._file.close()
            raise

    def _head(self, path: Path) -> None:
        """Find the head; if no line looks like one it is the first line that is no remark."""
        lines: list[str] = []
        heads: list[tuple[str, list[str]]] = []
        while len(lines) < _MAX_HEAD_LINE and (line := self._file.readline(1 << 20)):
            lines.append(line)
            heads.append(table_head(line, _NAMES))
            columns = heads[-1][1]
            if count_known(columns, ("value",)) and count_known(columns, _NAMES) > 2:
                at = len(lines) - 1
                break
        else:
            if not lines:
                raise ImportFileError(f"{path}: the file is empty")
            filled = [line[0] != "#" and bool(line.strip("\ufeff \r\n#")) for line in lines]
            at = filled.index(True) if any(filled) else 0
        self.separator, self.columns = heads[at]
        names = [name.strip().lower() for name in self.columns]
        self._place = names.index("node") if "node" in names else len(names)
        self._begin = at + 1  # lines before the first row
        self._rest = chain(lines[at + 1 :], self._file)
        for number, line in enumerate(lines[:at], start=1):
            self._odd.add(number, [line], title=True)
        if at:
            self.notes.append(f"line {at + 1} is the head; the lines above it are not used")

    def chunks(self) -> Iterator[tuple[Sequence[int], list[tuple[Any, ...]]]]:
        """Yield (line numbers, one tuple per column)."""
        reader = csv.reader(self._rest, delimiter=self.separator)
        width = len(self.columns)
        while True:
            before = reader.line_num + self._begin
            rows: list[list[str]] = []
            more = self._fill(rows, reader)
            lines: Sequence[int] = range(before + 1, before + 1 + len(rows))
            several = reader.line_num + self._begin - before != len(rows)
            if several:
                lines = _first_lines(rows, before + 1)
            if several or set(map(len, rows)) != {width} or any(map(self._is_head, rows)):
                lines, rows = self._without_odd(lines, rows, quoted=several)
            if self._place < width:
                self._nodes.update({row[self._place] for row in rows})
            if rows:
                yield lines, list(zip(*rows, strict=True))
            if not more:
                nodes = {node.strip() for node in self._nodes}
                self._odd.list_lost(width, nodes, self._wrong)
                return

    def _fill(self, rows: list[list[str]], reader: Iterator[list[str]]) -> bool:
        """Read up to a chunk of rows; return False at the end of the file."""
        try:
            rows.extend(islice(reader, _CHUNK))
        except csv.Error as error:
            # Rows before the bad one are kept, and the reader continues after it.
            line = getattr(reader, "line_num", -1) + self._begin
            self._wrong.add(line, f"not CSV ({error})", "not CSV")
            return True
        return len(rows) == _CHUNK

    def _is_head(self, row: Sequence[str]) -> bool:
        """Return whether a row may be a repeated head, as in concatenated tables, or a rule below it."""
        return row[0].strip() in self.columns or not row[0].strip("-=+: ")

    def _without_odd(
        self, lines: Sequence[int], rows: Sequence[list[str]], *, quoted: bool
    ) -> tuple[list[int], list[list[str]]]:
        """Leave out what is no row: of another width, rules, repeated heads, and rows in a quotation.

        Only with `quoted` some row has several lines.

        Raises:
            ImportFileError: A head has the columns in another order.
        """
        kept = []
        for line, row in zip(lines, rows, strict=True):
            names = [cell.strip() for cell in row]
            if swallowed := next(filter(self._holds_rows, row if quoted else ()), ""):
                self._list_swallowed(line, row, swallowed)
            elif len(row) != len(self.columns):
                self._add_odd(line, row)
            elif sorted(names) == sorted(self.columns):
                if names != list(self.columns):
                    raise ImportFileError(
                        f"line {line}: another head, with the columns in another order; split the table there"
                    )
            elif any(name.strip("-=+: ") for name in names):
                kept.append((line, row))
        return [line for line, _ in kept], [row for _, row in kept]

    def _holds_rows(self, cell: str) -> bool:
        """Return whether a cell contains a line with about as many parts as a row of the table."""
        least = max(len(self.columns) - 2, 1)
        return "\n" in cell and any(
            line.count(self.separator) >= least for line in cell.split("\n")
        )

    def _list_swallowed(self, first: int, row: Sequence[str], swallowed: str) -> None:
        """List the lines of a row with a quotation mark that is closed lines below, or never."""
        begin = self.separator.join(row[: row.index(swallowed) + 1]).split("\n")[0]
        for line, part in enumerate((begin, *swallowed.split("\n")[1:]), start=first):
            cells = part.split(self.separator)
            node = cells[self._place].strip(' "\r') if self._place < len(cells) else ""
            text = f"a quotation mark in line {first} is closed lines below it, or never"
            self._wrong.add(line, text, "swallowed by a quotation mark", node)

    def _add_odd(self, line: int, row: list[str]) -> None:
        """Keep a row of another width, unless it is the head of another table, which is no loss."""
        cells = divided(row[0], len(self.columns)) if len(row) == 1 else row
        if [cell.strip() for cell in cells] != list(self.columns):
            cells = cells or row
            node = cells[self._place].strip() if self._place < len(cells) else ""
            self._odd.add(line, cells, node)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _first_lines(rows: Sequence[Sequence[str]], first: int) -> list[int]:
    """Return the line on which each row begins if quoted fields contain line ends."""
    found = []
    for row in rows:
        found.append(first)
        first += 1 + sum(field.count("\n") for field in row)
    return found


class _Parquet:
    """A reader of a Parquet file in chunks of columns, by DuckDB."""

    separator = ""
    notes: Sequence[str] = ()

    def __init__(self, path: Path) -> None:
        try:
            import duckdb
        except ImportError:
            raise ImportFileError(
                f"{path}: Parquet needs DuckDB; install it with `pip install 'pytest-anubis[fleet]'`, "
                "or export the table as CSV"
            ) from None
        if not path.is_file():
            raise ImportFileError(f"{path}: cannot be read (no such file)")
        # DuckDB's own errors, and those of its conversion to Python.
        self._errors = (duckdb.Error, RuntimeError, ValueError, OverflowError)
        try:
            memory = max(most_bytes(LARGEST_DATA), _MIN_MEMORY)
        except CodecError as error:
            raise ImportFileError(str(error)) from None
        # Without a temporary folder, too large a file ends with an error instead of a full disk.
        self._connection = duckdb.connect(
            ":memory:", config={"memory_limit": f"{memory}B", "temp_directory": ""}
        )
        try:
            # The path is a parameter without wildcards, never a part of the statement.
            given = [literal(path)]
            head = self._connection.execute("SELECT * FROM read_parquet(?) LIMIT 0", given)
            self.columns = [str(item[0]) for item in head.description]
            kinds = [str(item[1]) for item in head.description]
            count = self._connection.execute("SELECT count(*) FROM read_parquet(?)", given)
            self._rows = int((count.fetchone() or (0,))[0])
            self._result = self._connection.execute(_statement(kinds), given)
        except self._errors as error:
            self.close()
            raise ImportFileError(f"{path}: not a Parquet file ({first_line(error)})") from None

    def chunks(self) -> Iterator[tuple[Sequence[int], list[tuple[Any, ...]]]]:
        """Yield (row numbers, one tuple per column)."""
        check_rows(self._rows)
        last = 0
        while True:
            try:
                rows = self._result.fetchmany(_CHUNK)
            except self._errors as error:
                raise ImportFileError(f"damaged after row {last} ({first_line(error)})") from None
            if not rows:
                return
            first, last = last + 1, last + len(rows)
            yield range(first, last + 1), list(zip(*rows, strict=True))

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def _statement(kinds: Sequence[str]) -> str:
    """Return the statement that reads a Parquet file, with too long texts cut to an ellipsis.

    A file can repeat a long text in no space, which must not become one object a row. Columns get our own
    names, so that no name of the file is part of the statement.
    """
    names = [f"c{number}" for number in range(len(kinds))]
    taken = [
        name if kind.startswith(_SHORT_TYPES) and not kind.endswith("]") else _cut(name)
        for name, kind in zip(names, kinds, strict=True)
    ]
    return f"SELECT {', '.join(taken)} FROM read_parquet(?) AS t({', '.join(names)})"  # noqa: S608


def _cut(name: str) -> str:
    text = f"CAST({name} AS VARCHAR)"
    short = f"left({text}, {MAX_NAME_LENGTH}) || '…'"  # refused as a name, and no number either
    return f"CASE WHEN length({text}) > {MAX_NAME_LENGTH} THEN {short} ELSE {text} END"
