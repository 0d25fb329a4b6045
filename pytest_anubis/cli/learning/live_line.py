"""What a long command is doing just now: one live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Self

from pytest_anubis.cli.shared.printing import say
from pytest_anubis.report.text.text_table import printable

if TYPE_CHECKING:
    from rich.live import Live

EVERY = 20.0
"""Seconds between two lines of a round where nothing can be drawn over: a log stays short and shows life."""


class LiveLine:
    """One line that always tells the newest; a context manager.

    On a terminal it is drawn over by `rich`; into a file or a pipe it is written now and then.
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
            # What is printed meanwhile goes above the line, unless it goes elsewhere.
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
        """Replace the line; into a file it is written when it has changed and the last one is old enough.

        Args:
            text: One line; it may name files and processes of others.
        """
        text = printable(text)
        if self._live is not None:
            from rich.text import Text

            self._live.update(Text(text, no_wrap=True, overflow="ellipsis"))
        elif text != self._shown and time.monotonic() - self._last >= EVERY:
            self._last, self._shown = time.monotonic(), text
            say(text, file=sys.stderr, flush=True)

    def say(self, text: str) -> None:
        """Print a line that stays."""
        self._last = time.monotonic()
        say(text, flush=True)
