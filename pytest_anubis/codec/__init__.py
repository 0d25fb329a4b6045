"""The one funnel between our values and plain data, for files and between processes.

Plain data are exact builtin types only: dict, list, str, int, float, bool and None. execnet refuses a
``numpy.float64`` or an enum by ending the whole session, and JSON has no NaN: it is spelled ``"NaN"``,
the infinities ``"Infinity"`` and ``"-Infinity"``. Every value goes through `to_plain` on its way out and
through `from_plain` on its way in. What a field may hold is said where it is declared, with the marks of
``core/field_types.py``; nothing else about a file's form is here. Open ``plain_reading.py`` first.

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
