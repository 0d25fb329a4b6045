"""Handles a run that breaks off after its verdict, by an interrupt or an error while reports are written.

pytest ends such a run with a status that accepts nothing, so its record must accept nothing either. `start`
uses it.
"""

from __future__ import annotations

import datetime
import sys
from collections.abc import Generator

import pytest

from pytest_anubis.core.events import RunFinished
from pytest_anubis.core.verdict import Decision
from pytest_anubis.report.text.safe_text import printable
from pytest_anubis.session.running.exit_guard import late_key, vouched_key
from pytest_anubis.session.running.live_run import Run


class LateEnd:
    """Plugin that takes an acceptance back: in the journal, in the history and for health checks."""

    def __init__(self, config: pytest.Config, run: Run) -> None:
        self._config = config
        self._run = run
        self._known = False
        config.stash[late_key] = self.broken

    # Outermost, around the reports and pytest's summary.
    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, None, None]:
        """Handle an error while the session ends; for `pytest.exit`, pytest itself would return 0."""
        try:
            return (yield)
        except BaseException as error:
            self.broken(error)
            if isinstance(error, pytest.exit.Exception) and int(session.exitstatus) == 0:
                session.exitstatus = pytest.ExitCode.INTERRUPTED
            raise

    def broken(self, error: BaseException) -> None:
        """Take an acceptance back, once."""
        self._config.stash[vouched_key] = False
        if self._known or isinstance(error, pytest.UsageError):
            return
        self._known = True
        first = str(error).strip().split("\n", 1)[0]
        what = f"{type(error).__name__}: {first}" if first else type(error).__name__
        ended = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
        verdict = self._run.take_back(
            RunFinished(
                exit_status=int(pytest.ExitCode.INTERRUPTED),
                ended=ended,
                broken_off=f"{what}, after the last test, while reports were written",
            )
        )
        if verdict is not None:
            line = f"anubis: {Decision.UNDECIDED.name}: {verdict.headline}; the reports are not complete"
            sys.stderr.write(f"{printable(line)}\n")
