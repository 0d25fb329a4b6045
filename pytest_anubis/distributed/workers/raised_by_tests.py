"""Handles errors by which a test ends pytest: a KeyboardInterrupt costs one test, ``pytest.exit`` the run."""

from __future__ import annotations

import signal
from collections.abc import Callable, Generator
from typing import Any

import pytest

_Exit: Any = pytest.exit.Exception


class TestRaised(Exception):
    """The failure of a test that raised an error which would have ended its worker."""

    __test__ = False
    __module__ = "builtins"  # so that the short test summary shows the bare name


class RaisedByTests:
    """Plugin that keeps such errors from ending the worker.

    A real interrupt reaches a worker as a signal, from the controller, or from execnet after the controller
    has gone. A KeyboardInterrupt without a signal is the test's own, and fails it like any exception.

    Args:
        leaving: Takes node id, text and exit status of a test that ends the run.
    """

    def __init__(self, leaving: Callable[[str, str, int | None], None]) -> None:
        self._leaving = leaving
        self._signalled = False
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._interrupt)

    def _interrupt(self, number: int, frame: Any) -> None:
        self._signalled = True
        raise KeyboardInterrupt

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_setup(self) -> Generator[None, Any, Any]:
        """Turn a KeyboardInterrupt of the test's own into its failure, in each phase."""
        try:
            return (yield)
        except KeyboardInterrupt as error:
            if self._signalled:
                raise
            raised = TestRaised(f"the test raised KeyboardInterrupt {error}".rstrip())
            raise raised.with_traceback(error.__traceback__) from None

    pytest_runtest_call = pytest_runtest_setup
    pytest_runtest_teardown = pytest_runtest_setup

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Tell the controller which test ends the run, because xdist would consider the worker dead."""
        try:
            return (yield)
        except _Exit as error:
            self._leaving(item.nodeid, str(error.msg), error.returncode)
            raise

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection(self) -> Generator[None, Any, Any]:
        """Do the same for a file that ends the run while it is imported."""
        try:
            return (yield)
        except _Exit as error:
            self._leaving("", str(error.msg), error.returncode)
            raise
