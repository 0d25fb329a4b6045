"""The tests of a run, as they are typed again."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

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


def with_options(line: str, options: Sequence[str]) -> str:
    """Return a next step with options of pytest that the run had, as its command takes them.

    Args:
        line: A command, perhaps with when to type it in brackets behind it; empty stays empty.
        options: Those of pytest.
    """
    if not options or not line:
        return line
    command, when, rest = line.rpartition(" (") if line.endswith(")") else (line, "", "")
    own = shlex.join(options)
    if "anubis learn" in command:
        own = shlex.quote(f"--pytest-args={own}")
    return f"{command} {own}{when}{rest}"
