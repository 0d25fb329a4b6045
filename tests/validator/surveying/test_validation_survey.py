"""Figures about validation: on what each rests, and what is left out."""

from __future__ import annotations

import pytest

from pytest_anubis.core.history import Defect
from pytest_anubis.core.validation_figures import BenchmarkSpent, ValidationRun
from pytest_anubis.validator.surveying.validation_survey import validation_figures
from tests.validator.known import known

HOUR = 3600.0
DAY = 24 * HOUR


def run(name: str, day: float | None, decision: str, *spent: BenchmarkSpent) -> ValidationRun:
    began = None if day is None else day * DAY
    return ValidationRun(node="n", run=name, began=began, decision=decision, spent=spent)


def spent(seconds: float, planned: float = 0.0, benchmark: str = "b") -> BenchmarkSpent:
    compared = 1 if planned else 0
    return BenchmarkSpent(
        benchmark=benchmark,
        seconds=seconds,
        tests=1,
        compared=compared,
        planned=planned,
        took=seconds,
    )


def defect(number: int, state: str, *runs: str, benchmarks: tuple[str, ...] = ("b",)) -> Defect:
    return Defect(number=number, node="n", found=0.0, benchmarks=benchmarks, runs=runs, state=state)


def test_without_runs_nothing_is_known() -> None:
    found = validation_figures((), ())
    assert (found.days, found.accepted_per_day, found.benchmarks) == (0, None, ())
    assert known(found.rejections).share is None
    assert validation_figures((), None).rejections is None


def test_a_node_is_accepted_once_a_day() -> None:
    runs = [run("a", 0.1, "ACCEPTED"), run("b", 0.9, "ACCEPTED"), run("c", 2.0, "ACCEPTED")]
    runs += [run("d", 3.5, "REJECTED"), run("e", 9.0, ""), run("f", None, "ACCEPTED")]
    found = validation_figures(runs, None)
    assert (found.accepted, found.days, found.accepted_per_day) == (2, 4, 0.5)


@pytest.mark.parametrize("wrong", [0, 3, 10])
def test_the_share_of_false_alarms_lies_in_its_interval(wrong: int) -> None:
    states = ["false alarm"] * wrong + ["confirmed"] * (10 - wrong)
    defects = [defect(n, state, "r") for n, state in enumerate(states)]
    found = known(validation_figures([run("r", 0, "REJECTED")], defects).rejections)
    assert found.share == wrong / 10
    low, high = found.interval or (2.0, -1.0)
    assert low <= wrong / 10 <= high
    assert (low == 0, high == 1) == (wrong == 0, wrong == 10)
    if wrong == 3:  # of Clopper and Pearson's tables
        assert (low, high) == pytest.approx((0.0667, 0.6525), abs=1e-4)


def test_defects_of_other_runs_do_not_count() -> None:
    by_hand, elsewhere = defect(1, "confirmed"), defect(2, "false alarm", "other")
    found = validation_figures([run("r", 0, "REJECTED", spent(HOUR))], [by_hand, elsewhere])
    rejections = known(found.rejections)
    assert (rejections.confirmed, rejections.false_alarms) == (0, 0)
    assert [one.confirmed for one in found.benchmarks] == [0]


def test_defects_of_runs_without_times_give_no_rate() -> None:
    old = ValidationRun(node="n", run="old", began=0.0, decision="REJECTED")
    both = [old, run("new", 1, "REJECTED", spent(2 * HOUR))]
    defects = [defect(1, "confirmed", "old"), defect(2, "confirmed", "new")]
    found = validation_figures(both, defects)
    assert (found.runs, found.timed) == (2, 1)
    (one,) = found.benchmarks
    assert (one.confirmed, one.hours, one.per_hour) == (1, 2.0, 0.5)
    assert known(found.rejections).confirmed == 2


def test_a_benchmark_without_time_has_no_rate() -> None:
    gate = defect(1, "confirmed", "r", benchmarks=("inventory",))
    found = validation_figures([run("r", 0, "REJECTED", spent(HOUR))], [gate])
    assert [(one.benchmark, one.confirmed, one.per_hour) for one in found.benchmarks] == [
        ("inventory", 1, None),
        ("b", 0, 0.0),
    ]


@pytest.mark.parametrize(("seconds", "rate"), [(0.1, None), (359.0, None), (360.0, 10.0)])
def test_a_rate_needs_a_tenth_of_an_hour(seconds: float, rate: float | None) -> None:
    runs, defects = [run("r", 0, "REJECTED", spent(seconds))], [defect(1, "confirmed", "r")]
    (one,) = validation_figures(runs, defects).benchmarks
    assert (one.confirmed, one.per_hour) == (1, rate)


def test_planned_time_is_compared_where_there_is_a_plan() -> None:
    runs = [run(str(took), 0, "", spent(took, 10.0)) for took in (5.0, 20.0, 11.0)]
    (one,) = validation_figures([*runs, run("free", 0, "", spent(99.0))], None).benchmarks
    assert (one.runs, one.compared) == (4, 3)
    assert one.ratio == pytest.approx(1.1)
    assert one.error == pytest.approx(16 / 3)
    (bare,) = validation_figures([run("free", 0, "", spent(99.0))], None).benchmarks
    assert (bare.compared, bare.ratio, bare.error) == (0, None, None)
