"""A simulation of one's own fleet: its benchmarks, its rates, its history."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pytest

from pytest_anubis.cli.shared.history_access import probability
from pytest_anubis.core.history import Defect, FleetHistory, Incident, NodeRecord
from pytest_anubis.selector.selector_error import SelectorError
from pytest_anubis.selector.simulation.policies import Nothing
from pytest_anubis.selector.simulation.policy_comparison import figures
from pytest_anubis.selector.simulation.scenarios import OwnFleet, own_of, scenario, with_own
from pytest_anubis.selector.simulation.simulated_fleet import simulate
from tests.cli.command_line import anubis

HOUR = 3600.0


def test_own_figures_replace_the_scenarios() -> None:
    world = with_own(
        scenario("B"),
        OwnFleet(tests={"a": (3, 0.5), "b": (1, 2)}, wear=100, manifest=5, stays=0.2, initial=0.0),
    )
    assert world.rates.shares.tolist() == [0.75, 0.25]
    assert world.benchmark_hours.tolist() == [0.5, 2]
    assert (world.rates.wear, world.rates.manifest) == (0.01, 0.2)
    assert (world.rates.stays, world.rates.initial) == (0.2, 0.0)
    same = with_own(scenario("B"), OwnFleet())
    assert same.rates.wear == scenario("B").rates.wear
    for wrong in (
        OwnFleet(tests={"a": (0, 1)}),
        OwnFleet(tests={"a": (-1, 1), "b": (2, 1)}),
        OwnFleet(wear=0),
    ):
        with pytest.raises(SelectorError):
            with_own(scenario("B"), wrong)


def test_a_history_gives_costs_shares_and_incidents() -> None:
    fleet = FleetHistory(
        nodes=(NodeRecord(name="n1", since=0.0), NodeRecord(name="n2", since=0.0)),
        incidents=(Incident(node="n1", kind="nic", started=10 * HOUR),),
        defects=(
            Defect(number=1, node="n1", found=1.0, benchmarks=("a",), state="confirmed"),
            Defect(number=2, node="n1", found=1.0, benchmarks=("b",), state="false alarm"),
        ),
        durations={"a": HOUR, "b": 2 * HOUR},
        gone={"n2": 100 * HOUR},
    )
    own = own_of(fleet, now=400 * HOUR)
    assert own.tests == {"a": (2.0, 1.0), "b": (1.0, 2.0)}
    assert (own.mtbi, own.wear) == (500, None)
    with pytest.raises(SelectorError, match="no benchmark's duration"):
        own_of(FleetHistory(), now=0.0)
    given = own_of(fleet, now=400 * HOUR, tests={"c": (1.0, 2.0)})
    assert (given.tests, given.mtbi) == ({"c": (1.0, 2.0)}, 500)


@pytest.mark.parametrize("name", ["A", "B", "C"])
def test_incidents_are_as_frequent_as_in_the_history(name: str) -> None:
    world = with_own(scenario(name), OwnFleet(mtbi=1500.0))
    runs = [simulate(world, Nothing(), nodes=400, horizon=2160, seed=seed) for seed in range(2)]
    assert sum(run.used for run in runs) / sum(run.incidents for run in runs) == pytest.approx(
        1500, rel=0.25
    )
    assert with_own(scenario(name), OwnFleet(mtbi=1500.0, wear=100.0)).rates.wear == 0.01
    with pytest.raises(SelectorError, match="no repair helps"):
        with_own(scenario(name), OwnFleet(mtbi=1500.0, stays=1.0))


@pytest.mark.parametrize("seeds", [1, 2, 3])
def test_three_seeds_have_an_interval(seeds: int) -> None:
    runs = [simulate(scenario("A"), Nothing(), nodes=64, horizon=200, seed=s) for s in range(seeds)]
    found = figures("none", "", runs, runs, runs)
    if seeds < 3:
        assert (found.low, found.high, found.useful_low, found.useful_high) == (None,) * 4
        return
    assert found.useful_low is not None
    assert found.useful_high is not None
    assert found.useful_low < found.useful < found.useful_high


def test_intervals_over_few_seeds_are_qualified(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    small = ("--nodes=64", "--time=1d", "--risk=0.1", "--jobs=1")
    two = anubis("simulate", *small, "--seeds=2", "--html", str(page)).stdout
    assert "2 seeds: too few for an interval" in two
    assert "2 seeds: too few for an interval" in page.read_text("utf-8")
    (line,) = (line for line in two.splitlines() if line.startswith("full set"))
    assert " to " not in line
    three = anubis("simulate", *small, "--seeds=3").stdout
    assert "intervals over 3 seeds are too narrow: about three in four of those" in three
    ten = anubis("simulate", *small, "--seeds=10").stdout
    assert "too narrow" not in ten


def test_the_command_takes_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    small = ("--nodes=64", "--time=1d", "--seeds=1", "--risk=0.1", "--jobs=1")
    Path("costs.csv").write_text("benchmark,time,share\na,5m,3\nb,90s,1\n")
    done = anubis("simulate", *small, "--costs=costs.csv", "--wear=500h", "--stays=0.3")
    assert done.returncode == 0, done.stderr
    assert "with your own --costs, --wear, --stays" in done.stdout
    assert "(500) h of use" in done.stdout
    assert "(30 %) of repairs" in done.stdout
    Path("costs.csv").write_text("benchmark,time,share\na,soon,3\n")
    assert "costs.csv line 2" in anubis("simulate", *small, "--costs=costs.csv").stderr
    assert "no history yet" in anubis("simulate", *small, "--history=elsewhere").stderr


def test_a_history_without_runs_is_said_in_one_line(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    Path("nodes.csv").write_text("node\nn1\nn2\n")
    Path("incidents.csv").write_text("node,kind,started\nn1,nic,2026-01-05\n")
    assert anubis("history", "nodes", "import", "nodes.csv").returncode == 0
    assert anubis("history", "incident", "import", "incidents.csv").returncode == 0
    refused = anubis("simulate", "--nodes=64", "--time=5d", "--seeds=1", "--history=.anubis")
    assert (refused.returncode, refused.stdout) == (2, "")
    (line,) = refused.stderr.splitlines()
    assert "no benchmark's duration" in line
    Path("costs.csv").write_text("benchmark,time,share\na,5m,3\n")
    small = ("--nodes=64", "--time=1d", "--seeds=1", "--risk=0.1", "--jobs=1")
    done = anubis("simulate", *small, "--history=.anubis", "--costs=costs.csv")
    assert done.returncode == 0, done.stderr


def test_a_share_may_be_in_percent() -> None:
    assert probability("30%") == pytest.approx(probability("0.3")) == pytest.approx(0.3)
    for wrong in ("100%", "-1%", "1", "%", "a"):
        with pytest.raises(argparse.ArgumentTypeError, match="30%"):
            probability(wrong)
