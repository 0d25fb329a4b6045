"""The tree of goals, questions, metrics and last verdicts."""

from __future__ import annotations

from dataclasses import replace

from pytest_anubis.core.measurement import Measurement
from pytest_anubis.core.metric import Metric
from pytest_anubis.core.verdict import MetricVerdict, Outcome, Reason
from pytest_anubis.report.text.goal_tree import NO_GOAL, BenchmarkGoal, goals_tree

GOAL = BenchmarkGoal(
    benchmark="t.py::test_gemm",
    component="compute",
    goal="full speed",
    question="is it fast?",
    action="clean it",
)
MEASURED = Measurement(
    test="t.py::test_gemm[float32-cuda:0]",
    benchmark="t.py::test_gemm[float32]",
    component="compute",
    metric=Metric(name="rate", unit="GFLOP/s", better="higher"),
    device="cuda:0",
    values=(1.0,),
)
VERDICT = MetricVerdict(
    outcome=Outcome.FAIL,
    reason=Reason.BEYOND,
    text="",
    benchmark=MEASURED.benchmark,
    metric="rate",
    unit="GFLOP/s",
    device="cuda:0",
    value=6.1,
)


def test_every_metric_stands_under_its_question_and_goal() -> None:
    assert goals_tree([GOAL], [MEASURED], [VERDICT]) == [
        "goal: full speed",
        "  question: is it fast?",
        "    t.py::test_gemm [compute]",
        "    metric: rate [float32] in GFLOP/s, higher is better, on cuda:0 -> FAIL (6.1 GFLOP/s)",
        "    when bad: clean it",
    ]


def test_benchmarks_of_one_goal_stand_together() -> None:
    other = replace(GOAL, benchmark="t.py::test_disk", goal="no loss")
    last = replace(GOAL, benchmark="t.py::test_dispatch")
    lines = goals_tree([GOAL, other, last], [], [])
    heads = [line for line in lines if "goal:" in line or "::" in line]
    assert heads == [
        "goal: full speed",
        "    t.py::test_gemm [compute]",
        "    t.py::test_dispatch [compute]",
        "goal: no loss",
        "    t.py::test_disk [compute]",
    ]


def test_what_was_not_measured_or_not_judged_says_so() -> None:
    assert "metric: not measured yet" in "\n".join(goals_tree([GOAL], [], []))
    assert "-> not judged" in "\n".join(goals_tree([GOAL], [MEASURED], []))
    elsewhere = replace(VERDICT, device="cuda:1")
    assert "-> not judged" in "\n".join(goals_tree([GOAL], [MEASURED], [elsewhere]))


def test_the_last_verdict_counts() -> None:
    later = replace(VERDICT, outcome=Outcome.PASS, value=7.0)
    assert "-> PASS (7 GFLOP/s)" in "\n".join(goals_tree([GOAL], [MEASURED], [VERDICT, later]))


def test_a_benchmark_without_goal_is_still_listed() -> None:
    bare = BenchmarkGoal(benchmark="t.py::test_bare")
    text = "\n".join(goals_tree([bare], [], []))
    assert f"goal: {NO_GOAL}" in text
    assert "test_bare [no component]" in text
