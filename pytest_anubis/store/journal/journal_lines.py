"""One line of a journal: a JSON object with a checksum at its end, which tells damage from what was written.

A flipped bit can turn a bad value into a good one and still be JSON; the checksum is what notices. It is no
protection against somebody who rewrites a journal.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping
from typing import Any

_CHECKSUM = re.compile(rb',"crc":"([0-9a-f]{8})"\}\s*\Z')


def line_of(plain: Mapping[str, Any]) -> bytes:
    """Return the line of one event: ASCII, with its checksum and the line end."""
    text = json.dumps(plain, allow_nan=False, separators=(",", ":")).encode("ascii")
    return text[:-1] + b',"crc":"%08x"}\n' % zlib.crc32(text)


def parse_line(line: bytes) -> dict[str, Any]:
    """Return the object of one line; one without a checksum, as older versions wrote it, is not checked.

    Raises:
        ValueError: It is damaged; the message says how.
    """
    found = _CHECKSUM.search(line[-24:])  # the checksum takes 18 bytes, the line end one or two
    if found is not None:
        text = line[: line.rindex(b',"crc":')] + b"}"
        if zlib.crc32(text) != int(found[1], 16):
            raise ValueError("its checksum is wrong")
    try:
        data: Any = json.loads(line.rstrip().decode(), parse_constant=_refuse)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except ValueError as error:  # bad JSON, bad UTF-8, numbers with thousands of digits
        raise ValueError(f"not valid JSON ({str(error)[:60]})") from None
    if not isinstance(data, dict) or not isinstance(data.get("event"), str):
        raise ValueError("not an event (an object with an 'event' field)")
    data.pop("crc", None)
    return data


def _refuse(word: str) -> float:
    raise ValueError(f"{word} is not JSON")
