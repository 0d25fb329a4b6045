"""Write and read one line of a journal: a JSON object that ends with its number and a checksum.

The checksum reveals a flipped bit, which can turn a bad value into a good one and still be JSON. The number
reveals lines that are lost or repeated. Neither protects against somebody who rewrites a journal.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping
from typing import Any

_NUMBERED = re.compile(rb',"seq":([0-9]{1,15}),"crc":"[0-9a-f]{8}"\}')
_CHECKSUM = re.compile(rb',"crc":"([0-9a-f]{8})"\}\s*\Z')

NUMBER = "seq"
"""Field with a line's number, from 1."""


def text_of(plain: Mapping[str, Any]) -> bytes:
    """Return one event as a JSON object in ASCII."""
    return json.dumps(plain, allow_nan=False, separators=(",", ":")).encode("ascii")


def line_of(text: bytes, number: int) -> bytes:
    """Return an event's object as a line, with its number in the journal and its checksum."""
    text = text[:-1] + b',"seq":%d}' % number
    return text[:-1] + b',"crc":"%08x"}\n' % zlib.crc32(text)


def parse_line(line: bytes) -> dict[str, Any]:
    """Return the object of one line, its checksum verified and removed.

    Raises:
        ValueError: The line is damaged; the message says how.
    """
    found = _CHECKSUM.search(line[-24:])  # the checksum takes 18 bytes, the line end one or two
    if found is not None:
        text = line[: line.rindex(b',"crc":')] + b"}"
        if zlib.crc32(text) != int(found[1], 16):
            raise ValueError("its checksum is wrong")
    try:
        # Not `parse_json`, which replaces lone surrogates: names of files must come back as they were.
        data: Any = json.loads(line.rstrip().decode(), parse_constant=_refuse)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except ValueError as error:  # bad JSON, bad UTF-8, numbers with thousands of digits
        raise ValueError(f"not valid JSON ({str(error)[:60]})") from None
    if not isinstance(data, dict) or not isinstance(data.get("event"), str):
        raise ValueError("not an event (an object with an 'event' field)")
    if found is None and NUMBER in data:
        raise ValueError("its checksum is missing")
    data.pop("crc", None)
    return data


def has_checksum(line: bytes) -> bool:
    """Return whether a line ends with a checksum, right or wrong; a line that was cut short does not."""
    return _CHECKSUM.search(line[-24:]) is not None


def last_number(journal: bytes) -> int:
    """Return the number of the last whole line; 0 if there is none."""
    found = _NUMBERED.findall(journal)
    return int(found[-1]) if found else 0


def _refuse(word: str) -> float:
    raise ValueError(f"{word} is not JSON")
