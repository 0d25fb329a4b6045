"""What a run spent on each benchmark."""

from __future__ import annotations

from pytest_anubis.core.measurement import PlannedTest, TestResult
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.validation_figures import BenchmarkSpent, spent_of, together


def result(test: str, seconds: float, **more: object) -> TestResult:
    return TestResult(test=test, benchmark="b", seconds=seconds, **{"metrics": 1, **more})  # type: ignore[arg-type]


def test_the_tests_of_a_benchmark_are_added() -> None:
    plans = (PlannedTest(test="b[0]", cost=2.0), PlannedTest(test="b[1]"))
    run = RunRecord(
        run="r", node="n", planned=plans, results=(result("b[0]", 3.0), result("b[1]", 4.0))
    )
    assert spent_of(run) == (
        BenchmarkSpent(benchmark="b", seconds=7.0, tests=2, compared=1, planned=2.0, took=3.0),
    )


def test_a_test_that_measured_nothing_is_not_compared() -> None:
    plans = (PlannedTest(test="b[0]", cost=2.0),)
    run = RunRecord(run="r", node="n", planned=plans, results=(result("b[0]", 3.0, metrics=0),))
    (spent,) = spent_of(run) or ()
    assert (spent.seconds, spent.compared) == (3.0, 0)


def test_tests_that_never_ran_spent_nothing() -> None:
    run = RunRecord(run="r", node="n", results=(result("b[0]", 0.0),))
    assert spent_of(run) == ()


def test_durations_of_a_table_count_and_their_lack_is_known() -> None:
    assert spent_of(RunRecord(run="r", node="n")) is None
    (spent,) = spent_of(RunRecord(run="r", node="n", took={"b": 5.0})) or ()
    assert (spent.benchmark, spent.seconds, spent.compared) == ("b", 5.0, 0)


def test_the_last_known_component_counts() -> None:
    parts = (BenchmarkSpent(benchmark="b", component=one) for one in ("x", "y", ""))
    assert together(parts).component == "y"
