"""Measuring on a machine that is not quiet, and looking closer at close calls."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Self

import pytest

from pytest_anubis.core.verdict import SEARCHED
from pytest_anubis.store.baselines.baseline_files import load_baseline, save_baseline
from pytest_anubis.store.journal.journal_reading import read_journal
from tests.session.conftest import Learn

SUITE = """
import itertools, json, pathlib, pytest

@pytest.mark.anubis(component="cpu.compute", scope="device")
def test_speed(anubis_metric, anubis_device):
    values = json.loads(pathlib.Path("rounds.json").read_text())
    rounds = itertools.chain(values, itertools.repeat(values[-1]))
    anubis_metric.collect("speed", lambda: next(rounds), unit="GFLOP/s", better="higher")
"""


def set_rounds(pytester: pytest.Pytester, *values: float) -> None:
    (pytester.path / "rounds.json").write_text(json.dumps(values))


@pytest.fixture
def disturb(monkeypatch: pytest.MonkeyPatch) -> Callable[[Iterator[tuple[str, ...]]], None]:
    """Replace the host's watch by one that sees what it is told."""
    monkeypatch.setattr("pytest_anubis.session.measuring.attempts.PAUSE", 0.0)

    def do(seen: Iterator[tuple[str, ...]]) -> None:
        class Watch:
            def __init__(self, *_: Any, **__: Any) -> None:
                self.disturbance: tuple[str, ...] = ()

            def __enter__(self) -> Self:
                return self

            def __exit__(self, *_: object) -> None:
                self.disturbance = next(seen, ())

        monkeypatch.setattr("pytest_anubis.hardware.load.disturbance.HostWatch", Watch)

    return do


Disturb = Callable[[Iterator[tuple[str, ...]]], None]


def measurements(pytester: pytest.Pytester) -> list[dict[str, Any]]:
    (journal,) = pytester.path.glob(".anubis/runs/*/journal.jsonl")
    found = [json.loads(line) for line in journal.read_text().splitlines()]
    return [event for event in found if event["event"] in ("measurement", "attempt")]


def test_waiting_for_a_quiet_machine_is_said_while_it_lasts(
    pytester: pytest.Pytester, disturb: Disturb, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytest_anubis.session.measuring.attempts.GLANCE", 0.0)
    pytester.makepyfile(test_suite=SUITE)
    set_rounds(pytester, 100.0)
    disturb(iter([("12 % steal",), ("burn",), ("burn",)]))
    monkeypatch.setenv("PYTEST_ADDOPTS", "--anubis-in-process -p no:benchmark -p no:timeout")
    result = pytester.runpytest("--anubis", "-q")
    result.stdout.fnmatch_lines(
        [
            "anubis: *::test_speed* waits for a quiet machine, at most 10 s: burn *",
            "anubis: *::test_speed* goes on after 0 s: the machine is quiet",
        ]
    )
    (journal,) = pytester.path.glob(".anubis/runs/*/journal.jsonl")
    told = [json.loads(line) for line in journal.read_text().splitlines()]
    waits = [event for event in told if event["event"] == "waiting"]
    assert [(event["what"], event["quiet"]) for event in waits] == [(["burn"], False), ([], True)]


def test_a_pause_that_is_over_at_once_is_kept_and_not_said(
    pytester: pytest.Pytester, disturb: Disturb, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytest_anubis.session.measuring.attempts.GLANCE", 0.0)
    pytester.makepyfile(test_suite=SUITE)
    set_rounds(pytester, 100.0)
    disturb(iter([("12 % steal",)]))
    monkeypatch.setenv("PYTEST_ADDOPTS", "--anubis-in-process -p no:benchmark -p no:timeout")
    result = pytester.runpytest("--anubis", "-q")
    assert not [line for line in result.outlines if "goes on after" in line or "waits for" in line]
    (journal,) = pytester.path.glob(".anubis/runs/*/journal.jsonl")
    told = [json.loads(line) for line in journal.read_text().splitlines()]
    [wait] = [event for event in told if event["event"] == "waiting"]
    [end] = [event for event in told if event["event"] == "test_finished"]
    assert wait.get("most", 0.0) == 0.0
    assert end.get("waited", 0.0) == pytest.approx(wait["seconds"], abs=1e-5)


def test_a_disturbed_measurement_is_taken_again_and_every_attempt_is_kept(
    pytester: pytest.Pytester, learn: Learn, disturb: Disturb
) -> None:
    pytester.makepyfile(test_suite=SUITE)
    set_rounds(pytester, *[50.0] * SEARCHED, 100.0)  # the first attempt alone is slow
    learn()
    disturb(iter([("40 % steal",)]))
    assert pytester.runpytest("--anubis").ret == 0
    first, second = measurements(pytester)
    assert (first["event"], first["disturbance"]) == ("attempt", ["40 % steal"])
    assert set(first["values"]) == {50.0}
    assert (second["event"], second["attempts"]) == ("measurement", 2)
    assert set(second["values"]) == {100.0}


def test_a_machine_that_stays_disturbed_is_never_rejected_and_never_accepted(
    pytester: pytest.Pytester, learn: Learn, disturb: Disturb
) -> None:
    pytester.makepyfile(test_suite=SUITE)
    set_rounds(pytester, 50.0)
    learn()
    disturb(iter([("CPU quota of 0.5 cores",)] * 100))
    result = pytester.runpytest("--anubis", "-rs")
    result.assert_outcomes(skipped=1)
    assert result.ret == 20
    result.stdout.fnmatch_lines(["*CPU quota of 0.5 cores*"])
    assert len(measurements(pytester)) == 3


def test_a_disturbed_sample_may_pass_but_says_so(
    pytester: pytest.Pytester, learn: Learn, disturb: Disturb
) -> None:
    pytester.makepyfile(test_suite=SUITE)
    set_rounds(pytester, 100.0)
    learn()
    disturb(iter([("12 % steal",)] * 100))
    assert pytester.runpytest("--anubis").ret == 0
    assert measurements(pytester)[-1]["disturbance"] == ["12 % steal"]


def test_a_loss_is_confirmed_before_it_rejects(
    pytester: pytest.Pytester, learn: Learn, disturb: Disturb
) -> None:
    pytester.makepyfile(test_suite=SUITE)
    learn()
    disturb(iter(()))
    set_rounds(pytester, 80.0)
    assert pytester.runpytest("--anubis").ret == 1
    (measurement,) = measurements(pytester)
    assert measurement["looks"] > 1
    assert len(measurement["values"]) > SEARCHED


def test_a_burst_that_passes_does_not_reject(
    pytester: pytest.Pytester, learn: Learn, disturb: Disturb
) -> None:
    pytester.makepyfile(test_suite=SUITE)
    learn()
    disturb(iter(()))
    set_rounds(pytester, *[90.0] * SEARCHED, 100.0)
    assert pytester.runpytest("--anubis").ret == 0
    assert measurements(pytester)[-1]["looks"] > 1


def test_a_ten_percent_slowdown_fails_that_metric_and_no_other(
    pytester: pytest.Pytester, learn: Learn, disturb: Disturb
) -> None:
    disturb(iter(()))
    other = SUITE.replace("test_speed", "test_other").replace("rounds.json", "other.json")
    pytester.makepyfile(test_suite=SUITE, test_other=other)
    learn()
    learned_too = learn(benchmark="test_other.py::test_other", folder=pytester.path / "more")
    merge(pytester, learned_too)
    set_rounds(pytester, 90.0)
    (pytester.path / "other.json").write_text("[100.0]")
    result = pytester.runpytest("--anubis")
    result.assert_outcomes(failed=1, passed=1)
    assert result.ret == 1
    result.stdout.fnmatch_lines(["FAILED test_suite.py::test_speed*"])


def merge(pytester: pytest.Pytester, more: Any) -> None:
    from dataclasses import replace

    from pytest_anubis.store.baselines.baseline_files import load_baseline, save_baseline

    (path,) = (pytester.path / "baselines").glob("*.json")
    baseline = load_baseline(path)
    save_baseline(replace(baseline, criteria=baseline.criteria + more.criteria), path.parent)


def test_measure_times_a_callable_and_keeps_every_value(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        def test_sum(anubis_metric, anubis_device):
            values = anubis_metric.measure(
                "sum_time", lambda: sum(range(1000)), unit="us", better="lower", rounds=7)
            assert len(values) == 7
            assert all(value > 0 for value in values)
        """
    )
    pytester.runpytest("--anubis", "--anubis-mode=measure").assert_outcomes(passed=1)
    assert len(measurements(pytester)[-1]["values"]) == 7


def test_values_in_another_unit_are_not_looked_at_again_since_no_look_can_settle_that(
    pytester: pytest.Pytester, learn: Learn, disturb: Disturb
) -> None:
    pytester.makepyfile(test_suite=SUITE)
    learn({"speed": ("TFLOP/s", "higher")})
    disturb(iter(()))
    set_rounds(pytester, 80.0)
    result = pytester.runpytest("--anubis", "-rs")
    assert result.ret == 20
    result.stdout.fnmatch_lines(["*recorded in GFLOP/s, the baseline has TFLOP/s*"])
    (measurement,) = measurements(pytester)
    assert measurement.get("looks", 1) == 1


@pytest.mark.parametrize("value", [100.0, 80.0])
def test_a_criterion_of_another_version_of_the_benchmark_judges_nothing_and_both_are_named(
    pytester: pytest.Pytester, learn: Learn, disturb: Disturb, value: float
) -> None:
    later = SUITE.replace('scope="device"', 'scope="device", version=2')
    pytester.makepyfile(test_suite=later)
    learn()
    disturb(iter(()))
    set_rounds(pytester, value)
    result = pytester.runpytest("--anubis", "-rs")
    assert result.ret == 20
    result.stdout.fnmatch_lines(
        ["*version 2 of its benchmark measures other work or for another time than version 1*"]
    )
    (measurement,) = measurements(pytester)
    assert measurement["metric"]["version"] == 2
    assert measurement.get("looks", 1) == 1


@pytest.mark.parametrize("looks", [1, 16])
def test_a_run_and_its_journal_judged_afterwards_come_to_the_same(
    pytester: pytest.Pytester, learn: Learn, disturb: Disturb, looks: int
) -> None:
    from pytest_anubis.core.verdict import Decision
    from pytest_anubis.store.collected_runs import read_runs
    from pytest_anubis.validator.deciding.fleet_judging import judge_fleet
    from pytest_anubis.validator.deciding.run_decision import evidence_of
    from pytest_anubis.validator.judging.verdict_table import OUTCOMES, REASONS

    pytester.makepyfile(test_suite=SUITE)
    learned = learn()
    criteria = tuple(replace(c, learned=0.97, unconfirmed=0.6) for c in learned.criteria)
    (path,) = (pytester.path / "baselines").glob("*.json")
    path.unlink()
    save_baseline(replace(learned, criteria=criteria, digest=""), path.parent)
    baseline = load_baseline(path)
    disturb(iter(()))
    set_rounds(pytester, 80.0 if looks > 1 else 100.0)
    status = pytester.runpytest("--anubis").ret
    runs = read_runs([pytester.path / ".anubis"])
    (measured,) = [event for event in measurements(pytester) if event["event"] == "measurement"]
    assert (measured.get("looks", 1) > 1) is (looks > 1)
    (journal,) = pytester.path.glob(".anubis/runs/*/journal.jsonl")
    (in_run,) = [v for v in read_journal(journal).verdicts if v.metric == "speed"]
    judged = judge_fleet(
        runs.populations,
        {baseline.hardware_class: baseline},
        evidence={
            (run.hardware_class, run.node): evidence_of(
                run, runs.unmeasured.get((run.run, run.node), ())
            )
            for run in runs.journals
        },
    )
    (columns,) = [c for c in judged.columns if c.population.metric.name == "speed"]
    afterwards = columns.verdict(0, baseline)
    assert (OUTCOMES[columns.outcome[0]], REASONS[columns.reason[0]]) == (
        in_run.outcome,
        in_run.reason,
    )
    assert (afterwards.outcome, afterwards.text) == (in_run.outcome, in_run.text)
    assert afterwards.similarity == pytest.approx(in_run.similarity)
    (node,) = judged.nodes
    assert node.decision is (Decision.REJECTED if looks > 1 else Decision.ACCEPTED)
    assert node.decision.exit_code == status
