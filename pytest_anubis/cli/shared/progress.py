"""Progress of long work: one line on a terminal, now and then a line elsewhere."""

from __future__ import annotations

import sys
import time
from typing import Self

from pytest_anubis.cli.shared.printing import flush_output, show
from pytest_anubis.report.text.text_table import printable

SILENT = 1.0
"""Seconds before anything is said: short work needs no progress."""


class Progress:
    """Says on stderr how far something has come that is named, e.g. ``reading``."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._begin = self._last = time.monotonic()
        self._shown = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown and sys.stderr.isatty():
            show("\r\x1b[K", file=sys.stderr)

    def say(self, text: str) -> None:
        """Show a short text, not too often."""
        now = time.monotonic()
        terminal = sys.stderr.isatty()
        if now - self._begin < SILENT or now - self._last < (0.1 if terminal else 10.0):
            return
        self._last, self._shown = now, True
        line = printable(f"{self._what}: {text}")  # it names files
        show(f"\r\x1b[K{line[:100]}" if terminal else f"{line}\n", file=sys.stderr)
        flush_output(sys.stderr)

    def count(self, done: int, total: int) -> None:
        """Show how many of how many are done, and about how long the rest will take."""
        spent = time.monotonic() - self._begin
        left = spent / max(done, 1) * (total - done)
        self.say(f"{done} of {total}, about {left:.0f} s left")
