"""Reads pytest's reports: a test's outcome in one word, and its reason in one line.

`ends_of_tests` and `terminal_plugin` use it.
"""

from __future__ import annotations

import re

import pytest

from pytest_anubis.core.measurement import TestResult

REPEATED = ("rerun", "retried")
"""Outcomes that pytest-rerunfailures and pytest-retry give to an attempt that they repeat."""

FAILED = ("failed", "error", "crashed")

_ORDER = ("passed", "xpassed", "xfailed", "skipped", "failed", "error", "crashed")


def outcome_of(report: pytest.TestReport) -> str | None:
    """Return pytest's word for a report that counts; None for a setup or teardown without an error.

    In subtests and teardowns only failures count: a skip there, or an expected failure of a subtest, waives
    nothing of the test.
    """
    if is_subtest(report):
        return "failed" if report.failed else None
    if hasattr(report, "wasxfail"):
        return "xfailed" if report.skipped else "xpassed"
    if report.when == "call":
        # An unknown word, such as a plugin's own for a repeated attempt, is no pass.
        return str(report.outcome) if report.outcome in _ORDER else "failed"
    if report.skipped:
        return "skipped" if report.when == "setup" else None
    return "error" if report.failed else None


def is_subtest(report: pytest.TestReport) -> bool:
    """Return whether a report is of a subtest, pytest's own or of pytest-subtests."""
    return type(report).__name__.casefold() == "subtestreport"


def worse(outcome: str, than: str) -> bool:
    """Return whether one outcome is worse than another, in the order of `_ORDER`."""
    return _ORDER.index(outcome) > _ORDER.index(than)


def counts(outcome: str, environment: str, known: TestResult | None) -> bool:
    """Return whether a report's outcome replaces the known result of its test; the worst one counts.

    After a failure by the environment, a failure of the test itself counts, in a subtest or in the teardown.

    Args:
        outcome: Outcome of the report.
        environment: Cause in the environment, for which the report says nothing about the hardware; or empty.
        known: Result of the test so far.
    """
    if known is None or worse(outcome, known.outcome):
        return True
    failed_itself = outcome in FAILED and not environment
    return bool(known.environment) and failed_itself and not worse(known.outcome, outcome)


_ERROR = re.compile(r"[A-Za-z_][\w.]*: ")
"""Beginning of the first line of an error's text."""


def excuse(environment: str, known: TestResult | None) -> str:
    """Return the cause in the environment, or nothing if the test has already failed by itself."""
    failed_itself = known is not None and known.outcome in FAILED and not known.environment
    return "" if failed_itself else environment


def first_line(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Return the first line of a report's error, or of its reason for a skip."""
    longrepr = report.longrepr
    if longrepr is None:
        return ""
    if isinstance(longrepr, tuple):
        return str(longrepr[2]).removeprefix("Skipped: ").split("\n", 1)[0]
    crash = getattr(longrepr, "reprcrash", None)
    text = crash.message if crash is not None else str(longrepr)
    return str(text).strip().split("\n", 1)[0]


def collecting_error(report: pytest.CollectReport) -> str:
    """Return in one line why a file cannot be collected: the error of the traceback.

    pytest's own sentence about a failed import names only the file, not the missing module.
    """
    first = first_line(report)
    marked = [
        line[1:].strip() for line in str(report.longrepr).splitlines() if line.startswith("E ")
    ]
    named = [line for line in marked if _ERROR.match(line)]
    return (named or marked or [first])[-1]
