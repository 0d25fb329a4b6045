"""A run's content as rows: its journal, or its imported samples, in compressed parts with one digest."""

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

_PART = 1 << 20
"""Bytes of a part before it is compressed: few rows a run, and little memory for whoever reads one."""

_LEVEL = 6
"""zlib's own default: 9 takes twice as long for 2 % less of a journal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What a run recorded, ready to be stored.

    Attributes:
        kind: ``journal``: the lines of its journal; ``columns``: a columnar file of its samples.
        events: How many lines a journal has; of columns, how many samples.
        size: Their bytes before they were compressed.
        digest: SHA-256 of all bytes, in hexadecimal digits.
        parts: How many events each part has, and its compressed bytes, in order.
    """

    kind: Kind
    events: int
    size: int
    digest: str
    parts: tuple[tuple[int, bytes], ...]

    @property
    def packed(self) -> int:
        """Bytes that it takes in the database."""
        return sum(len(part) for _, part in self.parts)

    def parts_whole(self) -> Iterator[bytes]:
        """Yield the parts as they were before they were compressed."""
        return (zlib.decompress(part) for _, part in self.parts)


def begins_with(parts: Iterable[bytes], size: int, digest: str) -> bool:
    """Return whether the first bytes of a content, so many of them, have this digest.

    Args:
        parts: The content in order, not compressed.
        size: How many bytes.
        digest: SHA-256 in hexadecimal digits.
    """
    found = hashlib.sha256()
    for part in parts:
        found.update(part[:size])
        size -= min(size, len(part))
    return not size and found.hexdigest() == digest


def stored_parts(connection: sa.Connection, run: int) -> Iterator[bytes]:
    """Yield the parts of a run's content that is stored, not compressed; what is damaged ends them."""
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
    """Return the content of a columnar file that holds so many samples."""
    cut = (data[at : at + _PART] for at in range(0, len(data), _PART))
    return _packed("columns", cut, samples)


def digest_of(path: Path) -> str:
    """Return the digest that a file's content has, read once and not kept.

    Raises:
        OSError: It cannot be read.
    """
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def put_content(connection: sa.Connection, run: int, content: Content) -> None:
    """Store the content of a run that has none yet."""
    values = {name: getattr(content, name) for name in ("kind", "events", "digest")}
    values["bytes"] = content.size
    connection.execute(schema.contents.insert().inline().values(run_id=run, **values))
    for number, (events, packed) in enumerate(content.parts):
        row = {"run_id": run, "number": number, "events": events, "packed": packed}
        connection.execute(schema.content_parts.insert().inline().values(row))


def remove_content(connection: sa.Connection, run: int) -> None:
    """Take the content of a run out, if it has any."""
    for table in (schema.content_parts, schema.contents):
        connection.execute(table.delete().where(table.c.run_id == run))


def content_row(connection: sa.Connection, run: int) -> Any:
    """Return what is known of a run's content (``kind, events, bytes, digest``), or None."""
    table = schema.contents
    columns = (table.c.kind, table.c.events, table.c.bytes, table.c.digest)
    return connection.execute(sa.select(*columns).where(table.c.run_id == run)).first()


def read_content(history: History, run: int) -> Iterator[bytes]:
    """Yield the parts of a run's content as they were before they were stored, checked.

    Args:
        history: The history.
        run: The run's number in it.

    Raises:
        HistoryError: The database refuses, or what it holds is damaged or not all there.
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
    digest, left = hashlib.sha256(), known.bytes
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
    """Yield the lines of a journal, whose parts end where lines end, with their line ends."""
    for part in parts:
        yield from io.BytesIO(part)  # `splitlines` would end lines at a carriage return too


def _packed(kind: Kind, parts: Iterable[bytes], events: int | None) -> Content:
    digest, size, found = hashlib.sha256(), 0, []
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
    """Yield parts of whole lines: a line that is longer than a part is one by itself."""
    for lines in iter(partial(file.readlines, _PART), []):
        yield b"".join(lines)
