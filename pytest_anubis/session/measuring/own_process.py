"""Who may record a metric and report a test: the test's own process, until its call has ended.

What a child process records, or a thread after the test's end, would not be judged: a wrong result would lie
in the journal of an accepted node, or be lost. A forked child that raises would go on as a second worker.
"""

from __future__ import annotations

import mmap
import os
import threading
import time
import traceback
from concurrent.futures import thread as pools

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

CHILD_WENT_ON = (
    "a child process that a test forked raised, or came to the end of the test, where nothing judges it; let "
    "it end with os._exit() and check its exit status in the test"
)

_FROM_CHILD = ("", IN_CHILD, CHILD_WENT_ON)
_in_child = mmap.mmap(
    -1, 1
)  # which of these; shared with every process that is forked from this one


_left_threads: dict[threading.Thread, str] = {}  # threads that outlived a test -> that test
_LEFT = 1.0
"""Seconds at the end of a session in which threads of tests may still end."""


class OwnProcess:
    """Knows whether the test that a recorder belongs to is still running, in this process."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._ended = threading.Event()
        self._threads = set(threading.enumerate())  # those that the test did not start

    def end(self, test: str) -> None:
        """Take note that the test's call has ended, and which of its threads have not."""
        self._ended.set()
        for one in set(threading.enumerate()) - self._threads:
            if not one.daemon and one not in pools._threads_queues:
                _left_threads.setdefault(one, test)

    def check(self, test: str, metric: str, sink: Sink) -> None:
        """Refuse a metric that nothing would judge, and let the run know of it (also `mistake_of_child`).

        Raises:
            MetricUsageError: This is a child process, or the test's call has ended.
        """
        __tracebackhide__ = True
        if os.getpid() != self._process:
            _in_child[0] = _FROM_CHILD.index(IN_CHILD)
            raise MetricUsageError(IN_CHILD)
        if self._ended.is_set():
            late = f"metric {metric!r} {AFTER_END}"
            sink(BlockerFound(text=f"{test}: {late}"))
            raise MetricUsageError(late)


def mistake_of_child() -> str:
    """Return what a child process of a test did wrongly since this was asked last; empty: nothing."""
    found = _FROM_CHILD[_in_child[0]]
    _in_child[0] = 0
    return found


def left_threads() -> list[str]:
    """Return one line for each thread of a test that still runs: what it records later would be lost.

    Idle threads of `concurrent.futures` pools are left out: they run until the process ends.
    """
    until = time.monotonic() + _LEFT
    for one in _left_threads:
        one.join(max(0.0, until - time.monotonic()))
    lines = [
        f"{test}: its thread {one.name!r} still runs at the end of the session: if it records "
        "a metric, it does so where nothing judges it; join it in the test"
        for one, test in _left_threads.items()
        if one.is_alive()
    ]
    _left_threads.clear()
    return lines


def end_forked(process: int, error: BaseException | None) -> None:
    """End this process at once if a test has forked it: only the process that began a test reports it.

    Args:
        process: The process that began the test.
        error: What was raised here; it is written to standard error, as by any Python process that ends.
    """
    if os.getpid() == process:
        return
    if isinstance(error, SystemExit):  # the child ends on purpose, as after sys.exit(0)
        os._exit(error.code if isinstance(error.code, int) else int(error.code is not None))
    _in_child[0] = _in_child[0] or _FROM_CHILD.index(CHILD_WENT_ON)
    try:
        if error is not None:
            last = traceback.format_exception(error, limit=-1, chain=False)  # where it was raised
            os.write(2, "".join(last).encode(errors="replace"))
    finally:
        os._exit(1)
