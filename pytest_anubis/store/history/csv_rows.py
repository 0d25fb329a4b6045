"""Read the CSV tables that people enter, incidents and registers of nodes, with any usual separator."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_anubis.codec import CodecError, read_bytes
from pytest_anubis.codec.foreign_text import decoded
from pytest_anubis.store.history.database import HistoryError
from pytest_anubis.tool_outputs.table_heads import missing, table_head

_MAX_BYTES = 8 << 20
"""Bytes of a file, a hundred thousand lines. Python's objects take up to 250 times the text, so 2 GiB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableImport:
    """The result of reading such a table into the history."""

    added: int  # how many nodes or incidents are new
    known: int  # how many were in the history already
    wrong: tuple[str, ...]  # messages about the lines that were left out
    left_out: int  # how many lines were left out
    traits: tuple[str, ...] = ()  # the columns that were kept as traits of nodes


def read_rows(
    path: Path, needed: Sequence[str], optional: Sequence[str]
) -> list[tuple[int, dict[str, str]]]:
    """Return the rows of a table, each with its line and column -> text; what is no UTF-8 is replaced.

    Needed columns are named in small letters. Besides the optional ones it may have any others.

    Raises:
        HistoryError: It cannot be read, is too large, is no CSV, or has not these columns; one line.
    """
    try:
        text = decoded(read_bytes(path, largest=_MAX_BYTES))
        mark, columns = table_head(text.partition("\n")[0], (*needed, *optional))
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=mark)
        next(reader, None)
        head = [name.strip().lower() for name in columns]
        wrong = [missing(head, mark, name) for name in needed if name not in head]
        if wrong:
            raise HistoryError(
                f"{path} line 1: {wrong[0]}; needed {'is' if len(needed) == 1 else 'are'} "
                f"{', '.join(needed)}, possible {', '.join(optional)}"
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
