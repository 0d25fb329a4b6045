"""Recognises tests that pytest-timeout broke off, because a hang says nothing about the hardware.

pytest-timeout's signal method raises an ordinary failure in the test, which would reject the node; its thread
method ends the process. This module wraps the timer's signal handler, so it needs no text of the failure.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Generator
from typing import Any

import pytest

_broken_off = pytest.StashKey[float]()


class Timeouts:
    """Plugin that marks the reports of tests that pytest-timeout broke off."""

    @pytest.hookimpl(wrapper=True, optionalhook=True)
    def pytest_timeout_set_timer(
        self, item: pytest.Item, settings: Any
    ) -> Generator[None, Any, Any]:
        """Wrap pytest-timeout's handler of the timer's signal."""
        result = yield
        answer = signal.getsignal(signal.SIGALRM)
        by_signal = threading.current_thread() is threading.main_thread()
        if by_signal and settings.method == "signal" and callable(answer):

            def noting(number: int, frame: Any) -> None:
                __tracebackhide__ = True
                try:
                    answer(number, frame)
                except BaseException:  # without an error it saw a debugger, and the test continues
                    item.stash[_broken_off] = float(settings.timeout)
                    raise

            signal.signal(signal.SIGALRM, noting)
        return result

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Reset the mark, because an item's stash survives reruns."""
        if _broken_off in item.stash:
            del item.stash[_broken_off]

    # Outermost: a test that swallows the failure must not pass, and a hang must not count as an xfail.
    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Mark the report as failed by a hang, with the time limit."""
        report = yield
        limit = item.stash.get(_broken_off, None)
        if limit is not None and report.when in ("setup", "call", "teardown"):
            del item.stash[_broken_off]
            report.outcome = "failed"
            if hasattr(report, "wasxfail"):
                del report.wasxfail
            report.anubis = {**getattr(report, "anubis", {}), "hang": limit}
        return report
