"""Convert our values to plain data and back, for files and for sending; read files that may be hostile.

Plain data are exact builtin types only: dict, list, str, int, float, bool and None. execnet ends the whole
session at a ``numpy.float64`` or an enum, and JSON has no NaN, which is spelled ``"NaN"``, as the infinities
are ``"Infinity"`` and ``"-Infinity"``. Every value passes through `to_plain` and `from_plain`. The marks of
``core/field_types.py`` declare what a field may hold. Open ``plain_reading.py`` first.

PYTEST_DONT_REWRITE
"""

from pytest_anubis.codec.codec_error import CodecError, found, shown
from pytest_anubis.codec.encodable_text import without_surrogates
from pytest_anubis.codec.json_files import (
    leading_json,
    parse_json,
    read_bytes,
    read_json,
)
from pytest_anubis.codec.plain_reading import from_plain
from pytest_anubis.codec.plain_writing import to_plain

__all__ = [
    "CodecError",
    "found",
    "from_plain",
    "leading_json",
    "parse_json",
    "read_bytes",
    "read_json",
    "shown",
    "to_plain",
    "without_surrogates",
]
