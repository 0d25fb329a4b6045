"""How long a profile took, told out of a run's record."""

from __future__ import annotations

import pytest

from benchmarks.suites import profile_times
from pytest_anubis.core.events import RunTimed
from pytest_anubis.core.measurement import Measurement, PlannedTest, TestResult
from pytest_anubis.core.metric import Metric
from pytest_anubis.core.run import RunRecord


def planned(test: str, cost: float) -> PlannedTest:
    return PlannedTest(test=test, benchmark=test, cost=cost)


def ended(test: str, seconds: float, **more: object) -> TestResult:
    return TestResult(**{"test": test, "benchmark": test, "metrics": 1, "seconds": seconds} | more)  # type: ignore[arg-type]


def record(*results: TestResult, **more: object) -> RunRecord:
    plans = (planned("suites/a", 10.0), planned("suites/b", 4.0), planned("suites/c", 6.0))
    given = {"run": "r", "node": "n", "profile": "standard", "planned": plans, "results": results}
    return RunRecord(**given | more)  # type: ignore[arg-type]


def test_every_test_stands_beside_its_plan(
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = record(
        ended("suites/a", 10.0, busy=8.0),
        ended("suites/b", 9.0, busy=2.0),
        ended("suites/c", 0.5, metrics=0, outcome="skipped"),
        events=(RunTimed(wall=30.0, predicted=20.0),),
        measurements=(
            Measurement(
                test="suites/b", benchmark="suites/b", component="", device="cpu", unclear=7,
                metric=Metric(name="time", unit="s", better="lower"), values=(1.0,),
            ),
        ),
    )  # fmt: skip
    assert profile_times.show(run) == 1, "one took more than twice as long"
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "a 10.0 10.0 1.00 80%" in lines
    assert (
        "b 4.0 9.0 2.25 22% more than twice as long, 7 more values in moments that were not clear, "
        "mostly preparation" in lines
    )
    assert "2 tests: measured 14.0 19.0 1.36" in lines
    assert "1 tests: measured nothing here 6.0 0.5 0.08" in lines
    assert "0 tests: not run yet 0.0 0.0 nan" in lines
    assert lines[-1].endswith("planned 20.0 s, took 30.0 s, 1.50 times")


def test_what_was_cut_short_is_left_and_the_whole_is_not_told(
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = record(
        ended("suites/a", 11.0),
        ended("suites/b", 1.0, metrics=0, outcome="not reported"),
        events=(RunTimed(wall=12.0, predicted=20.0),),
    )
    assert profile_times.show(run) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "1 tests: measured 10.0 11.0 1.10" in said
    assert "2 tests: not run yet 10.0 0.0 0.00" in said
    assert "from the first test" not in said
