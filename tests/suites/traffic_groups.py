"""What the tests of traffic between ranks share: groups of ranks, on links too, and whole runs.

PYTEST_DONT_REWRITE: it holds no assertion.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pytest_anubis.benchmarking.shaped_link import INTERFACE, NotPossible, ShapedLink
from pytest_anubis.hardware import round_plans
from pytest_anubis.hardware.round_plans import RoundPlan
from suites.traffic.group import TrafficGroup
from tests import forked
from tests.places import ROOT
from tests.suites.faulty_traffic_rank import FAULT

BRIEF = RoundPlan(
    rounds=2, min_rounds=2, round_seconds=0.01, warmup_seconds=0.0, budget_seconds=0.1
)


@contextmanager
def of_ranks(world: int, **given: Any) -> Iterator[TrafficGroup]:
    """Start ranks on the CPU, forked, for a fixture of a module."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subprocess, "Popen", forked.Quick)
        group = TrafficGroup(0, world, on_cpu=world, **given)
    with group:
        yield group


@contextmanager
def behind_link(rate: float, world: int = 2) -> Iterator[tuple[TrafficGroup, ShapedLink]]:
    """Start ranks one half of which has to use a link of a known rate to the other."""
    try:
        link = ShapedLink(rate)
    except NotPossible as why:
        pytest.skip(str(why))
    ends = [link.command(2 * number // world) for number in range(world)]
    variables = {"GLOO_SOCKET_IFNAME": INTERFACE}
    with link, TrafficGroup(0, 2, on_cpu=world, environment=variables, within=ends) as group:
        yield group, link


@contextmanager
def faulty(
    folder: Path, patch: pytest.MonkeyPatch, world: int = 2
) -> Iterator[tuple[TrafficGroup, Path]]:
    """Start ranks with a fault that a file names."""
    fault = folder / "fault"
    fault.write_text("")
    patch.setenv(FAULT, str(fault))
    module = "tests.suites.faulty_traffic_rank"
    with TrafficGroup(0, 2, on_cpu=world, module=module) as group:
        yield group, fault


def run(pytester: pytest.Pytester, patch: pytest.MonkeyPatch, name: str) -> pytest.RunResult:
    """Run a file of the suite in a session of its own, with rounds as few as they may be."""
    patch.setitem(round_plans.PLANS, "standard", BRIEF)
    return pytester.runpytest(
        *(
            "--anubis",
            "--anubis-in-process",
            "--anubis-gate=off",
            "--anubis-profile=standard",
            "-v",
        ),
        *(f"--rootdir={ROOT}", f"{ROOT}/suites/traffic/{name}"),
    )
