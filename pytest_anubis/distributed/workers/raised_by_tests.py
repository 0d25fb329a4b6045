"""What a test raises to end pytest: a KeyboardInterrupt costs one test, ``pytest.exit`` the run."""

from __future__ import annotations

import signal
from collections.abc import Callable, Generator
from typing import Any

import pytest

_Exit: Any = pytest.exit.Exception


class TestRaised(Exception):
    """A test raised what would have ended its worker; the text names it."""

    __test__ = False
    __module__ = "builtins"  # so that the short test summary shows the bare name


class RaisedByTests:
    """Stands between tests and their worker.

    Nobody presses Ctrl-C in a worker: the controller does, or execnet when the controller has gone, and both
    by a signal. What comes without one, the test raised itself: it fails, as with any other exception.

    Args:
        tell: Takes node id, text and exit status of a test that wants to end the run.
    """

    def __init__(self, tell: Callable[[str, str, int | None], None]) -> None:
        self._tell = tell
        self._signalled = False
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._interrupt)

    def _interrupt(self, number: int, frame: Any) -> None:
        self._signalled = True
        raise KeyboardInterrupt

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_setup(self) -> Generator[None, Any, Any]:
        """Around the fixtures."""
        return (yield from self._around())

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_call(self) -> Generator[None, Any, Any]:
        """Around the body."""
        return (yield from self._around())

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_teardown(self) -> Generator[None, Any, Any]:
        """Around what tears down."""
        return (yield from self._around())

    def _around(self) -> Generator[None, Any, Any]:
        try:
            return (yield)
        except KeyboardInterrupt as error:
            if self._signalled:
                raise
            raised = TestRaised(f"the test raised KeyboardInterrupt {error}".rstrip())
            raise raised.with_traceback(error.__traceback__) from None  # it ends in the test

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Tell the controller who ends the run: xdist would take the worker for dead."""
        try:
            return (yield)
        except _Exit as error:
            self._tell(item.nodeid, str(error.msg), error.returncode)
            raise

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection(self) -> Generator[None, Any, Any]:
        """Likewise for files that do so while they are imported."""
        try:
            return (yield)
        except _Exit as error:
            self._tell("", str(error.msg), error.returncode)
            raise
