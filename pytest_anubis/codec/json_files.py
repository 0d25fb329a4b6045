"""Read JSON, or the bytes of any file, that may be damaged or hostile; journals have `journal_lines`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from pytest_anubis.codec.codec_error import CodecError, shown
from pytest_anubis.codec.encodable_text import LONE, without_surrogates
from pytest_anubis.codec.input_limits import LARGEST_JSON, MAX_DEPTH, most_bytes, too_large
from pytest_anubis.codec.regular_files import open_regular

_TOO_DEEP = f"nested too deeply: more than {MAX_DEPTH} levels"
_PIECE = 1 << 20  # bytes read at once
_BLANK = re.compile(r"[ \t\n\r]*")


def read_json(path: Path, *, largest: int = LARGEST_JSON) -> Any:
    """Return the value of a file of strict JSON: no NaN, and no name twice in one object.

    Raises:
        OSError: The file cannot be read.
        CodecError: As of `parse_json`.
    """
    return parse_json(read_bytes(path, largest=largest), largest=largest)


def read_document(path: Path, form: str, *, largest: int) -> dict[str, Any]:
    """Return the JSON object of a file with this ``format``; empty if there is none that can be read."""
    try:
        found = read_json(path, largest=largest)
    except (OSError, CodecError):
        return {}
    return found if isinstance(found, dict) and found.get("format") == form else {}


def read_bytes(path: Path, *, largest: int) -> bytes:
    """Return the content of a file, of which no more than the limit is ever read.

    Raises:
        OSError: The file cannot be read.
        CodecError: It is too large.
    """
    most = most_bytes(largest)
    with open_regular(path) as file:
        # `read` takes memory for all that it may return, and a limit may be 1 GiB.
        found = bytearray()
        while len(found) <= most and (piece := file.read(min(_PIECE, most + 1 - len(found)))):
            found += piece
    if len(found) > most:
        raise CodecError(too_large("too large", most))
    return bytes(found)


def parse_json(text: bytes | str, *, strict: bool = True, largest: int = LARGEST_JSON) -> Any:
    """Return the value of a JSON text, with every lone surrogate replaced by U+FFFD.

    Args:
        text: One JSON value; bytes are UTF-8.
        strict: Refuse NaN and the infinities, which other tools write.
        largest: Bytes (or characters) beyond which it is refused, unless the environment says otherwise.

    Raises:
        CodecError: It is too large, is no text or no JSON, or is nested too deeply; one line without
            the file's name.
    """
    if len(text) > (most := most_bytes(largest)):
        raise CodecError(too_large("too large", most))
    try:
        text = text.decode("utf-8") if isinstance(text, bytes) else text
    except UnicodeDecodeError as error:
        raise CodecError(f"byte {error.start} is not UTF-8") from None
    data, end = _decoded(_STRICT if strict else _UNIQUE, text, _blanks(text, 0))
    if (rest := _blanks(text, end)) < len(text):
        raise _no_json("Extra data", text, rest)
    return data


def leading_json(text: str, at: int, *, unique: bool = False) -> tuple[Any, int]:
    """Return the JSON value that begins at a place of a text, and the place where it ends.

    NaN and the infinities are accepted, and lone surrogates become U+FFFD. The caller limits the text's size.

    Args:
        text: The text.
        at: Where the value begins.
        unique: Refuse a name twice in one object; else its last value counts.

    Raises:
        CodecError: It is no JSON, or is nested too deeply.
    """
    return _decoded(_UNIQUE if unique else _LENIENT, text, at)


def _decoded(decoder: json.JSONDecoder, text: str, at: int) -> tuple[Any, int]:
    try:
        data, end = decoder.raw_decode(text, at)
        _check_depth(data, text, at, end)
        escaped = text.find("\\ud", at, end) >= 0 or text.find("\\uD", at, end) >= 0
        if escaped or (not text.isascii() and LONE.search(text, at, end)):
            data = _cleaned(data)
        return data, end
    except json.JSONDecodeError as error:
        raise _no_json(error.msg, text, error.pos) from None
    except RecursionError:
        raise CodecError(_TOO_DEEP) from None
    except CodecError:
        raise
    except ValueError as error:  # a whole number of thousands of digits
        raise CodecError(f"not valid JSON ({shown(error)})") from None


def _no_json(problem: str, text: str, at: int) -> CodecError:
    error = json.JSONDecodeError(problem, text, at)
    return CodecError(f"not valid JSON ({problem})", f"line {error.lineno} column {error.colno}")


def _blanks(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    return found.end() if found else at


def _check_depth(data: Any, text: str, start: int, end: int) -> None:
    if text.count("[", start, end) + text.count("{", start, end) <= MAX_DEPTH:
        return  # the usual case, decided by counting
    level = [data] if isinstance(data, dict | list) else []
    for _ in range(MAX_DEPTH):
        level = [
            item
            for holder in level
            for item in (holder.values() if type(holder) is dict else holder)
            if type(item) is dict or type(item) is list
        ]
        if not level:
            return
    raise CodecError(_TOO_DEEP)


def _cleaned(value: Any) -> Any:
    if type(value) is str:
        return without_surrogates(value)
    if type(value) is list:
        return [_cleaned(item) for item in value]
    if type(value) is dict:
        return {without_surrogates(name): _cleaned(item) for name, item in value.items()}
    return value


def _refuse(word: str) -> float:
    raise CodecError(f"not valid JSON ({word} is not a number)")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise CodecError(f"{name[:40]!r} occurs twice in one object")
            seen.add(name)
    return found


_STRICT = json.JSONDecoder(parse_constant=_refuse, object_pairs_hook=_unique)
_UNIQUE = json.JSONDecoder(object_pairs_hook=_unique)
_LENIENT = json.JSONDecoder()
