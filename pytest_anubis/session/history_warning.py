"""Telling that the history is out of order: one line, whatever the user makes of warnings."""

from __future__ import annotations

import sys

import pytest


def warn(config: pytest.Config, text: str) -> None:
    """Say one line as a warning of pytest; as plain text where warnings are errors (``-W error``)."""
    try:
        config.issue_config_time_warning(pytest.PytestWarning(text), stacklevel=2)
    except Warning:
        reporter = config.pluginmanager.get_plugin("terminalreporter")
        if reporter is None:
            sys.stderr.write(f"anubis: {text}\n")
        else:
            reporter.ensure_newline()
            reporter.write_line(f"anubis: {text}", yellow=True)
