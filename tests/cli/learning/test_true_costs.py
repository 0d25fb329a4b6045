"""`learn` and `doctor` name benchmarks that take more than twice their declared cost."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_anubis.cli.learning.true_costs import cost_lines
from pytest_anubis.cli.main import main
from pytest_anubis.core.measurement import PlannedTest, TestResult
from pytest_anubis.core.run import RunRecord

SLOW = """
import time, pytest

@pytest.mark.anubis(component="x", cost="{cost}")
def test_slow(anubis_metric):
    values = iter(range(100, 200))
    anubis_metric.record("rate", [next(values) for _ in range(9)], unit="GB/s", better="higher")
    time.sleep(0.05)
"""


def run_of(**seconds: float) -> RunRecord:
    """Return a run of benchmarks that declare 3 s each and took so many seconds."""
    return RunRecord(
        run="r",
        node="n",
        planned=tuple(
            PlannedTest(test=f"{name}[cpu]", benchmark=name, cost=3.0) for name in seconds
        ),
        results=tuple(
            TestResult(test=f"{name}[cpu]", benchmark=name, seconds=took, metrics=1)
            for name, took in seconds.items()
        ),
    )


def test_more_than_twice_is_named_and_twice_is_not() -> None:
    (line,) = cost_lines([run_of(a=47.0, b=6.0, c=1.0)] * 3)
    assert line.startswith(
        "cost: a is declared to take 3.0 s (the cost in its mark, for this profile) and took 47.0 s, "
        "15.7 times as long (median of 3 measurements): "
    )
    assert line.endswith("declare what it takes, or let it do less")
    assert [line.split()[1] for line in cost_lines([run_of(a=7.0, b=9.0)])] == ["b", "a"]


def test_one_disturbed_run_says_nothing() -> None:
    assert cost_lines([run_of(a=4.0), run_of(a=5.0), run_of(a=50.0)]) == []
    assert cost_lines([run_of(a=4.0), run_of(a=50.0)]) == []


def test_what_measured_nothing_has_no_cost() -> None:
    run = run_of(a=47.0)
    skipped = TestResult(test="a[cpu]", benchmark="a", outcome="skipped", seconds=47.0)
    assert cost_lines([RunRecord(run="r", node="n", planned=run.planned, results=(skipped,))]) == []


def test_learn_and_doctor_name_it(
    pytester: pytest.Pytester, capfd: pytest.CaptureFixture[str]
) -> None:
    pytester.makepyfile(test_it=SLOW.format(cost="0.01s"))
    for number in range(3):
        pytester.runpytest("--anubis", "--anubis-mode=measure", f"--anubis-run-id=r{number}",
                           "--anubis-in-process")  # fmt: skip
    capfd.readouterr()
    main(["doctor"])
    wanted = "cost: test_it.py::test_slow is declared to take 10 ms "
    lines = [line for line in capfd.readouterr().out.splitlines() if line.startswith("cost:")]
    assert len(lines) == 1
    assert lines[0].startswith(wanted)
    main(["learn", ".anubis/runs", "-o", "learned", "-v"])
    assert sum(line.startswith(wanted) for line in capfd.readouterr().out.splitlines()) == 1
    assert Path("learned").is_dir()
