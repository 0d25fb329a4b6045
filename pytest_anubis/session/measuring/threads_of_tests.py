"""Assigns threads to the tests that started them, and reports their errors and endless runs.

pytest attributes a thread's error to the test that happens to run at that time. That test would fail in place
of the one that started the thread, and after the last test the error would be lost. `unseen_failures` uses
it.
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

_JOIN_SECONDS = 1.0
"""Time that threads of tests have to end after the last test."""


class ThreadsOfTests:
    """The threads that tests started.

    Attributes:
        test: The running test; empty between tests. A new thread belongs to it, or to the test of the thread
            that starts it.

    Args:
        block: Takes one line that prevents acceptance; called from any thread.
    """

    def __init__(self, block: Callable[[str], None]) -> None:
        self.test = ""
        self._block = block
        self._pytest_collects = False
        self._over = False
        self._started: WeakKeyDictionary[threading.Thread, str] = WeakKeyDictionary()

    def owner(self) -> str:
        """Return the test that the calling thread belongs to; empty outside of tests."""
        return self._started.get(threading.current_thread(), self.test)

    def install(self, config: pytest.Config) -> None:
        """Record every thread that starts and every error of a thread, until pytest ends."""
        start = threading.Thread.start
        pytest_hook = threading.excepthook

        @functools.wraps(start)
        def started(thread: threading.Thread) -> None:
            self._started[thread] = self.owner()
            start(thread)

        def raised(args: threading.ExceptHookArgs) -> None:
            test = self._started.get(args.thread, "") if args.thread else ""
            if self._pytest_collects and test == self.test:
                pytest_hook(args)  # pytest fails that test
                return
            threading.__excepthook__(args)
            if not self._over:
                name = args.thread.name if args.thread else "unknown"
                said = f"{args.exc_type.__name__}: {args.exc_value}".split("\n", 1)[0]
                self._block(
                    f"{test}: its thread {name!r} raised {said}, after the test, where nothing judges it; "
                    "join it in the test"
                    if test
                    else f"thread {name!r}, which no test started, raised {said}"
                )

        def end() -> None:
            threading.excepthook = pytest_hook
            if threading.Thread.start is started:  # else other code has wrapped it again
                threading.Thread.start = start  # type: ignore[method-assign]

        threading.Thread.start = started  # type: ignore[assignment,method-assign]
        threading.excepthook = raised
        config.add_cleanup(end)

    @contextmanager
    def collected_by_pytest(self) -> Iterator[None]:
        """Pass errors of the running test's threads to pytest, which raises them at the end of the phase."""
        self._pytest_collects = True
        try:
            yield
        finally:
            self._pytest_collects = False

    def end(self) -> None:
        """Wait briefly for threads of tests, and report those that still run: nothing judges their work.

        Daemon threads are ignored, which libraries keep until the process ends, and idle threads of
        `concurrent.futures`.
        """
        until = time.monotonic() + _JOIN_SECONDS
        waiting = {
            one: test
            for one, test in list(self._started.items())
            if test and not one.daemon and not _of_pool(one)
        }
        for one, test in waiting.items():
            one.join(max(0.0, until - time.monotonic()))
            if one.is_alive():
                self._block(
                    f"{test}: its thread {one.name!r} still runs at the end of the session: what it checks "
                    "or records, it does where nothing judges it; join it in the test"
                )
        self._over = True


def _of_pool(thread: threading.Thread) -> bool:
    """Return whether a thread belongs to an executor of `concurrent.futures`."""
    processes = sys.modules.get("concurrent.futures.process")
    own = getattr(processes, "_threads_wakeups", ())
    return thread in pools._threads_queues or thread in own
