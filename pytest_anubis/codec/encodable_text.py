"""Make text encodable and bounded, so that undecodable bytes or floods of output spoil no report or file."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

MAX_TEXT_LENGTH = 1024 * 1024
"""Length that is kept, half from the beginning and half from the end: characters of one text of a report,
bytes of a test's output on one stream in one phase. A few such texts are sent in a moment."""

LONE = re.compile("[\ud800-\udfff]")
"""Lone surrogates, which no encoding accepts."""

_TEXTLESS = frozenset((float, int, bool, type(None)))


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
