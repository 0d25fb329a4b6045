"""Threads that tests start: which test each belongs to, what they raise when it is over, which never end.

pytest hears of what a thread raises in whatever test runs by then, and that one may have nothing to do with
it: it would be rejected in the place of another, or nobody would be where no test runs any more.
"""

from __future__ import annotations

import functools
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import thread as pools
from contextlib import contextmanager
from weakref import WeakKeyDictionary

import pytest

_LEFT = 1.0
"""Seconds at the end of a session in which threads of tests may still end."""


class ThreadsOfTests:
    """Knows which test started a thread, and tells what that one does when the test is over.

    Attributes:
        test: The test that runs; empty between tests. A thread belongs to it, or to the one that the thread
            belongs to in which it was started.

    Args:
        tell: Takes what prevents acceptance, in one line; it is called in any thread.
    """

    def __init__(self, tell: Callable[[str], None]) -> None:
        self.test = ""
        self._tell = tell
        self._heard = self._over = False
        self._started: WeakKeyDictionary[threading.Thread, str] = WeakKeyDictionary()

    def owner(self) -> str:
        """Return the test that the calling thread belongs to; empty outside of tests."""
        return self._started.get(threading.current_thread(), self.test)

    def listen(self, config: pytest.Config) -> None:
        """Take note of every thread that starts, and of what threads raise, until pytest ends."""
        start, hear = threading.Thread.start, threading.excepthook

        @functools.wraps(start)
        def started(thread: threading.Thread) -> None:
            self._started[thread] = self.owner()
            start(thread)

        def raised(args: threading.ExceptHookArgs) -> None:
            test = self._started.get(args.thread, "") if args.thread else ""
            if self._heard and test == self.test:
                hear(args)  # pytest fails that test
                return
            threading.__excepthook__(args)
            if not self._over:
                name = args.thread.name if args.thread else "unknown"
                said = f"{args.exc_type.__name__}: {args.exc_value}".split("\n", 1)[0]
                self._tell(
                    f"{test}: its thread {name!r} raised {said}, after the test, where nothing judges it; "
                    "join it in the test"
                    if test
                    else f"thread {name!r}, which no test started, raised {said}"
                )

        def end() -> None:
            threading.excepthook = hear
            if threading.Thread.start is started:  # else somebody has wrapped it once more
                threading.Thread.start = start  # type: ignore[method-assign]

        threading.Thread.start = started  # type: ignore[assignment,method-assign]
        threading.excepthook = raised
        config.add_cleanup(end)

    @contextmanager
    def heard(self) -> Iterator[None]:
        """Let pytest hear what threads of the running test raise: at the end of the phase it asks for it."""
        self._heard = True
        try:
            yield
        finally:
            self._heard = False

    def end(self) -> None:
        """Wait a little for threads of tests, and tell which still run: what they do is judged by nobody.

        Daemons are left out, which libraries keep until the process ends, and so are idle threads of
        `concurrent.futures`.
        """
        until = time.monotonic() + _LEFT
        waiting = {
            one: test
            for one, test in list(self._started.items())
            if test and not one.daemon and not _of_pool(one)
        }
        for one, test in waiting.items():
            one.join(max(0.0, until - time.monotonic()))
            if one.is_alive():
                self._tell(
                    f"{test}: its thread {one.name!r} still runs at the end of the session: what it checks "
                    "or records, it does where nothing judges it; join it in the test"
                )
        self._over = True


def _of_pool(thread: threading.Thread) -> bool:
    """Return whether a thread is one of an executor's own."""
    processes = sys.modules.get("concurrent.futures.process")
    own = getattr(processes, "_threads_wakeups", ())
    return thread in pools._threads_queues or thread in own
