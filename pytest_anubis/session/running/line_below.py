"""A line below whatever pytest writes on a terminal, out of its way before the next thing is written."""

from __future__ import annotations

import re
import shutil
import threading
from typing import Any

from pytest_anubis.report.text.text_table import clip, printable, width_of

GONE = "\x1b[J"
"""Clears from the cursor to the end of the screen: pytest's own text ends at the cursor."""


_UNSEEN = re.compile(r"\x1b(\[[0-9;?]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\))")
"""What colours a text, or tells the terminal something (OSC), and takes no column."""


class LineBelow:
    """Draws one line below pytest's; the cursor stays where pytest left it.

    Whatever goes through pytest's writer clears the line first, so nothing of pytest's is drawn over, and a
    text that somebody else writes stands where it would without the line.

    Args:
        writer: pytest's (`pytest.Config.get_terminal_writer`), on a terminal that can move its cursor.
    """

    def __init__(self, writer: Any) -> None:
        self._writer = writer
        self._raw = writer.write_raw
        self._current = (
            ""  # of pytest's line, as it was written; its own account runs ahead of that
        )
        self._shown = False
        self._closed = False
        self._lock = threading.RLock()  # workers' messages are told in threads of their own
        writer.write_raw = self._write

    def show(self, text: str) -> None:
        """Replace the line, cut to the terminal; nothing is drawn where pytest's own line is full.

        Args:
            text: One line; it may name files and processes of others.
        """
        columns = shutil.get_terminal_size().columns
        text = clip(printable(text), columns - 1)
        with self._lock:
            column = width_of(self._current)
            # Wrapped: where the cursor stands depends on the terminal.
            if self._closed or column >= columns:
                return
            # Down, draw, back up: a new line at the end of the screen moves everything, so nothing else can
            # say where pytest's line is.
            below = f"\n\r{text}\x1b[A\x1b[{column + 1}G" if column else f"{text}\r"
            self._out(GONE + below)
            self._shown = True

    def clear(self) -> None:
        """Take the line away until the next one is shown."""
        with self._lock:
            self._clear()

    def close(self) -> None:
        """Clear the line for good, and let pytest's writer be."""
        with self._lock:
            self._clear()
            self._closed = True
            if self._writer.write_raw == self._write:  # else somebody wraps it as we do
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
