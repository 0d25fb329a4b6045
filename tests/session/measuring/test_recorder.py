"""Measuring on a machine that is not quiet, and looking closer at close calls."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Protocol, cast

import pytest

from pytest_anubis.core.verdict import MIN_SEARCHED
from pytest_anubis.hardware.load.clear_moments import HostMonitor, MonitoredRounds
from pytest_anubis.hardware.load.disturbance import HostWatch
from pytest_anubis.hardware.load.kernel_counters import Counts, KernelCounters
from pytest_anubis.hardware.round_plans import PLANS
from pytest_anubis.session.measuring.attempts import NO_CLEAR_MOMENT
from pytest_anubis.session.measuring.conditions import ConditionsWatch
from pytest_anubis.store.baselines.baseline_files import load_baseline, save_baseline
from tests.run_journals import events_of, record_of
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


class Idle:
    """The kernel's counters of an idle host."""

    def renew(self) -> None:
        """Look for other processes."""

    def read(self) -> Counts:
        """Return what they have used."""
        return Counts()


class Disturb(Protocol):
    """What `disturb` gives."""

    def __call__(self, *seen: str, first: int | None = None) -> None:
        """Replace the host's watch and the choice of values.

        Args:
            seen: What the watch sees around each measurement.
            first: From which value on moments are clear; None: never.
        """


@pytest.fixture
def disturb(monkeypatch: pytest.MonkeyPatch) -> Disturb:
    """Replace the host by one with given disturbances."""
    short = {name: replace(plan, budget_seconds=0.05) for name, plan in PLANS.items()}

    def do(*seen: str, first: int | None = None) -> None:
        def clear(rounds: MonitoredRounds) -> list[bool]:
            return [first is not None and n >= first for n in range(len(rounds.values))]

        host = HostMonitor(
            list, probe=lambda: 1.0, counters=cast(KernelCounters, Idle()), shared=True
        )
        monkeypatch.setattr(HostWatch, "disturbance", seen)
        monkeypatch.setattr(MonitoredRounds, "clear", clear)
        monkeypatch.setattr(ConditionsWatch, "rounds", lambda _, name="": MonitoredRounds(host))
        if first is None:  # else it looks for them for as long as the profile allows
            monkeypatch.setattr("pytest_anubis.hardware.round_plans.PLANS", short)

    return do


@pytest.fixture
def suite(pytester: pytest.Pytester, learn: Learn) -> pytest.Pytester:
    """The benchmark above, and its baseline."""
    pytester.makepyfile(test_suite=SUITE)
    learn()
    return pytester


def measurements(pytester: pytest.Pytester) -> list[dict[str, Any]]:
    return events_of(pytester, "measurement", "attempt")


def test_unclear_values_are_kept_but_do_not_count(suite: pytest.Pytester, disturb: Disturb) -> None:
    set_rounds(suite, *[50.0] * 6, 100.0)
    disturb("40 % steal", first=6)
    assert suite.runpytest("--anubis").ret == 0
    aside, counted = measurements(suite)
    assert (aside["event"], aside["values"]) == ("attempt", [50.0] * 6)
    assert (counted["event"], set(counted["values"])) == ("measurement", {100.0})
    assert len(counted["values"]) >= MIN_SEARCHED
    assert counted["unclear"] == 6
    assert "disturbance" not in counted


@pytest.mark.parametrize(
    ("seen", "words"), [("CPU quota of 0.5 cores",) * 2, ("", NO_CLEAR_MOMENT)]
)
def test_disturbed_machine_stays_undecided(
    suite: pytest.Pytester, disturb: Disturb, seen: str, words: str
) -> None:
    set_rounds(suite, 50.0)
    disturb(*filter(None, [seen]))
    result = suite.runpytest("--anubis", "-rs")
    result.assert_outcomes(skipped=1)
    assert result.ret == 20
    result.stdout.fnmatch_lines([f"*{words}*"])
    *_, last = measurements(suite)
    assert last["disturbance"] == [words]


def test_a_disturbed_sample_may_pass_but_says_so(suite: pytest.Pytester, disturb: Disturb) -> None:
    set_rounds(suite, 100.0)
    disturb("12 % steal")
    assert suite.runpytest("--anubis").ret == 0
    assert measurements(suite)[-1]["disturbance"] == ["12 % steal"]


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_measuring_what_does_no_work_is_refused(pytester: pytest.Pytester, kind: str) -> None:
    pytester.makepyfile(
        test_suite=f"""
        import pytest

        {kind} step():
            yield sum(range(1000))

        @pytest.mark.anubis(component="cpu.compute", scope="device")
        def test_step(anubis_metric, anubis_device):
            anubis_metric.measure("step_time", lambda: step(), unit="us", better="lower")
    """
    )
    result = pytester.runpytest("--anubis")
    assert result.ret == 4
    result.stdout.fnmatch_lines(["*generator or coroutine*"])


def test_rounds_of_shares_the_conditions(pytester: pytest.Pytester, disturb: Disturb) -> None:
    pytester.makepyfile(
        test_suite="""
        import itertools, pytest

        @pytest.mark.anubis(component="cpu.compute", scope="device")
        def test_both(anubis_metric, anubis_device):
            numbers = itertools.count()
            kept = anubis_metric.collect("first", lambda: float(next(numbers)), unit="1", better="higher")
            anubis_metric.record("second", [2 * value for value in kept], unit="1", better="higher",
                                 rounds_of="first")
        """
    )
    disturb("12 % steal", first=3)
    pytester.runpytest("--anubis", "--anubis-mode=measure").assert_outcomes(passed=1)
    _, first, second = measurements(pytester)
    assert second["values"] == [2 * value for value in first["values"]]
    assert first["values"][0] == 3.0
    assert (first["unclear"], second["unclear"]) == (3, 3)
    assert "disturbance" not in second


def test_evidence_of_a_test_is_kept_with_its_metric(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_suite="""
        import pytest

        @pytest.mark.anubis(component="cpu.compute", scope="device")
        def test_both(anubis_metric, anubis_device):
            anubis_metric.collect("first", lambda: 1.0, unit="1", better="higher", rounds=3)
            anubis_metric.record("second", [2.0] * 3, unit="1", better="higher", rounds_of="first",
                                 evidence=["card 1 is slow"])
            anubis_metric.record("third", 3.0, unit="1", better="higher", evidence=("so is card 2",))
        """
    )
    pytester.runpytest("--anubis", "--anubis-mode=measure").assert_outcomes(passed=1)
    *_, first, second, third = measurements(pytester)
    assert "card 1 is slow" not in first.get("evidence", [])
    assert second["evidence"][-1] == "card 1 is slow"
    assert third["evidence"][-1] == "so is card 2"


def test_a_loss_is_confirmed_before_it_rejects(suite: pytest.Pytester) -> None:
    set_rounds(suite, 80.0)
    assert suite.runpytest("--anubis").ret == 1
    (measurement,) = measurements(suite)
    assert measurement["looks"] > 1
    assert len(measurement["values"]) > MIN_SEARCHED


def test_a_burst_that_passes_does_not_reject(suite: pytest.Pytester) -> None:
    set_rounds(suite, *[90.0] * MIN_SEARCHED, 100.0)
    assert suite.runpytest("--anubis").ret == 0
    assert measurements(suite)[-1]["looks"] > 1


def test_slowdown_fails_only_its_metric(suite: pytest.Pytester, learn: Learn) -> None:
    other = SUITE.replace("test_speed", "test_other").replace("rounds.json", "other.json")
    suite.makepyfile(test_other=other)
    more = learn(benchmark="test_other.py::test_other", folder=suite.path / "more")
    (path,) = (suite.path / "baselines").glob("*.json")
    baseline = load_baseline(path)
    save_baseline(replace(baseline, criteria=baseline.criteria + more.criteria), path.parent)
    set_rounds(suite, 90.0)
    (suite.path / "other.json").write_text("[100.0]")
    result = suite.runpytest("--anubis")
    result.assert_outcomes(failed=1, passed=1)
    assert result.ret == 1
    result.stdout.fnmatch_lines(["FAILED test_suite.py::test_speed*"])


def test_measure_keeps_every_value(pytester: pytest.Pytester) -> None:
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


@pytest.mark.parametrize(
    ("unit", "value", "words"),
    [
        ("TFLOP/s", 80.0, "recorded in GFLOP/s, the baseline has TFLOP/s"),
        ("GFLOP/s", 100.0, "version 2 of its benchmark measures other work or for another time *1"),
        ("GFLOP/s", 80.0, "version 2 of its benchmark measures other work or for another time *1"),
    ],
)
def test_what_no_criterion_fits_is_not_judged_and_gets_no_looks(
    pytester: pytest.Pytester, learn: Learn, unit: str, value: float, words: str
) -> None:
    later = words.startswith("version 2")
    text = SUITE.replace('scope="device"', 'scope="device", version=2') if later else SUITE
    pytester.makepyfile(test_suite=text)
    learn({"speed": (unit, "higher")})
    set_rounds(pytester, value)
    result = pytester.runpytest("--anubis", "-rs")
    assert result.ret == 20
    result.stdout.fnmatch_lines([f"*{words}*"])
    (measurement,) = measurements(pytester)
    assert measurement["metric"].get("version", 1) == 1 + later
    assert measurement.get("looks", 1) == 1


@pytest.mark.parametrize("looks", [1, 16])
def test_judging_the_journal_gives_the_same_result(
    pytester: pytest.Pytester, learn: Learn, looks: int
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
    set_rounds(pytester, 80.0 if looks > 1 else 100.0)
    status = pytester.runpytest("--anubis").ret
    runs = read_runs([pytester.path / ".anubis"])
    (measured,) = [event for event in measurements(pytester) if event["event"] == "measurement"]
    assert (measured.get("looks", 1) > 1) is (looks > 1)
    (in_run,) = [v for v in record_of(pytester).verdicts if v.metric == "speed"]
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
