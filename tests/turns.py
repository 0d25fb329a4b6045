"""Whose turn it is among the workers: tests marked ``alone`` measure time, and nothing may run beside them.

Two locks. The turn itself is shared by usual tests and held by one that is alone. Before it everybody passes
a gate, which an alone test keeps shut while it waits: else the others, who take the turn one after the other
and beside each other, would leave it no gap, and a worker waited for minutes until they all were done. A
worker keeps its turn from one alone test to the next, so that the others stop once and not for each.

PYTEST_DONT_REWRITE: it holds no assertion.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

TURN = Path(__file__)
GATE = TURN.with_name("quiet.py")


class Turns:
    """The turns of this process.

    Args:
        turn: File whose lock is the turn.
        gate: File whose lock is the gate before it.
    """

    def __init__(self, turn: Path = TURN, gate: Path = GATE) -> None:
        self._turn, self._gate = turn, gate
        self._kept: TextIO | None = None

    @contextmanager
    def take(self, *, alone: bool, alone_next: bool) -> Iterator[None]:
        """Wait for the turn of a test, and give it back after it unless the next one is alone as well."""
        turn, self._kept = self._kept, None
        if turn is not None and not alone:
            _give_back(turn)
            turn = None
        if turn is None:
            turn = self._wait(fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        try:
            yield
        finally:
            if alone and alone_next:
                self._kept = turn
            else:
                _give_back(turn)

    def end(self) -> None:
        """Give back a turn that was kept for a test that never came: the run may end at a failure."""
        turn, self._kept = self._kept, None
        if turn is not None:
            _give_back(turn)

    def _wait(self, how: int) -> TextIO:
        turn = self._turn.open(encoding="utf-8")
        with self._gate.open(encoding="utf-8") as gate:
            fcntl.flock(gate, how)
            fcntl.flock(turn, how)
            fcntl.flock(gate, fcntl.LOCK_UN)
        return turn


def _give_back(turn: TextIO) -> None:
    fcntl.flock(turn, fcntl.LOCK_UN)  # a forked child may still hold the file open
    turn.close()
