"""Make text encodable and bounded, so that undecodable bytes or floods of output spoil no report or file.

Any value that a test hands to pytest becomes one that execnet sends to another process.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

MAX_TEXT_LENGTH = 1024 * 1024
"""Length that is kept, half from the beginning and half from the end: characters of one text of a report,
bytes of a test's output on one stream in one phase. A few such texts are sent in a moment."""

LONE = re.compile("[\ud800-\udfff]")
"""Lone surrogates, which no encoding accepts."""

_TEXTLESS = frozenset((float, int, bool, type(None)))

_MAX_DEPTH = 30
"""Levels of nesting that are sent, since a value may contain itself."""

MAX_REPR_LENGTH = 2000
"""Characters of the repr that replaces a value that cannot be sent."""

_MIN_INT = -(2**31)
_INT_LIMIT = 2**63
"""execnet packs a negative integer into 32 bits, and writes a larger one digit by digit."""


def encodable(text: str) -> str:
    r"""Return the text with lone surrogates written as ``\udcff``, as pytest writes them in ids.

    They represent bytes that Python could not decode, in file names and in output.
    """
    if text.isascii():
        return text
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def without_surrogates(text: str) -> str:
    """Return text with every lone surrogate replaced by U+FFFD, for names that are read and kept."""
    return text if text.isascii() else LONE.sub("\N{REPLACEMENT CHARACTER}", text)


def bounded(text: str) -> str:
    """Return the text, or the beginning and the end of a very long one."""
    if len(text) <= MAX_TEXT_LENGTH:
        return text
    half = MAX_TEXT_LENGTH // 2
    return f"{text[:half]}\n... {len(text) - 2 * half} characters left out ...\n{text[-half:]}"


def all_encodable(value: Any) -> Any:
    """Return the value with every text in its dataclasses, mappings, lists and tuples encodable.

    A value that needs no change is returned itself.
    """
    if isinstance(value, str):
        new = encodable(value)
        return value if new == value else new
    if isinstance(value, Mapping):
        pairs = {all_encodable(key): all_encodable(item) for key, item in value.items()}
        return value if _same([*pairs, *pairs.values()], [*value, *value.values()]) else pairs
    if isinstance(value, list | tuple):
        if set(map(type, value)) <= _TEXTLESS:  # long series of numbers
            return value
        items = [all_encodable(item) for item in value]
        if _same(items, value):
            return value
        return tuple(items) if isinstance(value, tuple) else items
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        old = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        new_parts = {name: all_encodable(part) for name, part in old.items()}
        changes = {name: part for name, part in new_parts.items() if part is not old[name]}
        return dataclasses.replace(value, **changes) if changes else value
    return value


def _same(one: Any, other: Any) -> bool:
    return len(one) == len(other) and all(a is b for a, b in zip(one, other, strict=True))


def sendable(value: Any, depth: int = 0) -> Any:
    """Return the value with encodable text, and with its repr in place of what execnet does not take."""
    if value is None or isinstance(value, bool | float | bytes):
        base: Any = next((b for b in (bool, float, bytes) if isinstance(value, b)), None)
        return value if base is None or type(value) is base else base(value)
    if isinstance(value, str):
        return bounded(encodable(str.__str__(value)))
    if isinstance(value, int):
        return int(value) if _MIN_INT <= value < _INT_LIMIT else _shown(value)
    if depth < _MAX_DEPTH:
        if isinstance(value, Mapping):
            return {
                sendable(key, depth + 1): sendable(item, depth + 1) for key, item in value.items()
            }
        if isinstance(value, list | tuple | set | frozenset):
            items = [sendable(item, depth + 1) for item in value]
            return tuple(items) if isinstance(value, tuple) else items
        if getattr(value, "shape", None) == () and hasattr(value, "item"):  # a numpy scalar
            with suppress(Exception):
                return sendable(value.item(), _MAX_DEPTH)
    return _shown(value)


def _shown(value: Any) -> str:
    try:
        text = encodable(repr(value))
    except Exception:
        return f"<{type(value).__name__} that cannot be shown>"
    return text if len(text) <= MAX_REPR_LENGTH else f"{text[:MAX_REPR_LENGTH]}..."
