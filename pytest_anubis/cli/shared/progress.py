"""Progress of long work: one line on a terminal, now and then a line elsewhere."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Self

from pytest_anubis.cli.shared.printing import flush_output, say, show
from pytest_anubis.report.text.safe_text import printable

if TYPE_CHECKING:
    from rich.live import Live

SILENT = 1.0
"""Seconds before anything is said: short work needs no progress."""


class Progress:
    """Progress of work with a name, e.g. ``reading``, on stderr."""

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


LOG_SECONDS = 20.0
"""Seconds between two lines of a live line that is no terminal: a log stays short and shows life."""


class LiveLine:
    """One line with the newest state of a long command; a context manager.

    On a terminal `rich` draws over it; a file or a pipe gets a line now and then.
    """

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._live: Live | None = None
        self._last = time.monotonic()
        self._shown = ""

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.live import Live

            console = Console(stderr=True, highlight=False)
            # Text printed meanwhile goes above the line, unless it goes elsewhere.
            live = Live(
                console=console,
                transient=True,
                redirect_stdout=sys.stdout.isatty(),
                refresh_per_second=5,
            )
            self._live = self._stack.enter_context(live)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
        self._live = None

    def show(self, text: str) -> None:
        """Replace the line, which may name files and processes of others.

        A file gets it if it has changed and the last one is old enough.
        """
        text = printable(text)
        if self._live is not None:
            from rich.text import Text

            self._live.update(Text(text, no_wrap=True, overflow="ellipsis"))
        elif text != self._shown and time.monotonic() - self._last >= LOG_SECONDS:
            self._last = time.monotonic()
            self._shown = text
            say(text, file=sys.stderr, flush=True)

    def say(self, text: str) -> None:
        """Print a line that stays."""
        self._last = time.monotonic()
        say(text, flush=True)
