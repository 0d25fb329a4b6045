"""What pytest's reports say: how a test ended, in one word and one line."""

from __future__ import annotations

import re

import pytest

from pytest_anubis.core.measurement import TestResult

REPEATED = ("rerun", "retried")
"""What plugins make of the report of an attempt that they repeat: pytest-rerunfailures, pytest-retry."""

FAILED = ("failed", "error", "crashed")

_ORDER = ("passed", "xpassed", "xfailed", "skipped", "failed", "error", "crashed")


def outcome_of(report: pytest.TestReport) -> str | None:
    """Return pytest's word for a report that decides, None for a setup or teardown that went well.

    Of subtests only failures decide: one that was skipped, or expected to fail, waives nothing of its test.
    """
    if is_subtest(report):
        return "failed" if report.failed else None
    if hasattr(report, "wasxfail"):
        return "xfailed" if report.skipped else "xpassed"
    if report.when == "call":
        # A word that nobody knows is no pass: plugins have their own for attempts that they repeat.
        return str(report.outcome) if report.outcome in _ORDER else "failed"
    if report.skipped:
        return "skipped"
    return "error" if report.failed else None


def is_subtest(report: pytest.TestReport) -> bool:
    """Return whether a report is of a part of a test: pytest's own, or pytest-subtests'."""
    return type(report).__name__.casefold() == "subtestreport"


def worse(outcome: str, than: str) -> bool:
    """Return whether one outcome weighs more than another: a crash more than a failure than a skip."""
    return _ORDER.index(outcome) > _ORDER.index(than)


def counts(outcome: str, environment: str, known: TestResult | None) -> bool:
    """Return whether a report's outcome replaces what is known of its test: the worst one counts.

    A test that failed for its surroundings may fail again for itself, in a subtest or in its teardown.

    Args:
        outcome: The report's.
        environment: Why it says nothing about the hardware; empty if it does.
        known: How the test ended so far.
    """
    if known is None or worse(outcome, known.outcome):
        return True
    failed_itself = outcome in FAILED and not environment
    return bool(known.environment) and failed_itself and not worse(known.outcome, outcome)


_ERROR = re.compile(r"[A-Za-z_][\w.]*: ")
"""How the first line of an error begins; its message may have more lines."""


def excuse(environment: str, known: TestResult | None) -> str:
    """Return why a test says nothing about the hardware; one that failed for itself has no excuse."""
    failed_itself = known is not None and known.outcome in FAILED and not known.environment
    return "" if failed_itself else environment


def first_line(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Return the first line of what a report says went wrong, or why a test was skipped."""
    longrepr = report.longrepr
    if longrepr is None:
        return ""
    if isinstance(longrepr, tuple):
        return str(longrepr[2]).removeprefix("Skipped: ").split("\n", 1)[0]
    crash = getattr(longrepr, "reprcrash", None)
    text = crash.message if crash is not None else str(longrepr)
    return str(text).strip().split("\n", 1)[0]


def collecting_error(report: pytest.CollectReport) -> str:
    """Return in one line why a file cannot be collected: of a traceback the error, not its first line.

    Nor pytest's own sentence on an import, which names the file only: one missing module is one cause.
    """
    first = first_line(report)
    marked = [
        line[1:].strip() for line in str(report.longrepr).splitlines() if line.startswith("E ")
    ]
    named = [line for line in marked if _ERROR.match(line)]
    return (named or marked or [first])[-1]
