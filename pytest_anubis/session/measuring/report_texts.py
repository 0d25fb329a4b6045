"""Makes the texts of reports encodable and bounds them, so that every file and terminal accepts them."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from pytest_anubis.codec.encodable_text import all_encodable, bounded, encodable
from pytest_anubis.codec.sendable_values import sendable


class ReportTexts:
    """Plugin that replaces unencodable characters in the texts of reports, and bounds these texts.

    Args:
        config: This process's configuration.
        worker: This is a worker. It keeps a report's node id, which xdist compares with the test's.
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
