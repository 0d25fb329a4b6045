"""Commands to type for the tests of a run."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

SHIPPED = "--pyargs pytest_anubis.shipped.suites"
"""Arguments that run the benchmark set of the installed package in place."""


def learning(tests: str) -> str:
    """Return the command that learns from tests, without options.

    Args:
        tests: The tests as typed for pytest; of `SHIPPED`, `anubis suites` makes a copy first.
    """
    if tests.startswith(SHIPPED):
        return "anubis suites && anubis learn suites/"
    return f"anubis learn {tests}"


def with_options(line: str, options: Sequence[str]) -> str:
    """Return a command with further pytest options, in the form that it takes.

    Args:
        line: A command, perhaps followed by a remark in brackets; empty stays empty.
        options: The pytest options.
    """
    if not options or not line:
        return line
    command, when, rest = line.rpartition(" (") if line.endswith(")") else (line, "", "")
    own = shlex.join(options)
    if "anubis learn" in command:
        own = shlex.quote(f"--pytest-args={own}")
    return f"{command} {own}{when}{rest}"
