"""Runs that are interrupted and go on, and runs that go round and round."""

from __future__ import annotations

import json

import pytest

from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.verdict import MetricVerdict, Outcome, Reason
from pytest_anubis.session.campaign import trend

SUITE = """
import os, pathlib, pytest

def note(name):
    with open("ran.txt", "a") as out:
        out.write(name + "\\n")

def test_first(anubis_metric):
    note("first")
    anubis_metric.record("a", [1.0] * 5, unit="s", better="lower")

def test_second(anubis_metric):
    note("second")
    if not pathlib.Path("second-time").exists():
        pathlib.Path("second-time").touch()
        os.kill(os.getpid(), 9)
    anubis_metric.record("b", [1.0] * 5, unit="s", better="lower")

def test_third(anubis_metric):
    note("third")
    anubis_metric.record("c", [1.0] * 5, unit="s", better="lower")
"""


@pytest.fixture
def killed(pytester: pytest.Pytester) -> pytest.Pytester:
    """A run that a power cut ended in its second test."""
    pytester.makeini("[pytest]\n")
    pytester.makepyfile(test_suite=SUITE)
    pytester.runpytest_subprocess("--anubis", "-p", "no:xdist")
    return pytester


def test_finished_tests_are_not_repeated_and_the_interrupted_one_is_marked(
    killed: pytest.Pytester,
) -> None:
    result = killed.runpytest_subprocess("--anubis", "-p", "no:xdist", "--anubis-resume")
    assert result.ret == 20  # no baseline
    result.stdout.fnmatch_lines(["*1 tests are done, interrupted: test_suite.py::test_second"])
    ran = (killed.path / "ran.txt").read_text().split()
    assert ran == ["first", "second", "second", "third"]
    (journal,) = killed.path.glob(".anubis/runs/*/journal.jsonl")
    found = [json.loads(line) for line in journal.read_text().splitlines()]
    names = [e["metric"]["name"] for e in found if e["event"] == "measurement"]
    assert names == ["a", "b", "c"]
    (resumed,) = [e for e in found if e["event"] == "resumed"]
    assert resumed["interrupted"] == ["test_suite.py::test_second"]
    assert not [e for e in found if e["event"] == "verdict" and e["reason"] == "not-reported"]


def test_a_finished_run_is_not_resumed(killed: pytest.Pytester) -> None:
    killed.runpytest_subprocess("--anubis", "-p", "no:xdist", "--anubis-resume")
    result = killed.runpytest_subprocess("--anubis", "-p", "no:xdist", "--anubis-resume")
    assert result.ret == 4
    result.stderr.fnmatch_lines(["*--anubis-resume: run * has finished*"])


def test_nothing_to_resume_is_one_line(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_x():\n    pass\n")
    result = pytester.runpytest_subprocess("--anubis", "--anubis-resume")
    assert result.ret == 4
    result.stderr.fnmatch_lines(["*holds no run to go on with"])


def test_a_soak_cycles_and_keeps_every_run(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\n")
    pytester.makepyfile(
        "def test_x(anubis_metric):\n"
        "    anubis_metric.record('a', [1.0] * 5, unit='s', better='lower')\n"
    )
    result = pytester.runpytest_subprocess("--anubis", "-p", "no:xdist", "--anubis-duration=2s")
    assert result.ret == 20
    result.stdout.fnmatch_lines(["anubis: cycle 1,*exit code 20*", "anubis: * cycles in *"])
    runs = list(pytester.path.glob(".anubis/runs/soak-*/journal.jsonl"))
    assert len(runs) >= 1


def test_a_falling_similarity_is_a_trend_and_noise_is_none() -> None:
    def record(similarity: float) -> RunRecord:
        verdict = MetricVerdict(
            outcome=Outcome.PASS,
            reason=Reason.WITHIN,
            text="",
            benchmark="b",
            metric="m",
            similarity=similarity,
        )
        return RunRecord(run="r", node="n", verdicts=(verdict,))

    falling = [record(1.0 - 0.005 * i) for i in range(12)]
    steady = [record(0.99 + 0.005 * (i % 2)) for i in range(12)]
    assert len(trend(falling)) == 1
    assert trend(steady) == []
    assert trend(falling[:4]) == []
