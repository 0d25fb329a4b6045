"""What the tests of traffic between ranks share: groups of ranks, on links too, and whole runs.

PYTEST_DONT_REWRITE: it holds no assertion.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pytest_anubis.benchmarking.shaped_link import INTERFACE, NotPossible, ShapedLink
from pytest_anubis.hardware import round_plans
from pytest_anubis.hardware.round_plans import RoundPlan
from suites.traffic import group as traffic
from suites.traffic import test_experts, test_layered
from suites.traffic.group import TrafficGroup
from tests import forked
from tests.places import ROOT
from tests.suites.faulty_traffic_rank import FAULT

BRIEF = RoundPlan(
    rounds=2, min_rounds=2, round_seconds=0.01, warmup_seconds=0.0, budget_seconds=0.1
)


@contextmanager
def of_ranks(world: int, **given: Any) -> Iterator[TrafficGroup]:
    """Start ranks on the CPU, forked."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subprocess, "Popen", forked.Quick)
        group = TrafficGroup(0, world, on_cpu=world, **given)
    with group:
        yield group


FREE = 10e9
"""Bytes a second of a link's way back. Were it slow, too, what acknowledges data that go forth would wait
behind others, and an exchange of both ways would take once or twice its time, by chance."""


@contextmanager
def behind_link(
    rate: float, world: int = 2
) -> Iterator[tuple[TrafficGroup, Callable[[float], None]]]:
    """Start ranks one half of which sends to the other at a known rate; yield them, and what changes it."""
    try:
        link = ShapedLink(rate, back=FREE)
    except NotPossible as why:
        pytest.skip(str(why))
    ends = [link.command(2 * number // world) for number in range(world)]
    variables = {"GLOO_SOCKET_IFNAME": INTERFACE}
    with link, of_ranks(world, environment=variables, within=ends) as group:
        group.join()
        yield group, partial(link.shape, back=FREE)


@contextmanager
def faulty(
    folder: Path, patch: pytest.MonkeyPatch, world: int = 2
) -> Iterator[tuple[TrafficGroup, Path]]:
    """Start ranks with a fault that a file names, for benchmarks that take moments."""
    hasten(patch)
    fault = folder / "fault"
    fault.write_text("")
    patch.setenv(FAULT, str(fault))
    with of_ranks(world, module="tests.suites.faulty_traffic_rank") as group:
        yield group, fault


def hasten(patch: pytest.MonkeyPatch) -> None:
    """Let benchmarks measure everything as seldom, and in as few parts, as they may."""
    patch.setitem(traffic.LOADED, "cpu", 0.0)
    patch.setattr(traffic, "CHUNKS", 6)
    for benchmark in (test_experts, test_layered):
        patch.setattr(benchmark, "TURNS", 2)
        patch.setattr(benchmark, "WARM", 1)


def run(pytester: pytest.Pytester, patch: pytest.MonkeyPatch, *given: str) -> pytest.RunResult:
    """Run the suite in a session of its own, with rounds as few as they may be."""
    hasten(patch)
    patch.setitem(round_plans.PLANS, "standard", BRIEF)
    return pytester.runpytest(
        *(
            "--anubis",
            "--anubis-in-process",
            "--anubis-gate=off",
            "--anubis-profile=standard",
            "-v",
        ),
        *(f"--rootdir={ROOT}", f"{ROOT}/suites/traffic/", *given),
    )
