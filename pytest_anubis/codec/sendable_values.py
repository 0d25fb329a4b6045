"""Make any value that a test hands to pytest acceptable to execnet, which sends it to another process.

`outgoing` and `watching` use it.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from pytest_anubis.codec.encodable_text import bounded, encodable

MAX_DEPTH = 30
"""Levels of nesting that are sent, since a value may contain itself."""

MAX_REPR_LENGTH = 2000
"""Characters of the repr that replaces a value that cannot be sent."""

_MIN_INT = -(2**31)
_INT_LIMIT = 2**63
"""execnet packs a negative integer into 32 bits, and writes a larger one digit by digit."""


def sendable(value: Any, depth: int = 0) -> Any:
    """Return the value with encodable text, and with its repr in place of what execnet does not take."""
    if value is None or isinstance(value, bool | float | bytes):
        base: Any = next((b for b in (bool, float, bytes) if isinstance(value, b)), None)
        return value if base is None or type(value) is base else base(value)
    if isinstance(value, str):
        return bounded(encodable(str.__str__(value)))
    if isinstance(value, int):
        return int(value) if _MIN_INT <= value < _INT_LIMIT else _shown(value)
    if depth < MAX_DEPTH:
        if isinstance(value, Mapping):
            return {
                sendable(key, depth + 1): sendable(item, depth + 1) for key, item in value.items()
            }
        if isinstance(value, list | tuple | set | frozenset):
            items = [sendable(item, depth + 1) for item in value]
            return tuple(items) if isinstance(value, tuple) else items
        if getattr(value, "shape", None) == () and hasattr(value, "item"):  # a numpy scalar
            with suppress(Exception):
                return sendable(value.item(), MAX_DEPTH)
    return _shown(value)


def _shown(value: Any) -> str:
    try:
        text = encodable(repr(value))
    except Exception:
        return f"<{type(value).__name__} that cannot be shown>"
    return text if len(text) <= MAX_REPR_LENGTH else f"{text[:MAX_REPR_LENGTH]}..."
