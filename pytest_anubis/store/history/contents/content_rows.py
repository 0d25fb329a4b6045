"""Store and read a run's journal or imported samples as compressed parts with one SHA-256 digest."""

from __future__ import annotations

import hashlib
import io
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import sqlalchemy as sa

from pytest_anubis.codec.input_limits import LARGEST_DATA, most_bytes, too_large
from pytest_anubis.codec.regular_files import open_regular
from pytest_anubis.store.history import tables as schema
from pytest_anubis.store.history.database import History, HistoryError

Kind = Literal["journal", "columns"]

_PART_BYTES = 1 << 20
"""Bytes of a part before compression: few rows for each run, and little memory for reading one."""

_LEVEL = 6
"""zlib's default: 9 takes twice as long and saves 2 % of a journal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """A run's journal or samples, ready to be stored."""

    kind: Kind  # ``journal``: the lines of its journal; ``columns``: a columnar file of its samples
    events: int  # lines of the journal, or samples of the columns
    size: int  # bytes before compression
    digest: str  # SHA-256 of all bytes, in hexadecimal digits
    # Number of events and compressed bytes of each part, in order
    parts: tuple[tuple[int, bytes], ...]

    @property
    def packed(self) -> int:
        """Bytes that it takes in the database."""
        return sum(len(part) for _, part in self.parts)

    def parts_whole(self) -> Iterator[bytes]:
        """Yield the parts as they were before they were compressed."""
        return (zlib.decompress(part) for _, part in self.parts)


def begins_with(parts: Iterable[bytes], size: int, digest: str) -> bool:
    """Return whether the first `size` bytes of a content, given by its parts, have this SHA-256."""
    found = hashlib.sha256()
    for part in parts:
        found.update(part[:size])
        size -= min(size, len(part))
    return not size and found.hexdigest() == digest


def stored_parts(connection: sa.Connection, run: int) -> Iterator[bytes]:
    """Yield the decompressed parts of a run's stored content, up to the first damaged one."""
    table = schema.content_parts
    query = sa.select(table.c.packed).where(table.c.run_id == run).order_by(table.c.number)
    for packed in connection.execute(query).scalars():
        unpacker = zlib.decompressobj()
        try:
            yield unpacker.decompress(packed, most_bytes(LARGEST_DATA))
        except zlib.error:
            return


def journal_content(path: Path) -> Content:
    """Return a journal's content.

    Raises:
        OSError: It cannot be read.
    """
    with open_regular(path) as file:
        return _packed("journal", _by_lines(file), None)


def columns_content(data: bytes, samples: int) -> Content:
    """Return the content of a columnar file, given its bytes and its number of samples."""
    cut = (data[at : at + _PART_BYTES] for at in range(0, len(data), _PART_BYTES))
    return _packed("columns", cut, samples)


def put_content(connection: sa.Connection, run: int, content: Content) -> None:
    """Store the content of a run that has none yet."""
    values = {name: getattr(content, name) for name in ("kind", "events", "digest")}
    values["bytes"] = content.size
    connection.execute(schema.contents.insert().inline().values(run_id=run, **values))
    for number, (events, packed) in enumerate(content.parts):
        row = {"run_id": run, "number": number, "events": events, "packed": packed}
        connection.execute(schema.content_parts.insert().inline().values(row))


def remove_content(connection: sa.Connection, run: int) -> None:
    """Delete the content of a run, if it has any."""
    for table in (schema.content_parts, schema.contents):
        connection.execute(table.delete().where(table.c.run_id == run))


def content_row(connection: sa.Connection, run: int) -> Any:
    """Return ``kind, events, bytes, digest`` of a run's content; None if it has none."""
    table = schema.contents
    columns = (table.c.kind, table.c.events, table.c.bytes, table.c.digest)
    return connection.execute(sa.select(*columns).where(table.c.run_id == run)).first()


def read_content(history: History, run: int) -> Iterator[bytes]:
    """Yield the decompressed parts of a run's content, and verify its size and digest at the end.

    Raises:
        HistoryError: The database refuses, or the content is damaged or incomplete.
    """
    table = schema.content_parts
    with history.reading() as connection:
        known = content_row(connection, run)
        numbers = list(
            connection.execute(
                sa.select(table.c.number).where(table.c.run_id == run).order_by(table.c.number)
            ).scalars()
        )
    if known is None:
        raise HistoryError(f"{history.shown()}: run {run} has no content here")
    digest = hashlib.sha256()
    left = known.bytes
    damaged = HistoryError(
        f"{history.shown()}: the content of run {run} is damaged; push its journal again"
    )
    most = most_bytes(LARGEST_DATA)
    for expected, number in enumerate(numbers):
        where = (table.c.run_id == run, table.c.number == number)
        with history.reading() as connection:
            packed = connection.execute(sa.select(table.c.packed).where(*where)).scalar()
        if number != expected or not isinstance(packed, bytes):
            raise damaged
        unpacker = zlib.decompressobj()
        try:
            part = unpacker.decompress(packed, most + 1)
        except zlib.error:
            raise damaged from None
        if len(part) > most:
            raise HistoryError(f"{history.shown()}: {too_large('a part is too long', most)}")
        left -= len(part)
        digest.update(part)
        yield part
    if left or digest.hexdigest() != known.digest:
        raise damaged


def lines_of(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines of a journal with their line ends; a part ends at a line's end."""
    for part in parts:
        yield from io.BytesIO(part)  # `splitlines` would also split at a carriage return


def _packed(kind: Kind, parts: Iterable[bytes], events: int | None) -> Content:
    digest = hashlib.sha256()
    size = 0
    found = []
    for part in parts:
        digest.update(part)
        size += len(part)
        count = part.count(b"\n") + (not part.endswith(b"\n")) if events is None else 0
        found.append((count, zlib.compress(part, _LEVEL)))
    return Content(
        kind=kind,
        events=sum(count for count, _ in found) if events is None else events,
        size=size,
        digest=digest.hexdigest(),
        parts=tuple(found),
    )


def _by_lines(file: Any) -> Iterator[bytes]:
    """Yield parts of whole lines; a line that is longer than a part is a part by itself."""
    for lines in iter(partial(file.readlines, _PART_BYTES), []):
        yield b"".join(lines)
