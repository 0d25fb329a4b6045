"""Reading the tables that people enter: CSV with a line of column names, whatever parts them."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from pytest_anubis.codec import CodecError, read_bytes
from pytest_anubis.codec.foreign_text import decoded
from pytest_anubis.store.history.database import HistoryError
from pytest_anubis.tool_outputs.table_heads import missing, table_head

_LARGEST = 8 << 20
"""Bytes: a hundred thousand lines. Python's objects take up to 250 times the text (a file of line ends and
single letters), so this is at most 2 GiB."""


def read_rows(
    path: Path, needed: Sequence[str], may_be: Sequence[str], *, others: bool
) -> list[tuple[int, dict[str, str]]]:
    """Return the rows of a table by their line, each column name -> text; what is no UTF-8 is replaced.

    Args:
        path: The file.
        needed: Columns that must be there, in small letters.
        may_be: Columns that may be there.
        others: Columns of other names may be there too.

    Raises:
        HistoryError: It cannot be read, is too large, is no CSV, or has not these columns; one line.
    """
    try:
        text = decoded(read_bytes(path, largest=_LARGEST))
        mark, columns = table_head(text.partition("\n")[0], (*needed, *may_be))
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=mark)
        next(reader, None)
        head = [name.strip().lower() for name in columns]
        wrong = [missing(head, mark, name) for name in needed if name not in head]
        if not others:
            wrong += [f"no column {name[:40]!r}" for name in head if name not in (*needed, *may_be)]
        if wrong:
            raise HistoryError(
                f"{path} line 1: {wrong[0]}; needed {'is' if len(needed) == 1 else 'are'} "
                f"{', '.join(needed)}, possible {', '.join(may_be)}"
            )
        return [
            (reader.line_num, dict(zip(head, row + [""] * (len(head) - len(row)), strict=False)))
            for row in reader
            if row
        ]
    except OSError as error:
        raise HistoryError(f"{path}: cannot be read ({error.strerror})") from error
    except CodecError as error:
        raise HistoryError(f"{path}: {error}") from None
    except csv.Error as error:
        raise HistoryError(f"{path}: not CSV ({error})") from error
