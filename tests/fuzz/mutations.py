"""Mutate healthy files: damage as by disks and cables, edits as by people and programs.

Everything is drawn from one `random.Random`, so the same seed makes the same file. Damage leaves whatever
protects a file as it was, so a checksum can notice; an edit may make the protection fit again, or strip it.
"""

from __future__ import annotations

import io
import json
import random
import sqlite3
import struct
import tempfile
import warnings
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pytest_anubis.store.baselines.baseline_form import baseline_from_plain, digest_of
from tests.fuzz.plain_mutations import (
    CONTROL,
    NUMBERS,
    WORDS,
    change_json,
    delete,
    delete_line,
    double_line,
    edit_json,
    edit_json_line,
    flip,
    insert,
    join_lines,
    lines_of,
    other_number,
    other_word,
    overwrite,
    repeat,
    swap_lines,
    truncate,
)

MAX_MUTATIONS = 4
"""Mutations of one input: more than a few only make it unreadable at the first byte."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutated:
    """One input.

    Attributes:
        content: The file's bytes.
        how: The mutations in order, in words.
        edited: Somebody made what protects it fit again, or took it away: it may say anything.
    """

    content: bytes
    how: tuple[str, ...]
    edited: bool


def mutate(rng: random.Random, content: bytes, form: str) -> Mutated:
    """Mutate a file one to four times.

    Args:
        rng: Where every choice comes from.
        content: The healthy file.
        form: ``bytes``, ``text``, ``json``, ``lines`` (of JSON), ``journal``, ``baseline``, ``npz`` or
            ``sqlite``: decides which mutations are added to the general ones.
    """
    how: list[str] = []
    edited = False
    for _ in range(1 if rng.random() < 0.6 else rng.randint(2, MAX_MUTATIONS)):
        name, change = rng.choice(CHANGES[form])
        made = change(rng, content)
        if made is None or made == content:
            name, made = "flip a bit", flip(rng, content)
        how.append(name)
        edited = edited or name in EDITS
        content = made
    return Mutated(content=content, how=tuple(how), edited=edited)


# Of what is protected


def _journal_line(
    rng: random.Random, content: bytes, protect: Callable[[bytes, bytes], bytes]
) -> bytes | None:
    """Change one event; the line's end, with its checksum, comes from `protect` (old line, new text)."""
    lines = lines_of(content)
    if not lines:
        return None
    at = rng.randrange(len(lines))
    try:
        data = json.loads(lines[at])
        data.pop("crc", None)
        text = change_json(rng, data).encode()
    except (ValueError, RecursionError, AttributeError):
        return None
    lines[at] = protect(lines[at], text) if text.endswith(b"}") else text + b"\n"
    return b"".join(lines)


def _with_old_checksum(rng: random.Random, content: bytes) -> bytes | None:
    def protect(line: bytes, text: bytes) -> bytes:
        return text[:-1] + line[line.rindex(b',"crc"') :] if b',"crc"' in line else text + b"\n"

    return _journal_line(rng, content, protect)


def _without_checksum(rng: random.Random, content: bytes) -> bytes | None:
    return _journal_line(rng, content, lambda line, text: text + b"\n")


def _with_new_checksum(rng: random.Random, content: bytes) -> bytes | None:
    return _journal_line(
        rng, content, lambda line, text: text[:-1] + b',"crc":"%08x"}\n' % zlib.crc32(text)
    )


def _sealed(rng: random.Random, content: bytes) -> bytes | None:
    """Change a baseline and seal it again, as by promoting an edited file."""
    made = edit_json(rng, content)
    if made is None:
        return None
    try:
        data = json.loads(made)
        data["digest"] = digest_of(baseline_from_plain(data))
    except (ValueError, TypeError, RecursionError):  # it is refused, sealed or not
        return made
    return json.dumps(data).encode()


_BROKEN_ARCHIVE = (
    zipfile.BadZipFile, zlib.error, struct.error, OSError, ValueError, EOFError, RuntimeError,
)  # fmt: skip


def _in_archive(rng: random.Random, content: bytes) -> bytes | None:
    """Change one member of a zip archive, whose checksums then fit, or its comment."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            parts = {name: archive.read(name) for name in archive.namelist()}
            comment = archive.comment
    except _BROKEN_ARCHIVE:
        return None
    if not parts:
        return None
    name = rng.choice([*parts, ""])
    if name:
        kind = rng.randrange(8)
        if kind == 0:
            del parts[name]
        elif kind == 1:
            parts[name] = parts[rng.choice(list(parts))]
        elif kind == 2:
            parts[rng.choice(("more.npy", "../escaped.npy", CONTROL))] = parts[name]
        elif parts[name][:1] == b"{" and kind < 6:
            parts[name] = edit_json(rng, parts[name]) or b""
        else:  # most of it in the head, where shapes and types stand
            change = rng.choice((flip, delete, insert, overwrite, other_number))
            head = change(rng, parts[name][:128])
            parts[name] = (head or b"") + parts[name][128:]
    else:  # a zip archive has room for so much
        comment = (edit_json(rng, comment) or flip(rng, comment))[:65_000]
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a repeated name is intended
        for one, what in parts.items():
            archive.writestr(one, what)
        archive.comment = comment
    return made.getvalue()


def _in_table(rng: random.Random, content: bytes) -> bytes | None:
    """Change one cell of a SQLite database, or the table that it is in."""
    with tempfile.NamedTemporaryFile(suffix=".sqlite") as file:
        Path(file.name).write_bytes(content)
        connection = sqlite3.connect(file.name)
        try:
            _change_table(rng, connection)
            connection.commit()
        except (sqlite3.Error, OverflowError, UnicodeError):
            return None
        finally:
            connection.close()
        return Path(file.name).read_bytes()


def _change_table(rng: random.Random, connection: sqlite3.Connection) -> None:
    ask = "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
    tables = [name for (name,) in connection.execute(ask)]
    table = rng.choice(tables)
    columns = [row[1] for row in connection.execute(f'PRAGMA table_info("{table}")')]
    column = rng.choice(columns)
    kind = rng.randrange(12)
    connection.execute("PRAGMA ignore_check_constraints = 1")
    if kind == 0:
        connection.execute(f'DROP TABLE "{table}"')
    elif kind == 1:
        connection.execute(f'ALTER TABLE "{table}" RENAME COLUMN "{column}" TO "other"')
    elif kind == 2:
        connection.execute(f'DELETE FROM "{table}"')  # noqa: S608  # names come from the database
    else:
        value = rng.choice((*WORDS, *NUMBERS, None, b"\xff\x00", "\udc80"))
        if isinstance(value, str):
            value = value.encode("utf-8", "replace").decode()
        if isinstance(value, int) and abs(value) >= 2**63:
            value = float(value)
        row = f'SELECT rowid FROM "{table}" LIMIT 1 OFFSET {rng.randrange(3)}'  # noqa: S608
        where = "" if kind < 5 else f" WHERE rowid = ({row})"
        connection.execute(f'UPDATE "{table}" SET "{column}" = ?{where}', (value,))  # noqa: S608


Change = tuple[str, Callable[[random.Random, bytes], bytes | None]]

_BYTES: tuple[Change, ...] = (
    ("flip a bit", flip),
    ("delete bytes", delete),
    ("insert bytes", insert),
    ("overwrite bytes", overwrite),
    ("truncate", truncate),
    ("repeat a part", repeat),
)
_TEXT: tuple[Change, ...] = (
    ("delete a line", delete_line),
    ("double a line", double_line),
    ("swap lines", swap_lines),
    ("join lines", join_lines),
    ("another number", other_number),
    ("another word", other_word),
)
_SEALED: tuple[Change, ...] = (
    ("edit and seal", _with_new_checksum),
    ("edit, no checksum", _without_checksum),
)
EDITS = {"edit and seal", "edit inside", "edit a cell"}

CHANGES: dict[str, tuple[Change, ...]] = {
    "bytes": _BYTES,
    "text": (*_BYTES, *_TEXT),
    "json": (*_BYTES, *_TEXT, *[("edit JSON", edit_json)] * 12),
    "lines": (*_BYTES, *_TEXT, *[("edit a line of JSON", edit_json_line)] * 8),
    "journal": (*_BYTES, *_TEXT, *[("edit, old checksum", _with_old_checksum)] * 5, *_SEALED * 3),
    "baseline": (
        *_BYTES,
        *_TEXT,
        *[("edit JSON", edit_json)] * 6,
        *[("edit and seal", _sealed)] * 12,
    ),
    "npz": (*_BYTES, *[("edit inside", _in_archive)] * 12),
    "sqlite": (*_BYTES, *[("edit a cell", _in_table)] * 12),
}
"""Form of file -> mutations, each as often as it should be drawn."""
