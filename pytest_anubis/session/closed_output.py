"""Standard streams whose reader has seen enough (``| head``, ``| less``): the rest goes nowhere, the run on.

A measurement takes hours, and pytest breaks off where it cannot print a dot.
"""

from __future__ import annotations

import io
import sys
from typing import Any


class _Unread(io.FileIO):
    """A descriptor that takes what nobody reads any more."""

    def write(self, data: Any, /) -> int:
        """Write, or, where the other end of the pipe is closed, say that all was written."""
        try:
            return super().write(data) or 0
        except BrokenPipeError:
            return memoryview(data).nbytes


def go_on_unread() -> None:
    """Let standard output and standard error outlive their reader; streams that somebody replaced stay so.

    To be called before pytest captures: it goes back to the streams that it found.
    """
    for name in ("stdout", "stderr"):
        found = getattr(sys, name)
        if found is not getattr(sys, f"__{name}__") or not isinstance(found, io.TextIOWrapper):
            continue
        try:
            found.flush()
            raw = _Unread(found.fileno(), "w", closefd=False)
        except (OSError, ValueError):  # closed, or not there to begin with
            continue
        unread = io.TextIOWrapper(
            io.BufferedWriter(raw),
            encoding=found.encoding,
            errors=found.errors,
            line_buffering=found.line_buffering,
            write_through=found.write_through,
        )
        setattr(sys, name, unread)
