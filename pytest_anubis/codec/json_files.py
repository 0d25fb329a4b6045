"""Reading a JSON file that somebody else may have written or damaged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pytest_anubis.codec.codec_error import CodecError, shown


def read_json(path: Path, *, largest: int) -> Any:
    """Return what a JSON file holds. It is strict JSON: no NaN, and no name twice in one object.

    Args:
        path: The file.
        largest: Bytes beyond which a file is not even opened.

    Raises:
        OSError: The file cannot be read.
        CodecError: It is too large, is no text or no JSON, or is nested too deeply; one line without
            the file's name.
    """
    size = path.stat().st_size
    if size > largest:
        raise CodecError(f"{size >> 20} MiB are too large, at most {largest >> 20} MiB are read")
    try:
        text = path.read_bytes().decode("utf-8")
        return json.loads(text, parse_constant=_refuse, object_pairs_hook=_unique)
    except UnicodeDecodeError as error:
        raise CodecError(f"byte {error.start} is not UTF-8") from None
    except json.JSONDecodeError as error:
        place = f"line {error.lineno} column {error.colno}"
        raise CodecError(f"not valid JSON ({error.msg})", place) from None
    except RecursionError:
        raise CodecError("nested too deeply") from None
    except CodecError:
        raise
    except ValueError as error:  # a whole number of thousands of digits
        raise CodecError(f"not valid JSON ({shown(error)})") from None


def _refuse(word: str) -> float:
    raise CodecError(f"not valid JSON ({word} is not a number)")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise CodecError(f"{twice[:40]!r} stands twice in one object")
    return found
