"""Refuses metrics that are recorded in a forked child or after the test's call, and ends forked children.

Such metrics would not be judged: a bad value could be lost, or be in the journal of an accepted node. A
forked child that comes back into pytest would continue as a second worker. `recorder` and `call_phase` use
it.
"""

from __future__ import annotations

import mmap
import os
import threading
import traceback

from pytest_anubis.core.events import BlockerFound
from pytest_anubis.session.context import MetricUsageError, Sink

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

_CHILD_MISTAKES = ("", IN_CHILD, CHILD_WENT_ON)
_child_mistake = mmap.mmap(-1, 1)  # index of one of these; shared with forked processes


class OwnProcess:
    """The process and lifetime of a recorder's test."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._ended = threading.Event()

    def end(self) -> None:
        """Record that the test's call has ended."""
        self._ended.set()

    def check(self, test: str, metric: str, sink: Sink) -> None:
        """Refuse a metric that nothing would judge, and report it; a child leaves that to `mistake_of_child`.

        Raises:
            MetricUsageError: This is a child process, or the test's call has ended.
        """
        __tracebackhide__ = True
        if os.getpid() != self._process:
            _child_mistake[0] = _CHILD_MISTAKES.index(IN_CHILD)
            raise MetricUsageError(IN_CHILD)
        if self._ended.is_set():
            late = f"metric {metric!r} {AFTER_END}"
            sink(BlockerFound(text=f"{test}: {late}"))
            raise MetricUsageError(late)


def forget_children() -> None:
    """Replace the shared memory, so that several runs forked from one process see only their own children."""
    global _child_mistake
    _child_mistake = mmap.mmap(-1, 1)


def mistake_of_child() -> str:
    """Return the mistake of a test's child process since the last call; empty if there was none."""
    found = _CHILD_MISTAKES[_child_mistake[0]]
    _child_mistake[0] = 0
    return found


def end_forked(process: int, error: BaseException | None) -> None:
    """End this process at once if it was forked from the one that began the test, which alone reports it."""
    if os.getpid() == process:
        return
    if isinstance(error, SystemExit):  # the child ends on purpose, as after sys.exit(0)
        os._exit(error.code if isinstance(error.code, int) else int(error.code is not None))
    _child_mistake[0] = _child_mistake[0] or _CHILD_MISTAKES.index(CHILD_WENT_ON)
    try:
        if error is not None:
            last = traceback.format_exception(error, limit=-1, chain=False)  # where it was raised
            os.write(2, "".join(last).encode(errors="replace"))
    finally:
        os._exit(1)
