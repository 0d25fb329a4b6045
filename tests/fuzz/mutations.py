"""What is done to a healthy file: damage as disks and cables make it, edits as people and programs do.

Everything is drawn from one `random.Random`, so the same seed makes the same file. Damage leaves whatever
protects a file as it was, so a checksum can notice; an edit may make the protection fit again, or strip it.
"""

from __future__ import annotations

import io
import json
import random
import re
import sqlite3
import struct
import tempfile
import warnings
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_anubis.store.baselines.baseline_form import baseline_from_plain, digest_of

Plain = Any

MOST_AT_ONCE = 4
"""Mutations of one input: more than a few only make it unreadable at the first byte."""

LONG = 20_000
"""Letters of a very long text: a regular expression of quadratic time needs seconds for them."""

DEEP = (60, 70, 1_500, 50_000)
"""Levels of nesting: below and beyond our limit, beyond Python's, beyond the stack's."""

CONTROL = "x\x1b[31m\nACCEPTED: node forged accepted\r\x9b2J\u202e\u2028\x00"
"""Colours, line ends, a forged verdict, a turn of the writing direction, the end of a C string."""

WORDS = (
    *("", " ", "x", "NaN", "Infinity", "-1", "1e999", "null", "../../etc/passwd", "cuda:0", "PASS", "FAIL"),
    *("ACCEPTED", "REJECTED", "xfailed", "passed", "node", "\ud800", "x\udc80", "\U0010ffff", CONTROL),
    *("2026-05-02T06:00:00+00:00", "9999-12-31T23:59:59+14:00", "=1+1", "a" * LONG, "1" * 5000),
)  # fmt: skip
NUMBERS = (
    *(0, 1, -1, 2, 0.0, -0.0, 0.5, 1.5, 100, 1e-320, 5e-324, 1e308, -1e308, 2**31, 2**53, 2**63, -(2**63)),
    *(2**64, 10**40, float("nan"), float("inf"), float("-inf")),
)  # fmt: skip
OTHERS: tuple[Plain, ...] = (None, True, False, [], {}, [[]], {"": {}}, [None], {"a": 1}, "text", 7)


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
            ``sqlite``: which of the mutations beside the general ones fit.
    """
    how: list[str] = []
    edited = False
    for _ in range(1 if rng.random() < 0.6 else rng.randint(2, MOST_AT_ONCE)):
        name, change = rng.choice(CHANGES[form])
        made = change(rng, content)
        if made is None or made == content:
            name, made = "flip a bit", _flip(rng, content)
        how.append(name)
        edited = edited or name in EDITS
        content = made
    return Mutated(content=content, how=tuple(how), edited=edited)


# Of bytes


def _place(rng: random.Random, content: bytes) -> int:
    return rng.randrange(len(content) + 1)


def _flip(rng: random.Random, content: bytes) -> bytes:
    if not content:
        return b"\x01"
    at = rng.randrange(len(content))
    return content[:at] + bytes([content[at] ^ (1 << rng.randrange(8))]) + content[at + 1 :]


def _delete(rng: random.Random, content: bytes) -> bytes:
    at = _place(rng, content)
    return content[:at] + content[at + rng.choice((1, 1, 2, 7, 100)) :]


def _insert(rng: random.Random, content: bytes) -> bytes:
    at = _place(rng, content)
    what = rng.choice(
        (
            *(rng.randbytes(1), rng.randbytes(8), b"\x00", b"\x1b[31m", b"\n", b"\r\n", b'"', b",", b"\xff"),
            *(b"{", b"}", b"[", b"0", b"9" * 5000, b"\xed\xa0\x80", b"\xef\xbb\xbf", b"-", b"e9"),
        )
    )  # fmt: skip
    return content[:at] + what + content[at:]


def _overwrite(rng: random.Random, content: bytes) -> bytes:
    at = _place(rng, content)
    size = rng.choice((1, 2, 8, 64, 512))
    what = bytes(size) if rng.random() < 0.5 else rng.randbytes(size)
    return content[:at] + what + content[at + size :]


def _truncate(rng: random.Random, content: bytes) -> bytes:
    return content[: _place(rng, content)]


def _repeat(rng: random.Random, content: bytes) -> bytes:
    begin, end = sorted((_place(rng, content), _place(rng, content)))
    return content[:end] + content[begin:end] + content[end:]


# Of lines


def _lines(content: bytes) -> list[bytes]:
    return content.splitlines(keepends=True)


def _delete_line(rng: random.Random, content: bytes) -> bytes:
    lines = _lines(content)
    if lines:
        del lines[rng.randrange(len(lines))]
    return b"".join(lines)


def _double_line(rng: random.Random, content: bytes) -> bytes:
    lines = _lines(content)
    if lines:
        lines.insert(rng.randrange(len(lines) + 1), rng.choice(lines))
    return b"".join(lines)


def _swap_lines(rng: random.Random, content: bytes) -> bytes:
    lines = _lines(content)
    if len(lines) > 1:
        one, other = rng.sample(range(len(lines)), 2)
        lines[one], lines[other] = lines[other], lines[one]
    return b"".join(lines)


def _join_lines(rng: random.Random, content: bytes) -> bytes:
    lines = _lines(content)
    if lines:
        at = rng.randrange(len(lines))
        lines[at] = lines[at].rstrip(b"\r\n")
    return b"".join(lines)


_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_WORD = re.compile(rb"[^\s,;:{}\[\]\"]+")


def _other_number(rng: random.Random, content: bytes) -> bytes | None:
    found = list(_NUMBER.finditer(content))
    if not found:
        return None
    one = rng.choice(found)
    if rng.random() < 0.5:
        made = repr(float(one[0]) * rng.choice((-1, 0.5, 2, 10, 1e6, 1e-6, 1e300)))
    else:
        made = str(rng.choice(NUMBERS))
    return content[: one.start()] + made.encode() + content[one.end() :]


def _other_word(rng: random.Random, content: bytes) -> bytes | None:
    found = list(_WORD.finditer(content))
    if not found:
        return None
    one = rng.choice(found)
    made = str(rng.choice(WORDS)).encode("utf-8", "surrogatepass")
    return content[: one.start()] + made + content[one.end() :]


# Of JSON


def _places(data: Plain) -> list[tuple[Any, Any]]:
    """Return every (holder, key or index) of a document."""
    found: list[tuple[Any, Any]] = []
    waiting = [data]
    while waiting:
        holder = waiting.pop()
        keys = holder.keys() if isinstance(holder, dict) else range(len(holder))
        for key in keys:
            found.append((holder, key))
            if isinstance(holder[key], dict | list):
                waiting.append(holder[key])
    return found


def _nested(rng: random.Random) -> str:
    depth = rng.choice(DEEP)
    opening, closing = rng.choice((("[", "]"), ('{"a":', "}")))
    return opening * depth + "0" + closing * depth


def change_json(rng: random.Random, data: Plain) -> str:
    """Return a JSON text that differs in one place from a document, which is changed."""
    places = _places(data) if isinstance(data, dict | list) else []
    if not places:
        return json.dumps(rng.choice((*OTHERS, *NUMBERS, *WORDS)))
    holder, key = rng.choice(places)
    value = holder[key]
    kind = rng.randrange(9)
    if kind == 0:
        del holder[key]
    elif kind == 1:
        holder[key] = rng.choice(OTHERS)
    elif kind == 2:
        holder[key] = rng.choice(NUMBERS)
    elif kind == 3:
        holder[key] = rng.choice(WORDS)
    elif kind == 4 and isinstance(value, int | float) and not isinstance(value, bool):
        holder[key] = value * rng.choice((-1, 0.5, 0.99, 1.01, 2, 1000))
    elif kind == 5 and isinstance(holder, dict):
        holder[str(rng.choice(WORDS))] = holder.pop(key)
    elif kind == 6 and isinstance(holder, list):
        holder += [value] * rng.choice((1, 2, 300))
    elif kind == 7:
        other, name = rng.choice(places)
        holder[key] = json.loads(json.dumps(other.get(name) if type(other) is dict else other[:1]))
    else:
        mark = "deeply nested"
        holder[key] = mark
        return json.dumps(data).replace(
            f'"{mark}"', rng.choice((_nested(rng), "9" * 5000, "1e400"))
        )
    return json.dumps(data)


def _json(rng: random.Random, content: bytes) -> bytes | None:
    try:
        data = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return change_json(rng, data).encode()


def _json_line(rng: random.Random, content: bytes) -> bytes | None:
    lines = _lines(content)
    if not lines:
        return None
    at = rng.randrange(len(lines))
    made = _json(rng, lines[at])
    if made is None:
        return None
    lines[at] = made + b"\n"
    return b"".join(lines)


# Of what is protected


def _journal_line(
    rng: random.Random, content: bytes, protect: Callable[[bytes, bytes], bytes]
) -> bytes | None:
    """Change one event; the line's end, with its checksum, comes from `protect` (old line, new text)."""
    lines = _lines(content)
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
    """Change a baseline and seal it again, as whoever promotes an edited file does."""
    made = _json(rng, content)
    if made is None:
        return None
    try:
        data = json.loads(made)
        data["digest"] = digest_of(baseline_from_plain(data))
    except (ValueError, TypeError, RecursionError):  # it is refused, sealed or not
        return made
    return json.dumps(data).encode()


def _in_archive(rng: random.Random, content: bytes) -> bytes | None:
    """Change one member of a zip archive, whose checksums then fit, or its comment."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            parts = {name: archive.read(name) for name in archive.namelist()}
            comment = archive.comment
    except (
        zipfile.BadZipFile,
        zlib.error,
        struct.error,
        OSError,
        ValueError,
        EOFError,
        RuntimeError,
    ):
        return None  # broken already
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
            parts[name] = _json(rng, parts[name]) or b""
        else:  # most of it in the head, where shapes and types stand
            change = rng.choice((_flip, _delete, _insert, _overwrite, _other_number))
            head = change(rng, parts[name][:128])
            parts[name] = (head or b"") + parts[name][128:]
    else:  # a zip archive has room for so much
        comment = (_json(rng, comment) or _flip(rng, comment))[:65_000]
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a name that stands twice is meant
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
    ("flip a bit", _flip),
    ("delete bytes", _delete),
    ("insert bytes", _insert),
    ("overwrite bytes", _overwrite),
    ("truncate", _truncate),
    ("repeat a part", _repeat),
)
_TEXT: tuple[Change, ...] = (
    ("delete a line", _delete_line),
    ("double a line", _double_line),
    ("swap lines", _swap_lines),
    ("join lines", _join_lines),
    ("another number", _other_number),
    ("another word", _other_word),
)
_SEALED: tuple[Change, ...] = (
    ("edit and seal", _with_new_checksum),
    ("edit, no checksum", _without_checksum),
)
EDITS = {"edit and seal", "edit, no checksum", "edit inside", "edit a cell"}

CHANGES: dict[str, tuple[Change, ...]] = {
    "bytes": _BYTES,
    "text": (*_BYTES, *_TEXT),
    "json": (*_BYTES, *_TEXT, *[("edit JSON", _json)] * 12),
    "lines": (*_BYTES, *_TEXT, *[("edit a line of JSON", _json_line)] * 8),
    "journal": (*_BYTES, *_TEXT, *[("edit, old checksum", _with_old_checksum)] * 5, *_SEALED * 3),
    "baseline": (*_BYTES, *_TEXT, *[("edit JSON", _json)] * 6, *[("edit and seal", _sealed)] * 12),
    "npz": (*_BYTES, *[("edit inside", _in_archive)] * 12),
    "sqlite": (*_BYTES, *[("edit a cell", _in_table)] * 12),
}
"""Form of file -> mutations, each as often as it should be drawn."""
