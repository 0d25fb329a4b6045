"""How much a file may hold before it is refused: nobody's file may eat the memory or the afternoon.

Every limit is on what a file becomes when it is read, decompressed and unpacked, not on its bytes on the
disk. One environment variable replaces all of them.
"""

from __future__ import annotations

import os

from pytest_anubis.codec.codec_error import CodecError, shown

VARIABLE = "PYTEST_ANUBIS_MAX_INPUT"

LARGEST_DATA = 1 << 30
"""Bytes of a table or of arrays: ten million values with their names, hours of a fleet. What is made of them
takes a few times as much memory, which any machine that is worth validating has."""

LARGEST_JSON = 64 << 20
"""Bytes of one JSON text: a recorded day of a node, the largest that is written here, has a few. Python's
objects take up to 25 times the text (``[],[],[]``), so this is at most 1.6 GiB."""

MAX_DEPTH = 64
"""Levels of nesting: no file of ours has ten, and Python's own limit is hit from a thousand on."""

ROW_BYTES = 100
"""Bytes that one row of a table takes while it is read: ten numbers of names, a value, a time, a line."""

POPULATION_BYTES = 2048
"""Bytes that one metric of one benchmark takes, whatever its values."""

_UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}


def most_bytes(usual: int) -> int:
    """Return how many bytes a file may hold: what the environment variable says, else what is usual.

    Raises:
        CodecError: The variable is no size.
    """
    text = os.environ.get(VARIABLE, "").strip()
    if not text:
        return usual
    number, unit = text[:-3].strip(), _UNITS.get(text[-3:])
    if unit is None or not number.isdecimal() or len(number) > 6 or int(number) == 0:
        raise CodecError(f"{VARIABLE}: {shown(text)!r} is no size such as 512MiB or 4GiB")
    return int(number) * unit


def too_large(what: str, most: int) -> str:
    """Return the sentence for what is refused, with the way to have it read all the same.

    Args:
        what: What is too large, e.g. ``12 MiB`` or ``20,000,000 rows``.
        most: Bytes that may be read.
    """
    return f"{what}, beyond the limit of {_size(most)}; raise it with {VARIABLE}={_size(4 * most)}"


def _size(count: int) -> str:
    """Return a size as the variable takes it, in whole units."""
    unit = next((u for u in ("TiB", "GiB", "MiB") if count >= _UNITS[u]), "KiB")
    return f"{max(1, count // _UNITS[unit])}{unit}"
