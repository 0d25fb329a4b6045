"""Lines for `-v` about the duty of tests: the share of a test's call in which the measured code ran.

`report_command` and `terminal_plugin` use it.
"""

from __future__ import annotations

from collections.abc import Sequence

from pytest_anubis.core.measurement import PlannedTest, TestResult
from pytest_anubis.core.verdict import HOST
from pytest_anubis.report.text.numbers import percent
from pytest_anubis.report.text.safe_text import printable

LOW_DUTY = 1 / 3
"""Duty below which a benchmark is named, since most of its time measures nothing."""

MIN_SECONDS = 1.0
"""Shorter tests are not named: starting a child process takes as long."""


def duty_lines(results: Sequence[TestResult], planned: Sequence[PlannedTest]) -> list[str]:
    """Return a line about accelerators, one about tests of low duty, and one for every test.

    A card that mostly waits for the host is never hot, so faults that need heat are not found.
    """
    device = {plan.test: plan.device for plan in planned}
    known = [(one.duty, one) for one in results if one.duty is not None]
    cards = [(duty, one) for duty, one in known if device.get(one.test, "") not in ("", *HOST)]
    lines = []
    if cards:
        share = sum(one.busy for _, one in cards) / sum(one.seconds for _, one in cards)
        lowest, where = min(cards, key=lambda pair: pair[0])
        lines.append(
            f"duty: accelerators were measuring {percent(share)} of the time of {_tests(len(cards))}, "
            f"least {percent(lowest)} in {where.test}"
        )
    low = sorted(
        (duty, one.test) for duty, one in known if duty < LOW_DUTY and one.seconds >= MIN_SECONDS
    )
    if low:
        named = ", ".join(f"{test} {percent(duty)}" for duty, test in low)
        lines.append(
            f"duty below a third of {_tests(len(low))} ({named}): most of the time measures nothing; "
            "prepare and check less, or measure longer"
        )
    lines += [f"duty {percent(duty)}: {one.test}" for duty, one in known]
    return list(map(printable, lines))


def _tests(count: int) -> str:
    return f"{count} tests" if count > 1 else "one test"
