"""Limit how much a file may contain, so that no file fills the memory or takes hours to read.

Every limit applies to the content after decompressing and unpacking. One environment variable replaces all.
`json_files`, `trace_reading`, and what reads journals, tables and archives in `store/` use it.
"""

from __future__ import annotations

import os

from pytest_anubis.codec.codec_error import CodecError, shown

VARIABLE = "PYTEST_ANUBIS_MAX_INPUT"

LARGEST_DATA = 1 << 30
"""Bytes of a table or of arrays: ten million values with their names, hours of a fleet. Reading them takes a
few times as much memory, which the machines under test have."""

LARGEST_JSON = 64 << 20
"""Bytes of one JSON text, ten times the largest that is written here, a recorded day of a node. Python's
objects take up to 25 times the text (``[],[],[]``), so at most 1.6 GiB."""

MAX_DEPTH = 64
"""Levels of nesting: our files have less than ten, and Python's own limit is about a thousand."""

ROW_BYTES = 100
"""Memory of one row of a table while it is read: ten numbers of names, a value, a time, a line."""

POPULATION_BYTES = 2048
"""Memory of one metric of one benchmark without its values."""

_UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}


def most_bytes(usual: int) -> int:
    """Return how many bytes a file may contain, from the environment variable, else the usual limit.

    Raises:
        CodecError: The variable is no size.
    """
    text = os.environ.get(VARIABLE, "").strip()
    if not text:
        return usual
    number = text[:-3].strip()
    unit = _UNITS.get(text[-3:])
    if unit is None or not number.isdecimal() or len(number) > 6 or int(number) == 0:
        raise CodecError(f"{VARIABLE}: {shown(text)!r} is no size such as 512MiB or 4GiB")
    return int(number) * unit


def too_large(what: str, most: int) -> str:
    """Return the message about a file that is refused, with the variable that raises the limit.

    Args:
        what: What is wrong, e.g. ``too large`` or ``20,000,000 values``.
        most: Bytes that may be read.
    """
    return f"{what}, beyond the limit of {_size(most)}; raise it with {VARIABLE}={_size(4 * most)}"


def _size(count: int) -> str:
    """Return a size in the form of the variable, in whole units."""
    unit = next((u for u in ("TiB", "GiB", "MiB") if count >= _UNITS[u]), "KiB")
    return f"{max(1, count // _UNITS[unit])}{unit}"
