"""Who may record a metric: the test's own process, until its call has ended.

What a child process records, or a thread after the test's end, would not be judged: a wrong result would lie
in the journal of an accepted node, or be lost.
"""

from __future__ import annotations

import mmap
import os
import threading

from pytest_anubis.core.events import BlockerFound
from pytest_anubis.session.context import Sink
from pytest_anubis.session.measuring.given_values import MetricUsageError

IN_CHILD = (
    "a metric was recorded in a child process of a test, where nothing judges it; return the values to the "
    "test and record them there"
)
AFTER_END = (
    "was recorded after its test had ended, where nothing judges it; wait for it in the test"
)

_recorded_by_child = mmap.mmap(-1, 1)  # shared with every process that is forked from this one


class OwnProcess:
    """Knows whether the test that a recorder belongs to is still running, in this process."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._ended = threading.Event()

    def end(self) -> None:
        """Take note that the test's call has ended."""
        self._ended.set()

    def check(self, test: str, metric: str, sink: Sink) -> None:
        """Refuse a metric that nothing would judge, and let the run know of it (also `child_recorded`).

        Raises:
            MetricUsageError: This is a child process, or the test's call has ended.
        """
        __tracebackhide__ = True
        if os.getpid() != self._process:
            _recorded_by_child[0] = 1
            raise MetricUsageError(IN_CHILD)
        if self._ended.is_set():
            late = f"metric {metric!r} {AFTER_END}"
            sink(BlockerFound(text=f"{test}: {late}"))
            raise MetricUsageError(late)


def child_recorded() -> bool:
    """Return whether a child process has tried to record since this was asked last."""
    found = _recorded_by_child[0] == 1
    _recorded_by_child[0] = 0
    return found
