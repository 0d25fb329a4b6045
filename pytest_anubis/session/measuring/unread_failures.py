"""Finds failures that a test never reads: exceptions of futures, exit codes of child processes.

`concurrent.futures`, `asyncio` and pools of `multiprocessing` keep an exception until the test asks for the
result, and a child process only prints it. Without this module a test that does not ask would pass.
`unseen_failures` uses it.
"""

from __future__ import annotations

import functools
import os
import signal
import sys
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

import pytest

_ENDED = (0, -signal.SIGTERM)
"""Exit codes of children that finished, or that the test terminated."""


class _Handled:
    """One request of a server of `socketserver`, which only prints the errors of its handlers."""


class UnreadFailures:
    """The futures and children of `multiprocessing` that failed and that no test has read.

    Args:
        owner: Returns the test that the calling thread belongs to; empty outside of tests.
    """

    def __init__(self, owner: Callable[[], str]) -> None:
        self._owner = owner
        self._owners: WeakKeyDictionary[Any, str] = WeakKeyDictionary()  # future -> its test
        self._futures: dict[Any, BaseException] = {}  # failed and unread, but for asyncio
        self._children: dict[Any, str] = {}  # child -> its test
        self._codes: dict[Any, int | None] = {}  # closed child -> exit code
        self._killed: WeakSet[Any] = WeakSet()  # children to which this process sent SIGKILL
        self._exit_code: Callable[[Any], int | None] = lambda child: None

    def install(self, config: pytest.Config) -> None:
        """Record the futures and children that tests make, and which are read, until pytest ends."""
        from multiprocessing.pool import (
            ApplyResult,
            IMapIterator,
            IMapUnorderedIterator,
            MapResult,
        )
        from multiprocessing.process import BaseProcess
        from socketserver import BaseServer

        process: Any = BaseProcess
        read: Callable[[Any], int | None] = process.exitcode.fget
        self._exit_code = read
        own: list[tuple[Any, str, Any]] = []

        def wrap(
            kind: Any,
            name: str,
            *,
            before: Any = None,
            after: Any = None,
            raised: Any = None,
            given: Any = None,
        ) -> None:
            plain = getattr(kind, name)

            @functools.wraps(plain)
            def wrapped(one: Any, *args: Any, **kwargs: Any) -> Any:
                if before is not None:
                    before(one, *args)
                try:
                    result = plain(one, *args, **kwargs)
                    if given is not None:
                        given(result)
                    return result
                except Exception as error:
                    if raised is not None:
                        raised(one, error)
                    raise
                finally:
                    if after is not None:
                        after(one)

            own.append((kind, name, plain))
            setattr(kind, name, wrapped)

        def failed(future: Any, error: BaseException | None = None) -> None:
            if error is not None and self._owners.get(future):
                self._futures[future] = error

        def ended(result: Any, _number: int, outcome: tuple[bool, Any]) -> None:
            if not outcome[0] and not getattr(result, "_error_callback", None):
                failed(result, outcome[1])

        def taken(iterator: Any, error: Exception) -> None:
            if not isinstance(error, StopIteration | TimeoutError):  # the test has seen a failure
                self._futures.pop(iterator, None)
                self._owners.pop(iterator, None)

        def asked(future: Any) -> None:
            if future.done() if isinstance(future, Future) else future.ready():
                self._futures.pop(future, None)

        def unhandled(_server: Any, *_request: Any) -> None:
            error, key = sys.exc_info()[1], _Handled()
            made(key)
            failed(key, error)

        def made(future: Any) -> None:
            self._owners[future] = self._owner()

        def started(child: Any) -> None:
            if test := self._owner():
                self._children[child] = test

        def closing(child: Any) -> None:
            if child in self._children:
                self._codes[child] = read(child)

        def signalled(pid: int, number: int) -> None:
            if number == signal.SIGKILL:
                running = self._children.keys() - self._codes.keys()
                self._killed.update(child for child in running if child.pid == pid)

        def exit_code(child: Any) -> int | None:
            code = read(child)
            if code is not None:
                self._children.pop(child, None)
            return code

        wrap(Future, "__init__", after=made)
        wrap(Future, "set_exception", before=failed)
        wrap(Future, "result", after=asked)
        wrap(Future, "exception", after=asked)
        wrap(ApplyResult, "__init__", after=made)
        wrap(IMapIterator, "__init__", after=made)
        for name in ("next", "__next__"):
            wrap(IMapIterator, name, raised=taken)
        for result in (ApplyResult, MapResult, IMapIterator, IMapUnorderedIterator):
            wrap(result, "_set", before=ended)
        wrap(ApplyResult, "get", after=asked)
        wrap(ApplyResult, "successful", after=asked)
        wrap(BaseServer, "handle_error", before=unhandled)
        if "asyncio" in sys.modules:  # importing it takes a twentieth of a second
            from asyncio.base_events import BaseEventLoop

            wrap(BaseEventLoop, "create_task", given=made)
            wrap(BaseEventLoop, "create_future", given=made)
        wrap(os, "kill", before=signalled)
        wrap(os, "killpg", before=signalled)
        wrap(process, "start", before=started)
        wrap(process, "close", before=closing)
        own.append((process, "exitcode", process.exitcode))
        process.exitcode = property(exit_code, doc=process.exitcode.__doc__)

        def end() -> None:
            for kind, name, plain in own:
                setattr(kind, name, plain)

        config.add_cleanup(end)

    def take(self, test: str = "") -> list[BaseException]:
        """Return the unread failures of a test (by default of all tests), each once."""
        errors: list[BaseException] = []
        for future, owner in list(self._owners.items()):
            unread = getattr(future, "_log_traceback", False)  # of asyncio: failed, and not asked
            if unread and (owner == test or not test):
                future._log_traceback = False
                errors.append(future._exception)
        for future in list(self._futures):
            if self._owners.get(future) == test or not test:
                errors.append(self._futures.pop(future))
        for child, owner in list(self._children.items()):
            code = self._codes[child] if child in self._codes else self._exit_code(child)
            if code is None or (test and owner != test):
                continue  # it still runs, or belongs to another test
            del self._children[child]
            self._codes.pop(child, None)
            if code not in _ENDED and not (code == -signal.SIGKILL and child in self._killed):
                errors.append(
                    ChildProcessError(
                        f"child {child.name!r} of {owner} ended with exit code {code}, which the test never "
                        "reads: assert that its exitcode is 0"
                    )
                )
        return errors
