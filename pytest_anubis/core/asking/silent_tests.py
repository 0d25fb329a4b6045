"""Planned tests that never reported, and the cause."""

from __future__ import annotations

from pytest_anubis.core.events import LaneGivenUp
from pytest_anubis.core.measurement import GATE_STOPPED
from pytest_anubis.core.run import RunRecord, given_up_text


def kept_silent(run: RunRecord) -> dict[str, str]:
    """Return planned test that never reported -> the line about the cause, if known.

    The gate may have stopped the run before its first test, or a lane was given up after its workers died
    again and again.
    """
    silent = _silent(run)
    if not silent:
        return {}
    if any(blocker.cause == GATE_STOPPED for blocker in run.blockers):
        return dict.fromkeys(silent, GATE_STOPPED)
    lanes = [event.lane for event in run.events if isinstance(event, LaneGivenUp)]
    if lanes:
        return dict.fromkeys(silent, given_up_text(lanes[-1]))
    return {}


def unexplained(run: RunRecord) -> list[str]:
    """Return one line for every planned test that never reported for no known cause."""
    kept = kept_silent(run)
    return [f"{test}: planned, but never reported" for test in _silent(run) if test not in kept]


def _silent(run: RunRecord) -> list[str]:
    reported = {result.test for result in run.results if result.outcome != "not reported"}
    return [plan.test for plan in run.planned if plan.test not in reported]
