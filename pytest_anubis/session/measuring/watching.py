"""Plugins that bound output, mark hangs and clean reports, in every process that runs tests (no controller).

pytest-timeout's signal method raises an ordinary failure in the test, which would reject the node, although a
hang says nothing about the hardware; its thread method ends the process. `Timeouts` wraps the timer's signal
handler, so it needs no text of the failure. `ReportTexts` makes every file and terminal accept the texts.
`start` and `start_worker` use it.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Generator
from typing import Any

import pytest

from pytest_anubis.codec.encodable_text import all_encodable, bounded, encodable, sendable
from pytest_anubis.session.context import add_part
from pytest_anubis.session.measuring.captured_output import CapturedOutput
from pytest_anubis.session.measuring.unseen_failures import UnseenFailures


class ReportTexts:
    """Plugin that replaces unencodable characters in the texts of reports, and bounds these texts.

    Args:
        config: This process's configuration.
        worker: This is a worker, which keeps node ids as they are: xdist compares them with the tests' ids.
    """

    def __init__(self, config: pytest.Config, *, worker: bool) -> None:
        self._worker = worker
        cache = getattr(config, "cache", None)
        if cache is not None and not worker:
            # The cache writes the node ids of all items; an error there would end the session early.
            keep = cache.set
            cache.set = lambda key, value: keep(key, all_encodable(value))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self) -> Generator[None, Any, Any]:
        """Clean a test's report."""
        report = yield
        _clean(report)
        report.user_properties = [(sendable(n), sendable(v)) for n, v in report.user_properties]
        return report

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_make_collect_report(self) -> Generator[None, Any, Any]:
        """Clean the report of a collection."""
        report = yield
        _clean(report)
        return report

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Make the report's node id encodable."""
        if not self._worker and not report.nodeid.isascii():
            report.nodeid = encodable(report.nodeid)
            path, line, name = report.location
            report.location = (encodable(path), line, encodable(name))


def _clean(report: Any) -> None:
    report.sections = [(_text(title), _text(content)) for title, content in report.sections]
    report.longrepr = _text(report.longrepr)


def _text(value: Any) -> Any:
    """Return the value with its texts cleaned; pytest's parts of a traceback are changed in place."""
    if isinstance(value, str):
        return bounded(encodable(value))
    if isinstance(value, tuple):
        return tuple(map(_text, value))
    if isinstance(value, list):
        value[:] = map(_text, value)
    elif hasattr(value, "toterminal") and hasattr(value, "__dict__"):
        for name, part in vars(value).items():
            if isinstance(part, str | tuple | list) or hasattr(part, "toterminal"):
                object.__setattr__(value, name, _text(part))
    return value


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
                except BaseException:
                    # If it raises nothing, it saw a debugger, and the test continues.
                    item.stash[_broken_off] = float(settings.timeout)
                    raise

            signal.signal(signal.SIGALRM, noting)
        return result

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Reset the mark, because an item's stash survives reruns."""
        if _broken_off in item.stash:
            del item.stash[_broken_off]

    # Outside of pytest and Judge: a test that swallows the failure must not pass, and a hang is no xfail.
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


def watch_tests(config: pytest.Config, *, worker: bool) -> None:
    """Register the plugins around tests; a later one wraps the earlier ones, so `ReportTexts` cleans last."""
    add_part(config, CapturedOutput(config), "anubis-output")
    add_part(config, Timeouts(), "anubis-timeouts")
    add_part(config, UnseenFailures(config), "anubis-unseen")
    add_part(config, ReportTexts(config, worker=worker), "anubis-texts")
