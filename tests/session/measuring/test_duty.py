"""Duty: what a test measures counts, what the host prepares and checks does not."""

from __future__ import annotations

import pytest

from pytest_anubis.core.measurement import TestResult
from pytest_anubis.report.text.duty_text import duty_lines
from tests.run_journals import events_of

SUITE = """
import time, pytest

@pytest.fixture
def slow():
    time.sleep(0.1)
    yield
    time.sleep(0.1)

@pytest.mark.anubis(component="cpu.compute", scope="device")
def test_speed(slow, anubis_metric, anubis_device):
    anubis_metric.measure("time", lambda: time.sleep(0.01), unit="ms", better="lower", rounds=5)
    anubis_metric.collect("speed", lambda: time.sleep(0.01) or 1.0, unit="1", better="higher", rounds=5)
    time.sleep(0.2)

@pytest.mark.anubis(component="cpu.compute", scope="device")
def test_given(anubis_metric, anubis_device):
    anubis_metric.record("given", 1.0, unit="1", better="higher")
"""
REST = ": most of the time measures nothing; prepare and check less, or measure longer"


def test_time_of_what_is_measured_stands_in_the_record(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_suite=SUITE)
    result = pytester.runpytest("--anubis", "-v")
    ended = {e["test"].rpartition("::")[2]: e for e in events_of(pytester, "test_finished")}
    measured, given = ended["test_speed[cpu]"], ended["test_given[cpu]"]
    assert 10 * 0.01 <= measured["busy"] <= measured["seconds"] - 0.2
    assert "busy" not in given
    assert measured["around"] >= 0.2  # setup and teardown, which the Selector's costs count
    result.stdout.fnmatch_lines(["duty * %: test_suite.py::test_speed*"])
    result.stdout.no_fnmatch_line("*duty*test_given*")
    assert "accelerators were measuring" not in result.stdout.str()


def test_what_hardly_measures_is_named_worst_first() -> None:
    def ended(name: str, seconds: float, busy: float) -> TestResult:
        return TestResult(test=name, benchmark=name, seconds=seconds, busy=busy)

    few = [ended("good", 3.0, 2.0), ended("poor", 10.0, 3.0), ended("short", 0.5, 0.1)]
    assert duty_lines(few, ())[:1] == [f"duty below a third of one test (poor 30 %){REST}"]
    many = [*few, *(ended(f"t{i}", 10.0, 2.0 + i / 10) for i in range(4))]
    line = duty_lines(many, ())[0]
    assert line.endswith(f"5 tests (t0 20 %, t1 21 %, t2 22 %, t3 23 %, poor 30 %){REST}")
