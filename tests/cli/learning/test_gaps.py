"""Gaps in learning: tests that every run skipped, and declared metrics that no run recorded."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_anubis.cli.learning.gaps import Gaps, gaps_of, nothing_measured
from pytest_anubis.core.measurement import PlannedTest, TestResult
from pytest_anubis.core.run import RunRecord
from pytest_anubis.store.run_set import RunSet
from tests.cli.command_line import anubis
from tests.quiet import QUIET

SUITE = """
import pytest

@pytest.mark.anubis(component="part.a", metrics=["rate", "never_rate"])
def test_a(anubis_metric):
    anubis_metric.record("rate", [100 + 0.1 * (i % 5) for i in range(20)], unit="GB/s", better="higher")

@pytest.mark.anubis(component="disk")
def test_disk(anubis_metric):
    pytest.skip("fio not found")

@pytest.mark.anubis(component="network")
def test_pair(anubis_metric):
    pytest.skip("not applicable: one host")
"""


@pytest.mark.usefixtures("quick_processes")
def test_gaps_are_said_and_are_no_success(here: Path) -> None:
    (here / "test_parts.py").write_text(SUITE)
    (here / "conftest.py").write_text(QUIET)
    result = anubis("learn", "test_parts.py", "--rounds", "3", "--pytest-args=--anubis-in-process")
    assert result.returncode == 20, result.stdout + result.stderr
    lines = result.stdout.splitlines()
    skipped = "skipped in every run: 1 test (1 fio not found; -v names them)"
    first = lines.index(skipped)
    assert lines[first + 1 : first + 3] == [
        "not applicable here: 1 test",
        "nothing is accepted while 1 declared metric is recorded in no run: test_a never_rate; record what "
        "a mark declares, or take it out of its metrics",
    ]
    assert lines[-1].startswith("next, once the marks are mended: pytest --anubis test_parts.py")


def run_with(name: str, *ended: tuple[str, str, str], metrics: tuple[str, ...] = ()) -> RunRecord:
    """Return a run of tests, each with how it ended and why."""
    return RunRecord(
        run=name,
        node="n",
        hardware_class="c",
        planned=tuple(PlannedTest(test=t, benchmark=t, metrics=metrics) for t, _, _ in ended),
        results=tuple(
            TestResult(test=t, benchmark=t, outcome=outcome, text=text)
            for t, outcome, text in ended
        ),
    )


def test_a_test_that_ran_once_is_no_gap() -> None:
    fio = "not installed: fio (apt install fio)"
    runs = [
        run_with("1", ("t.py::a", "skipped", "busy"), ("t.py::b", "skipped", fio)),
        run_with("2", ("t.py::a", "passed", ""), ("t.py::c", "skipped", "not installed: iperf3")),
    ]
    gaps = gaps_of(RunSet(runs=tuple(runs)), "c")
    assert gaps.lines() == [
        "skipped in every run: 2 tests (2 not installed: fio, iperf3; -v names them)"
    ]
    assert gaps.lines(verbose=True)[1:] == [
        f"  NOT_TESTED t.py::b: {fio}",
        "  NOT_TESTED t.py::c: not installed: iperf3",
    ]
    assert gaps_of(RunSet(runs=tuple(runs)), "another class") == Gaps()


def test_declared_metrics_of_passed_tests_count() -> None:
    runs = RunSet(
        runs=(
            run_with("1", ("t.py::a", "passed", ""), ("t.py::b", "failed", ""), metrics=("rate",)),
        )
    )
    assert gaps_of(runs).unset == (("t.py::a", "rate"),)
    assert gaps_of(runs, partly=True) == Gaps()


@pytest.mark.parametrize(
    ("gaps", "refused", "words"),
    [
        (Gaps(), True, "; the lines above say why"),
        (Gaps(skipped=(("t", "fio"),)), False, ": the tests were skipped, as said above"),
        (Gaps(not_applicable=2), False, ": no test applies here"),
        (Gaps(), False, ": no test recorded a metric"),
    ],
)
def test_the_reason_for_nothing_to_learn(gaps: Gaps, refused: bool, words: str) -> None:
    error = str(nothing_measured(gaps, refused=refused))
    assert error.startswith(f"the runs hold nothing to learn from{words}")
