"""Read waivers: a TOML file of failures that a named owner answers for until a date.

`collected_judging`, `health_command` and `run_context` use it.
"""

from __future__ import annotations

import datetime
import time
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_anubis.codec import CodecError
from pytest_anubis.codec.json_files import read_bytes
from pytest_anubis.codec.moments import day_of
from pytest_anubis.core.verdict import Waiver

_MAX_BYTES = 1 << 17
"""Bytes of a file: hundreds of waivers."""

_MAX_LINE_LENGTH = 400
"""Characters of a line: a reason with its key. Python's TOML reader takes time quadratic in the parts of a
dotted key, so a file of one long key would take hours."""

_MAX_TEXT_LENGTH = 300
"""Characters of one text: a reason is a sentence that is shown in headlines."""

_NEEDED = ("owner", "reason", "expires")
_COVERS = ("test", "metric", "component")
_KEYS = (*_NEEDED, *_COVERS, "device", "node")


class WaiverError(ValueError):
    """A file of waivers cannot be used; the message is one line for people."""


def today() -> str:
    """Return today's date by this clock, ISO 8601, UTC, on which all nodes of a fleet agree."""
    return day_of(time.time())


def read_waivers(path: Path, day: str) -> tuple[Waiver, ...]:
    """Return the waivers of a file, in its order; those that have expired are marked.

    Args:
        path: The file: tables ``[[waiver]]`` with ``owner``, ``reason`` and ``expires``, and what they cover.
        day: Today, ISO 8601; a waiver is valid to the end of the day on which it expires.

    Raises:
        WaiverError: It cannot be read, or a waiver in it is incomplete; then none of it is used.
    """
    data = _parsed(path)
    unknown = sorted(data.keys() - {"waiver"})
    tables = data.get("waiver", [])
    if unknown or not isinstance(tables, list):
        what = f"{unknown[0][:40]!r}" if unknown else "'waiver' as something else than [[waiver]]"
        raise WaiverError(f"{path}: it has {what}; write every waiver as a table [[waiver]]")
    return tuple(_waiver(f"{path}: waiver {n}", one, day) for n, one in enumerate(tables, start=1))


def _parsed(path: Path) -> dict[str, Any]:
    try:
        text = read_bytes(path, largest=_MAX_BYTES).decode("utf-8")
    except OSError as error:
        raise WaiverError(f"{path}: cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise WaiverError(f"{path}: byte {error.start} is not UTF-8") from error
    except CodecError as error:
        raise WaiverError(f"{path}: {error}") from error
    for number, line in enumerate(text.split("\n"), start=1):
        if len(line) > _MAX_LINE_LENGTH:
            raise WaiverError(
                f"{path}: line {number} has more than {_MAX_LINE_LENGTH} characters; write a shorter one"
            )
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise WaiverError(f"{path}: nested too deeply") from None
    except ValueError as error:  # no TOML, or a whole number of thousands of digits
        raise WaiverError(f"{path}: not valid TOML ({_short(error)})") from error


def _waiver(where: str, table: Any, day: str) -> Waiver:
    if not isinstance(table, Mapping):
        raise WaiverError(f"{where}: not a table; write [[waiver]]")
    if unknown := sorted(table.keys() - set(_KEYS)):
        raise WaiverError(
            f"{where}: unknown key {unknown[0][:40]!r}; a waiver has {', '.join(_KEYS)}"
        )
    for name in _KEYS:
        text = table.get(name)
        wild = "" if name in _NEEDED else "*?"
        if isinstance(text, str) and not any(c.isalnum() or c in wild for c in text):
            raise WaiverError(
                f"{where}: {name} is blank; write {'who or what' if name in _NEEDED else 'what'} it is, or "
                "leave the line out where it covers any"
            )
        if name in _NEEDED and not text:
            example = "2027-01-31" if name == "expires" else '"..."'
            raise WaiverError(f"{where}: no {name}; write {name} = {example}")
    texts = {name: _text(where, name, table[name]) for name in table if name != "expires"}
    if not any(texts.get(name) for name in _COVERS):
        raise WaiverError(
            f"{where}: it says not what it covers; name a test, a metric or a component"
        )
    expires = _date(where, table["expires"])
    return Waiver(**texts, expires=expires, expired=day > expires)


def _text(where: str, name: str, value: Any) -> str:
    if not isinstance(value, str) or not value.isprintable() or len(value) > _MAX_TEXT_LENGTH:
        raise WaiverError(
            f"{where}: {name} must be one line of text, {_MAX_TEXT_LENGTH} characters at most"
        )
    return value.strip()


def _date(where: str, value: Any) -> str:
    """Return a date, given as TOML's type or as text, in ISO 8601."""
    try:
        if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
            return value.isoformat()
        return datetime.date.fromisoformat(value).isoformat()
    except (TypeError, ValueError):
        raise WaiverError(f"{where}: expires must be a date; write expires = 2027-01-31") from None


def _short(error: Exception) -> str:
    text = str(error).split("\n", 1)[0]
    return "".join(c if c.isprintable() else "?" for c in text)[:120]
