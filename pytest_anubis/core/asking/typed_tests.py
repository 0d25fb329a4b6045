"""The tests of a run, as they are typed again."""

from __future__ import annotations

SHIPPED = "--pyargs pytest_anubis.shipped.suites"
"""The set that the package brings, where it runs in the place in which it lies."""


def learning(tests: str) -> str:
    """Return the command that learns from tests, without options.

    Args:
        tests: As they are typed for pytest; `SHIPPED`, of which `anubis learn` takes a copy.
    """
    if tests.startswith(SHIPPED):
        return "anubis suites && anubis learn suites/"
    return f"anubis learn {tests}"
