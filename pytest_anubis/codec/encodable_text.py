"""Text that every encoding takes: bytes that nobody could decode must not cost a report or a file."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any, TypeVar

MAX_TEXT_LENGTH = 1024 * 1024
"""Characters of one text of a report, and bytes of what a test prints on one stream in one phase, that are
kept: the first and the last half. Nobody reads more, and a few of them still travel in a moment."""

LONE = re.compile("[\ud800-\udfff]")
"""Lone surrogates, which no encoding takes."""

_TEXTLESS = frozenset((float, int, bool, type(None)))

T = TypeVar("T")


def encodable(text: str) -> str:
    r"""Return the text with lone surrogates spelled out, ``\udcff``, as pytest spells them in ids.

    Python makes them of bytes that it cannot decode (in file names, in output read with
    ``surrogateescape``), and no encoding takes them.
    """
    if text.isascii():
        return text
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def without_surrogates(text: str) -> str:
    """Return text with every lone surrogate replaced by U+FFFD.

    That is for what is read and kept, where a hole must not become other words.
    """
    return text if text.isascii() else LONE.sub("\N{REPLACEMENT CHARACTER}", text)


def bounded(text: str) -> str:
    """Return the text, of a very long one its beginning and its end."""
    if len(text) <= MAX_TEXT_LENGTH:
        return text
    half = MAX_TEXT_LENGTH // 2
    return f"{text[:half]}\n... {len(text) - 2 * half} characters left out ...\n{text[-half:]}"


def all_encodable(value: T) -> T:
    """Return the value with every text inside encodable, in dataclasses, mappings, lists and tuples.

    What needs no change is returned itself.
    """
    changed: Any = _changed(value)
    return value if changed is None else changed


def _changed(value: Any) -> Any:
    """Return the value anew if a text inside had to be changed, else None."""
    if isinstance(value, str):
        new = encodable(value)
        return None if new == value else new
    if isinstance(value, Mapping):
        pairs = {all_encodable(key): all_encodable(item) for key, item in value.items()}
        return None if _same([*pairs, *pairs.values()], [*value, *value.values()]) else pairs
    if isinstance(value, list | tuple):
        if set(map(type, value)) <= _TEXTLESS:  # long series of numbers
            return None
        items = [all_encodable(item) for item in value]
        if _same(items, value):
            return None
        return tuple(items) if isinstance(value, tuple) else items
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = {f.name: _changed(getattr(value, f.name)) for f in dataclasses.fields(value)}
        changes = {name: part for name, part in parts.items() if part is not None}
        return dataclasses.replace(value, **changes) if changes else None
    return None


def _same(one: Any, other: Any) -> bool:
    return len(one) == len(other) and all(a is b for a, b in zip(one, other, strict=True))
