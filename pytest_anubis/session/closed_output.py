"""Standard streams that survive their reader (``| head``, ``| less``); used by the exit guard.

A measurement takes hours, and pytest would stop it at the first dot that it cannot print.
"""

from __future__ import annotations

import io
import sys
from typing import Any


class _Unread(io.FileIO):
    """A stream that drops its output once the other end of the pipe is closed."""

    def write(self, data: Any, /) -> int:
        """Write, and count dropped output as written."""
        try:
            return super().write(data) or 0
        except BrokenPipeError:
            return memoryview(data).nbytes


def ignore_broken_pipes() -> None:
    """Let standard output and standard error survive their reader; replaced streams are left alone.

    Call it before pytest captures output, since pytest later restores the streams that it found.
    """
    for name in ("stdout", "stderr"):
        found = getattr(sys, name)
        if found is not getattr(sys, f"__{name}__") or not isinstance(found, io.TextIOWrapper):
            continue
        try:
            found.flush()
            raw = _Unread(found.fileno(), "w", closefd=False)
        except (OSError, ValueError):  # the stream is closed
            continue
        unread = io.TextIOWrapper(
            io.BufferedWriter(raw),
            encoding=found.encoding,
            errors=found.errors,
            line_buffering=found.line_buffering,
            write_through=found.write_through,
        )
        setattr(sys, name, unread)
