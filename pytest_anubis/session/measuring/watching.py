"""Plugins for every process that runs tests: the only process of a run, or each worker."""

from __future__ import annotations

import pytest

from pytest_anubis.session.context import add_part
from pytest_anubis.session.measuring.captured_output import CapturedOutput
from pytest_anubis.session.measuring.report_texts import ReportTexts
from pytest_anubis.session.measuring.timeouts import Timeouts
from pytest_anubis.session.measuring.unseen_failures import UnseenFailures


def watch_tests(config: pytest.Config, *, worker: bool) -> None:
    """Register the plugins that bound output, detect hangs and unseen failures, and clean reports."""
    add_part(config, CapturedOutput(config), "anubis-output")
    add_part(config, Timeouts(), "anubis-timeouts")
    add_part(config, UnseenFailures(config), "anubis-unseen")
    add_part(config, ReportTexts(config, worker=worker), "anubis-texts")
