"""A status line below pytest's own output on a terminal, cleared before pytest writes again.

`live_progress` uses it.
"""

from __future__ import annotations

import re
import shutil
import threading
from typing import Any

from pytest_anubis.report.text.safe_text import printable
from pytest_anubis.report.text.text_table import clip, width_of

GONE = "\x1b[J"
"""Clears from the cursor, where pytest's text ends, to the end of the screen."""

_UNSEEN = re.compile(r"\x1b(\[[0-9;?]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\))")
"""Escape sequences (colours, OSC), which take no column."""


class LineBelow:
    """One line below pytest's output; the cursor stays where pytest left it.

    Everything that goes through pytest's writer clears the line first, so the line never mixes with it.

    Args:
        writer: pytest's (`pytest.Config.get_terminal_writer`), on a terminal that can move its cursor.
    """

    def __init__(self, writer: Any) -> None:
        self._writer = writer
        self._raw = writer.write_raw
        self._current = ""  # pytest's current line so far; its own count runs ahead of the output
        self._shown = False
        self._closed = False
        self._lock = threading.RLock()  # workers' messages come in threads of their own
        writer.write_raw = self._write

    def show(self, text: str) -> None:
        """Replace the line, cut to the terminal; draw nothing if pytest's own line is full."""
        columns = shutil.get_terminal_size().columns
        text = clip(printable(text), columns - 1)
        with self._lock:
            column = width_of(self._current)
            # On a wrapped line the position of the cursor depends on the terminal.
            if self._closed or column >= columns:
                return
            # Move down, draw, move up again: absolute positions change when a new line scrolls the screen.
            below = f"\n\r{text}\x1b[A\x1b[{column + 1}G" if column else f"{text}\r"
            self._out(GONE + below)
            self._shown = True

    def clear(self) -> None:
        """Remove the line until the next one is shown."""
        with self._lock:
            self._clear()

    def close(self) -> None:
        """Remove the line for good, and restore pytest's writer."""
        with self._lock:
            self._clear()
            self._closed = True
            if self._writer.write_raw == self._write:  # else other code has wrapped it again
                del self._writer.write_raw

    def _write(self, text: str, *, flush: bool = False) -> None:
        with self._lock:
            self._clear()
            self._raw(text, flush=flush)
            seen = _UNSEEN.sub("", self._current + text)
            self._current = re.split(r"[\n\r]", seen)[-1]

    def _clear(self) -> None:
        if self._shown:
            self._shown = False
            self._out(GONE)

    def _out(self, text: str) -> None:
        self._raw(text, flush=True)
