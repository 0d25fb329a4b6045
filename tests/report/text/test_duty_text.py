"""Duty on the terminal: one line about accelerators, and every test."""

from __future__ import annotations

from pytest_anubis.core.measurement import PlannedTest, TestResult
from pytest_anubis.report.text.duty_text import duty_lines

REST = ": most of the time measures nothing; prepare and check less, or measure longer"


def ended(test: str, busy: float, seconds: float = 10.0) -> TestResult:
    return TestResult(test=test, benchmark=test, outcome="passed", busy=busy, seconds=seconds)


RESULTS = [ended("a", 9.0), ended("b", 3.0), ended("c", 5.0), ended("d", 0.0)]
PLANNED = [
    PlannedTest(test="a", device="cuda:0"),
    PlannedTest(test="b", device="cuda:1"),
    PlannedTest(test="c", device="cpu"),
    PlannedTest(test="d", device="cuda:0"),
]


def test_accelerators_together_and_the_least() -> None:
    assert duty_lines(RESULTS, PLANNED)[:2] == [
        "duty: accelerators were measuring 60 % of the time of 2 tests, least 30 % in b",
        f"duty below a third of one test (b 30 %){REST}",
    ]


def test_every_test_has_its_line() -> None:
    assert duty_lines(RESULTS, PLANNED)[2:] == ["duty 90 %: a", "duty 30 %: b", "duty 50 %: c"]


def test_host_alone_needs_no_line_of_accelerators() -> None:
    assert duty_lines(RESULTS[2:], PLANNED) == ["duty 50 %: c"]


def test_nothing_is_busier_than_its_call() -> None:
    assert ended("a", 11.0).duty == 1.0
    assert ended("a", 0.0).duty is None
