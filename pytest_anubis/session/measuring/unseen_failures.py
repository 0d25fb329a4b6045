"""Makes failures visible of which pytest only warns: in threads, in finalisers, and of void checks.

While a test runs, these warnings are errors, whatever filters the user or the test has set. So are errors
that event loops and executors only log, and errors of futures and children that the test does not read. A
check that fails in a thread or task fails its test. Any other such error makes the test INCONCLUSIVE
(`code_mistakes`). An error outside of all tests, and an assertion that cannot fail, prevent acceptance.
`watching` uses it.
"""

from __future__ import annotations

import ast
import functools
import gc
import inspect
import logging
import os
import re
import sys
import threading
import unittest
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from pytest_anubis.core.events import BlockerFound
from pytest_anubis.session.code_mistakes import INSTALLED, UNSEEN, unseen_failures
from pytest_anubis.session.context import emit
from pytest_anubis.session.measuring.threads_of_tests import ThreadsOfTests
from pytest_anubis.session.measuring.unread_failures import UnreadFailures

_COLLECTORS = {
    "threadexception": "collect_thread_exception",
    "unraisableexception": "collect_unraisable",
}
"""pytest's plugins that catch these failures -> their function that raises what they caught."""

_LOGGERS = ("asyncio", "concurrent.futures")
"""Loggers of tasks and callbacks that are never awaited; their errors are raised nowhere."""

_TUPLE = re.compile(rb"\bassert\s*\(")
"""Finds possible assertions of a tuple, because parsing every file would be slow."""


class UnseenFailures:
    """Plugin that turns warnings about failures into failures, in every process that runs tests."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._threads = ThreadsOfTests(self._block)
        self._unread = UnreadFailures(self._threads.owner)
        self._logged = _Logged(lambda: self._unread.take(self._threads.test))
        self._uncollected: list[str] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_pycollect_makeitem(
        self, collector: pytest.Module | pytest.Class, name: str, obj: object
    ) -> None:
        """Note tests that pytest does not collect: of a class with a constructor, or a callable object."""
        own = getattr(collector.module, "__name__", "")
        if (
            callable(obj)
            and not inspect.isroutine(obj)
            and type(obj).__module__ == own
            and collector.funcnamefilter(name)
        ):
            self._uncollected.append(
                f"{collector.nodeid}: pytest does not collect {name}, since it is no function: make it one"
            )
        if (
            inspect.isclass(obj)
            and obj.__module__ == own
            and obj.__init__ is not object.__init__
            and not issubclass(obj, unittest.TestCase)
            and collector.istestclass(obj, name)
            and any(collector.funcnamefilter(one) for one in vars(obj))
        ):
            self._uncollected.append(
                f"{collector.nodeid}: pytest collects no test of class {name}, since it has an __init__: use "
                "setup_method or a fixture"
            )

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Block for assertions that cannot fail or are not collected, and if pytest's collectors are off."""
        for path, line in _always_true({item.path for item in session.items}, self._config):
            self._block(
                f"{os.path.relpath(path, self._config.rootpath)}:{line}: the assertion is of a tuple and can "
                "never fail: leave out the parentheses"
            )
        for text in self._uncollected:
            self._block(text)
        self._threads.install(self._config)
        self._unread.install(self._config)
        self._logged.install()
        for name in _COLLECTORS:
            if not self._config.pluginmanager.has_plugin(name):
                self._block(f"-p no:{name}: failures in threads or finalisers are not seen")

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Record which test runs, because the threads that start meanwhile belong to it."""
        self._threads.test = item.nodeid
        try:
            return (yield)
        finally:
            self._threads.test = ""

    # Innermost, because pytest's plugins warn right after the body, and other wrappers must see the error.
    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_setup(self) -> Generator[None, Any, Any]:
        """Raise what pytest would only warn of."""
        with _as_errors(), self._threads.collected_by_pytest(), self._logged:
            return (yield)

    pytest_runtest_teardown = pytest_runtest_setup

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Raise what pytest would only warn of; re-raise a check that failed in a thread unchanged."""
        hooks = threading.excepthook, sys.unraisablehook
        with _as_errors(), self._threads.collected_by_pytest(), _own_filters(item):
            try:
                with self._logged:
                    result = yield
                if hooks == (threading.excepthook, sys.unraisablehook):
                    return result
                threading.excepthook, sys.unraisablehook = hooks
                what = "threading.excepthook or sys.unraisablehook"
                raise UNSEEN[0](f"the test left another {what}: what is raised there is not seen")
            except Exception as error:
                checks = [one for one in unseen_failures(error, UNSEEN[:1]) if _is_check(one)]
                failed = next(iter(checks), error)
        raise failed

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """Block for failures outside of all tests, and for threads that tests have left."""
        self._threads.end()
        gc.collect()
        self._logged.remove()
        collectors = (
            getattr(self._config.pluginmanager.get_plugin(name), function, None)
            for name, function in _COLLECTORS.items()
        )
        for raise_collected in filter(None, (*collectors, self._logged.raise_kept)):
            with _as_errors():
                try:
                    raise_collected(self._config)
                except Exception as error:
                    for one in unseen_failures(error, UNSEEN):
                        said = f"{type(one).__name__}: {one}".split("\n", 1)[0]
                        self._block(
                            f"failed in a thread, future, child or finaliser outside of any test: {said}"
                        )

    def _block(self, text: str) -> None:
        emit(self._config, BlockerFound(text=text))


class _Logged:
    """Keeps errors that are only logged, and raises one of them as pytest raises that of a thread.

    It takes the place of the loggers' methods: a test that configures logging may switch handlers off.

    Args:
        more: Returns other errors that no test has read, each once.
    """

    def __init__(self, more: Callable[[], list[BaseException]]) -> None:
        self._errors: list[BaseException] = []
        self._more = more
        self._plain: list[tuple[logging.Logger, str, Callable[..., None]]] = []

    def install(self) -> None:
        """Keep the errors that the loggers get from now on."""
        for logger in map(logging.getLogger, _LOGGERS):
            for name in ("error", "critical"):  # `exception` calls `error`
                plain = getattr(logger, name)
                self._plain.append((logger, name, plain))
                setattr(logger, name, functools.partial(self._keep, plain))

    def remove(self) -> None:
        """Let the loggers log as they did before."""
        while self._plain:
            setattr(*self._plain.pop())

    def _keep(self, log: Callable[..., None], *args: Any, **more: Any) -> None:
        said = more.get("exc_info")
        error = said[1] if isinstance(said, tuple) else said
        error = sys.exc_info()[1] if error is True else error
        if isinstance(error, BaseException):
            self._errors.append(error)
        log(*args, **more | {"stacklevel": more.get("stacklevel", 1) + 1})

    def raise_kept(self, _: object = None) -> None:
        """Raise one of the kept errors, preferably a failed check."""
        errors, self._errors = sorted([*self._errors, *self._more()], key=_is_check), []
        if errors:
            raise UNSEEN[0](f"{type(errors[-1]).__name__} was only logged") from errors[-1]

    def __enter__(self) -> None:
        """Start of one phase of a test."""

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.raise_kept()
        self._more()  # discard them: the phase has failed anyway
        self._errors.clear()


@contextmanager
def _own_filters(item: pytest.Item) -> Iterator[None]:
    """Restore the filters of warnings after the body of a test, before pytest warns."""
    body = getattr(item, "obj", None)
    if not inspect.isroutine(body) or inspect.iscoroutinefunction(body):
        yield
        return

    @functools.wraps(body)
    def filtered(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        with warnings.catch_warnings():
            return body(*args, **kwargs)

    item.obj = filtered  # type: ignore[attr-defined]  # of a function
    try:
        yield
    finally:
        item.obj = body  # type: ignore[attr-defined]


def _is_check(error: BaseException) -> bool:
    return isinstance(error, AssertionError | pytest.fail.Exception)


@contextmanager
def _as_errors() -> Iterator[None]:
    with warnings.catch_warnings():
        for category in (*UNSEEN, pytest.PytestReturnNotNoneWarning):
            warnings.simplefilter("error", category)
        # This error is raised in the coroutine's finaliser.
        warnings.filterwarnings("error", r"coroutine .* was never awaited", RuntimeWarning)
        # From unittest, for a test that returns a value.
        warnings.filterwarnings("error", "It is deprecated to return", DeprecationWarning)
        yield


def _always_true(tests: Iterable[Path], config: pytest.Config) -> Iterator[tuple[Path, int]]:
    """Yield file and line of every assertion of a tuple in the tests' files and in modules of the project.

    Python and pytest warn only when a file is compiled, so a second run would give no warning.
    """
    # vars() instead of getattr(), because a lazy module's __getattr__ may do anything.
    modules = [one for one in list(sys.modules.values()) if isinstance(one, ModuleType)]
    names = [vars(one).get("__file__") for one in modules]
    files = {os.path.normpath(one) for one in names if isinstance(one, str) and one.endswith(".py")}
    root = str(config.rootpath / "_")[:-1]  # of text, because a process has thousands of files
    own = {Path(file) for file in files if file.startswith(root)}
    for path in sorted({*tests, *own}):
        if any(part in path.parts for part in INSTALLED):
            continue
        try:
            source = path.read_bytes()
            tree = ast.parse(source) if _TUPLE.search(source) else ast.Module([], [])
        except (OSError, SyntaxError, ValueError):  # not a Python file
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Assert) and isinstance(node.test, ast.Tuple) and node.test.elts:
                yield path, node.lineno
