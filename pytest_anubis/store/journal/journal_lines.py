"""One line of a journal: a JSON object with its number and a checksum at its end, which tell damage.

A flipped bit can turn a bad value into a good one and still be JSON; the checksum is what notices. A line
that is gone, or stands twice, is what the numbers notice. Neither is a protection against somebody who
rewrites a journal.
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
"""The field with a line's number, from 1."""


def text_of(plain: Mapping[str, Any]) -> bytes:
    """Return one event as a JSON object: ASCII, without what makes it a line."""
    return json.dumps(plain, allow_nan=False, separators=(",", ":")).encode("ascii")


def line_of(text: bytes, number: int) -> bytes:
    """Return the line of one event: its object with its number in the journal, its checksum, the line end."""
    text = text[:-1] + b',"seq":%d}' % number
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
        # Not `parse_json`, which replaces lone surrogates: names of files must come back as they were.
        data: Any = json.loads(line.rstrip().decode(), parse_constant=_refuse)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except ValueError as error:  # bad JSON, bad UTF-8, numbers with thousands of digits
        raise ValueError(f"not valid JSON ({str(error)[:60]})") from None
    if not isinstance(data, dict) or not isinstance(data.get("event"), str):
        raise ValueError("not an event (an object with an 'event' field)")
    if found is None and NUMBER in data:  # whoever numbers lines gives them checksums
        raise ValueError("its checksum is missing")
    data.pop("crc", None)
    return data


def has_checksum(line: bytes) -> bool:
    """Return whether a line ends with a checksum, right or wrong: one that was cut short does not."""
    return _CHECKSUM.search(line[-24:]) is not None


def last_number(journal: bytes) -> int:
    """Return the number of the last line that has one; 0 if none has, as in those of older versions."""
    found = _NUMBERED.findall(journal)
    return int(found[-1]) if found else 0


def _refuse(word: str) -> float:
    raise ValueError(f"{word} is not JSON")
