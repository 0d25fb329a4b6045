"""Why everything is measured, as a tree: goal, question, metric, last verdict (Goal-Question-Metric)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pytest_anubis.core.measurement import Measurement
from pytest_anubis.core.verdict import MetricVerdict
from pytest_anubis.report.text.numbers import value_text

NO_GOAL = "(no goal stated)"


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkGoal:
    """What a benchmark says about itself.

    Attributes:
        benchmark: Node id of the test function, without parameters.
        component: Part of the node.
        goal: What it is for.
        question: What it answers.
        action: What to do when it is bad.
    """

    benchmark: str
    component: str = ""
    goal: str = ""
    question: str = ""
    action: str = ""


def goals_tree(
    goals: Sequence[BenchmarkGoal],
    measurements: Sequence[Measurement],
    verdicts: Sequence[MetricVerdict],
) -> list[str]:
    """Return the lines of the tree.

    Args:
        goals: The collected benchmarks.
        measurements: Of each benchmark's latest run; they tell which metrics there are.
        verdicts: Of the same runs.
    """
    lines: list[str] = []
    for goal in dict.fromkeys(entry.goal for entry in goals):
        lines.append(f"goal: {goal or NO_GOAL}")
        for entry in goals:
            if entry.goal == goal:
                lines += _benchmark(entry, measurements, verdicts)
    return lines


def _benchmark(
    entry: BenchmarkGoal,
    measurements: Sequence[Measurement],
    verdicts: Sequence[MetricVerdict],
) -> list[str]:
    lines = [
        f"  question: {entry.question or '(no question stated)'}",
        f"    {entry.benchmark} [{entry.component or 'no component'}]",
    ]
    own = [m for m in measurements if m.benchmark.partition("[")[0] == entry.benchmark]
    if not own:
        lines.append("    metric: not measured yet")
    for measurement in own:
        lines.append(f"    metric: {_metric(measurement)} -> {_verdict(measurement, verdicts)}")
    if entry.action:
        lines.append(f"    when bad: {entry.action}")
    return lines


def _metric(measurement: Measurement) -> str:
    metric = measurement.metric
    case = measurement.benchmark.partition("[")[2].rstrip("]")
    label = f"{metric.name} [{case}]" if case else metric.name
    return f"{label} in {metric.unit}, {metric.better} is better, on {measurement.device}"


def _verdict(measurement: Measurement, verdicts: Sequence[MetricVerdict]) -> str:
    for verdict in reversed(verdicts):
        if (verdict.benchmark, verdict.metric, verdict.device) == (
            measurement.benchmark,
            measurement.metric.name,
            measurement.device,
        ):
            return f"{verdict.outcome.value} ({value_text(verdict.value, verdict.unit)})"
    return "not judged"
