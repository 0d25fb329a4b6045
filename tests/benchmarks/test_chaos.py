"""The campaign that tries to break a run sees what it must see."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="module")
def silent() -> Any:
    return importlib.import_module("benchmarks.reliability.chaos.silent_acceptance")


@pytest.fixture(scope="module")
def campaign(silent: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    place = tmp_path_factory.mktemp("chaos")
    with ThreadPoolExecutor(2) as pool:
        yield silent.Campaign(place, place, 1, True, None, (), False, float("inf"), pool)


def test_the_same_seed_draws_the_same(silent: Any) -> None:
    drawn = [str(one) for one in silent.scenarios(900, 7)]
    assert drawn == [str(one) for one in silent.scenarios(900, 7)]
    assert drawn != [str(one) for one in silent.scenarios(900, 8)]
    assert len(drawn) == 900
    assert len(set(drawn)) > 850  # few are drawn twice


@pytest.mark.usefixtures("quick_processes")
def test_an_acceptance_is_seen_wherever_it_is_claimed(
    silent: Any, campaign: Any, tmp_path: Path
) -> None:
    healthy = silent.Scenario("host", "metric", "a", "", ("--anubis-in-process",))
    folder = tmp_path / "healthy"
    ran = silent.play(healthy, campaign, folder)
    claims = "exit status 0, journal ACCEPTED, report ACCEPTED, judge accepts"
    assert silent._wrong(healthy, ran, folder) == claims


@pytest.mark.usefixtures("quick_processes")
def test_bad_nodes_are_tried(silent: Any, campaign: Any) -> None:
    chosen = [
        silent.Scenario("host", "metric", "c", "20 % slower", ("conftest: exit status set",)),
        silent.Scenario("host", "plain", "p", "os._exit(0)", ("--anubis-in-process",)),
    ]

    def attempt(number: int, folder: Path) -> str:
        return str(silent._attempt(campaign, chosen, number, folder))

    assert campaign.each("bad", len(chosen), attempt) == (2, [])


def test_no_scenario_kills_the_campaign_itself(silent: Any) -> None:
    faults = {**silent.METRIC, **silent.PLAIN, **silent.DEVICE}
    parents = [fault.body for fault in faults.values() if "getppid" in fault.body]
    assert parents
    assert all("CHAOS" in body for body in parents)
    assert "benchmarks.reliability.chaos.toy_node" in sys.modules
