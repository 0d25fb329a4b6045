"""Measurements become shorter where the baseline says that a shorter window is enough."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from pytest_anubis.core.metric import Metric
from pytest_anubis.core.sample import population_of
from pytest_anubis.core.verdict import MIN_SEARCHED
from pytest_anubis.store.baselines.baseline_files import save_baseline
from tests.run_journals import record_of
from tests.session.conftest import baseline_of

SUITE = """
import itertools, pytest

@pytest.mark.anubis(component="cpu.compute", scope="device")
def test_speed(anubis_metric, anubis_device):
    numbers = itertools.count()
    anubis_metric.collect("speed", lambda: 100 + 0.01 * (next(numbers) % 7), unit="GFLOP/s",
                          better="higher", rounds=60)
"""


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    from pytest_anubis.hardware.round_plans import PLANS

    # However slow this machine is just now: the rounds end by their number, not by their time.
    plans = {key: dataclasses.replace(plan, budget_seconds=600.0) for key, plan in PLANS.items()}
    monkeypatch.setattr("pytest_anubis.hardware.round_plans.PLANS", plans)


def learn(
    pytester: pytest.Pytester,
    hardware_class: tuple[str, Mapping[str, str]],
    *,
    nodes: int,
    window: tuple[int, int] | None,
) -> None:
    key, attributes = hardware_class
    rng = np.random.default_rng(0)
    population = population_of(
        [100 * np.exp(rng.normal(0, 0.001, 60)) for _ in range(12)],
        metric=Metric(name="speed", unit="GFLOP/s", better="higher"),
        benchmark="test_suite.py::test_speed",
        nodes=[f"n{i % nodes}" for i in range(12)],
        devices=["cpu"] * 12,
        runs=[f"r{i}" for i in range(12)],
        hardware_class=key,
    )
    baseline = baseline_of([population], key, attributes)
    criteria = tuple(dataclasses.replace(c, window=window) for c in baseline.criteria)
    save_baseline(dataclasses.replace(baseline, criteria=criteria), pytester.path / "baselines")


def taken(pytester: pytest.Pytester, *arguments: str) -> list[tuple[str, int]]:
    """Run, and return what was recorded: kind of event and number of values."""
    pytester.makepyfile(test_suite=SUITE)
    assert pytester.runpytest("--anubis", *arguments).ret == 0
    journal = max(pytester.path.glob(".anubis/runs/*/journal.jsonl"))
    found: list[dict[str, Any]] = [json.loads(line) for line in journal.read_text().splitlines()]
    return [
        (event["event"], len(event["values"]))
        for event in found
        if event["event"] in ("measurement", "attempt") and not event.get("disturbance")
    ]


@pytest.mark.parametrize(
    ("window", "recorded"),
    [
        (None, [("measurement", 60)]),
        ((0, 32), [("measurement", 32)]),
        ((0, 8), [("measurement", 24)]),  # enough to see a change within the run
        ((5, 32), [("attempt", 5), ("measurement", 32)]),
        ((0, 96), [("measurement", 60)]),
    ],
)
def test_window_shortens_the_measurement(
    pytester: pytest.Pytester,
    hardware_class: tuple[str, Mapping[str, str]],
    window: tuple[int, int] | None,
    recorded: list[tuple[str, int]],
) -> None:
    learn(pytester, hardware_class, nodes=12, window=window)
    assert taken(pytester) == recorded


def test_learning_keeps_the_full_length(
    pytester: pytest.Pytester, hardware_class: tuple[str, Mapping[str, str]]
) -> None:
    learn(pytester, hardware_class, nodes=12, window=(0, 32))
    assert taken(pytester, "--anubis-mode=measure") == [("measurement", 60)]
    learn(pytester, hardware_class, nodes=1, window=(0, 32))
    assert taken(pytester, "--anubis-other-machine") == [("measurement", 60)]


def test_collect_takes_enough_rounds_for_changes(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_suite=SUITE.replace(", rounds=60", ""))
    pytester.runpytest("--anubis", "--anubis-in-process")
    assert len(record_of(pytester).measurements[0].values) == MIN_SEARCHED
