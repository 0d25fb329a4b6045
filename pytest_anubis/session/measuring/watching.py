"""What must be wherever tests run, in workers too, so that none is lost and none harms another."""

from __future__ import annotations

import pytest

from pytest_anubis.session.context import add_part
from pytest_anubis.session.measuring.captured_output import CapturedOutput
from pytest_anubis.session.measuring.report_texts import ReportTexts
from pytest_anubis.session.measuring.timeouts import Timeouts
from pytest_anubis.session.measuring.unseen_failures import UnseenFailures


def watch_tests(config: pytest.Config, *, worker: bool) -> None:
    """Register what bounds the tests' output, tells hangs from failures and keeps their reports sendable."""
    add_part(config, CapturedOutput(config), "anubis-output")
    add_part(config, Timeouts(), "anubis-timeouts")
    add_part(config, UnseenFailures(config), "anubis-unseen")
    add_part(config, ReportTexts(config, worker=worker), "anubis-texts")
