"""What to do about a failure, in one line."""

from __future__ import annotations

from pytest_anubis.core.verdict import MetricVerdict, Outcome, Reason, Triage


def next_step(verdict: MetricVerdict) -> str:
    """Return what to do about a bad verdict: its benchmark's own step, else what holds of every such failure.

    What is to be measured again first says so. A verdict that is only unusual has no step but its own.
    """
    step = verdict.action
    if verdict.triage is Triage.RETEST:
        return f"measure again{f'; if the loss stays: {step}' if step else ''}"
    if step or verdict.outcome is not Outcome.FAIL:
        return step
    if verdict.reason is Reason.TEST_FAILED:
        return "read what the test says in the report, mend it, then run the test again"
    part = f"look for the cause in {verdict.component}" if verdict.component else "find the cause"
    return f"{part}, repair or replace what has it, then measure again"
