"""Durations as people write them, for the settings, marks and the command line; does not load pytest."""

from __future__ import annotations

import re

_TIME = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|min|h|d)?")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0, None: 1.0}


def seconds(text: str | float) -> float:
    """Turn ``20s``, ``2m``, ``1.5h``, ``500ms`` or a plain number of seconds into seconds.

    Raises:
        ValueError: The text is not a duration; the message shows the valid forms.
    """
    found = -1.0
    if isinstance(text, int | float) and not isinstance(text, bool):
        found = float(text)
    elif match := _TIME.fullmatch(str(text).strip()):
        found = float(match[1]) * _SECONDS[match[2]]
    if not 0 <= found < float("inf"):
        raise ValueError(f"{str(text)[:40]!r} is not a duration; write 500ms, 20s, 2m or 1.5h")
    return found
