"""Duty: for which share of its time a test had the device measure, and not the host prepare and check."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_anubis.core.measurement import PlannedTest, TestResult
from pytest_anubis.report.text.numbers import percent
from pytest_anubis.report.text.text_table import printable

_NO_CARD = ("", "cpu", "node")

LEAST = 1 / 3
"""Duty below which a benchmark is named: it spends most of its time on what finds nothing."""

WORTH = 1.0
"""Seconds below which nothing is worth mending: starting a child takes as long."""


def duty_lines(results: Sequence[TestResult], planned: Sequence[PlannedTest]) -> list[str]:
    """Return a line about the tests of accelerators, one about what hardly measures, one for every test.

    A card that mostly waits for the host is never hot, and what only shows under heat is not found.
    """
    device = {plan.test: plan.device for plan in planned}
    known = [(one.duty, one) for one in results if one.duty is not None]
    cards = [(duty, one) for duty, one in known if device.get(one.test, "") not in _NO_CARD]
    lines = []
    if cards:
        share = sum(one.busy for _, one in cards) / sum(one.seconds for _, one in cards)
        least, where = min(cards, key=lambda pair: pair[0])
        tests = f"{len(cards)} tests" if len(cards) > 1 else "one test"
        lines.append(
            f"duty: accelerators were measuring {percent(share)} of the time of {tests}, "
            f"least {percent(least)} in {where.test}"
        )
    low = sorted((duty, one.test) for duty, one in known if duty < LEAST and one.seconds >= WORTH)
    if low:
        named = ", ".join(f"{test} {percent(duty)}" for duty, test in low)
        tests = f"{len(low)} tests" if len(low) > 1 else "one test"
        lines.append(
            f"duty below a third of {tests} ({named}): most of the time measures nothing; "
            "prepare and check less, or measure longer"
        )
    lines += [f"duty {percent(duty)}: {one.test}" for duty, one in known]
    return list(map(printable, lines))
