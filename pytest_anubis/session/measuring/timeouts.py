"""A test that pytest-timeout broke off: a hang says nothing about the hardware, however it was ended.

pytest-timeout's signal method raises an ordinary failure in the test, which would reject the node; its thread
method ends the process. What it raised is known by its timer, never by a text.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Generator
from typing import Any

import pytest

_broken_off = pytest.StashKey[float]()


class Timeouts:
    """Takes note of tests that pytest-timeout broke off, and says so in their reports."""

    @pytest.hookimpl(wrapper=True, optionalhook=True)
    def pytest_timeout_set_timer(
        self, item: pytest.Item, settings: Any
    ) -> Generator[None, Any, Any]:
        """Stand between the timer and pytest-timeout's answer to it."""
        result = yield
        answer = signal.getsignal(signal.SIGALRM)
        by_signal = threading.current_thread() is threading.main_thread()
        if by_signal and settings.method == "signal" and callable(answer):

            def noting(number: int, frame: Any) -> None:
                __tracebackhide__ = True
                try:
                    answer(number, frame)
                except BaseException:  # else it saw a debugger and lets the test go on
                    item.stash[_broken_off] = float(settings.timeout)
                    raise

            signal.signal(signal.SIGALRM, noting)
        return result

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Begin an attempt afresh: the stash of an item survives reruns."""
        if _broken_off in item.stash:
            del item.stash[_broken_off]

    # Last of all to change it: neither a test that swallows the failure passes, nor is a hang what an xfail
    # mark expects.
    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Say for how long the test was allowed to run."""
        report = yield
        limit = item.stash.get(_broken_off, None)
        if limit is not None and report.when in ("setup", "call", "teardown"):
            del item.stash[_broken_off]
            report.outcome = "failed"
            if hasattr(report, "wasxfail"):
                del report.wasxfail
            report.anubis = {**getattr(report, "anubis", {}), "hang": limit}
        return report
