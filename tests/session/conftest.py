"""A project with one benchmark, and a way to give it a baseline, for tests of the plugin."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy  # noqa: F401  # loaded once, not anew in every in-process run
import pytest
import scipy.special  # noqa: F401
import sqlalchemy  # noqa: F401

import pytest_anubis.hardware.load.disturbance  # noqa: F401
from pytest_anubis.core.baseline import Baseline
from pytest_anubis.core.metric import Direction, Metric
from pytest_anubis.core.sample import population_of
from pytest_anubis.hardware import timing
from pytest_anubis.hardware.load.test_disturbance import Ambient
from pytest_anubis.store.baselines.baseline_files import save_baseline
from pytest_anubis.validator import learn_baseline

SUITE = """
import json, os, pathlib, pytest

@pytest.mark.anubis(component="cpu.compute", scope="device", goal="full speed",
                    question="is it fast?", action="check the cooler")
def test_speed(anubis_metric, anubis_device):
    values = json.loads(pathlib.Path("speed.json").read_text())
    anubis_metric.record("speed", values, unit="GFLOP/s", better="higher")
"""

HEALTHY = [100.0 + 0.1 * i for i in range(-10, 11)]

Learn = Callable[..., Baseline]


@pytest.fixture(autouse=True)
def in_process(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run tests in their own process, without a worker's start, unless ``in_workers`` is asked for."""
    if "pytester" in request.fixturenames and "in_workers" not in request.fixturenames:
        request.getfixturevalue("pytester")  # which takes PYTEST_ADDOPTS away
        monkeypatch.setenv("PYTEST_ADDOPTS", "--anubis-in-process")


@pytest.fixture
def in_workers() -> None:
    """Run as users do: in a worker, or as many as the test asks for."""


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let in-process runs measure without the pauses between bursts."""
    plans = {name: replace(plan, pause_seconds=0.0) for name, plan in timing.PLANS.items()}
    monkeypatch.setattr(timing, "PLANS", plans)


@pytest.fixture(autouse=True)
def quiet_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever else this machine does is no disturbance of what in-process runs record."""
    monkeypatch.setattr(Ambient, "since", lambda self, begin: ())


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A suite whose one benchmark records what speed.json says."""
    monkeypatch.delenv("PYTEST_ANUBIS_PROFILE", raising=False)
    monkeypatch.delenv("PYTEST_ANUBIS_STORE", raising=False)
    pytester.makeini("[pytest]\n")
    pytester.makepyfile(test_suite=SUITE)
    set_speed(pytester, HEALTHY)
    return pytester


def set_speed(pytester: pytest.Pytester, values: Sequence[float]) -> None:
    (pytester.path / "speed.json").write_text(json.dumps(list(values)))


@pytest.fixture
def hardware_class(pytester: pytest.Pytester) -> tuple[str, Mapping[str, str]]:
    from pytest_anubis.hardware.inventory.hardware_classes import hardware_class as classify
    from pytest_anubis.hardware.inventory.inventory_reading import read_inventory

    return classify(read_inventory(), "smoke")


@pytest.fixture
def learn(pytester: pytest.Pytester, hardware_class: tuple[str, Mapping[str, str]]) -> Learn:
    """Write a baseline for this machine, learned from twelve healthy nodes."""

    def do(
        metrics: Mapping[str, tuple[str, Direction]] | None = None,
        *,
        benchmark: str = "test_suite.py::test_speed",
        centre: float = 100.0,
        folder: Path | None = None,
    ) -> Baseline:
        key, attributes = hardware_class
        populations = []
        for name, (unit, better) in (metrics or {"speed": ("GFLOP/s", "higher")}).items():
            samples = [
                [centre + 0.02 * node + 0.1 * (i % 21 - 10) for i in range(42)]
                for node in range(-6, 6)
            ]
            populations.append(
                population_of(
                    samples,
                    metric=Metric(name=name, unit=unit, better=better),
                    benchmark=benchmark,
                    devices=["cpu"] * 12,
                    runs=[f"r{i}" for i in range(12)],
                    hardware_class=key,
                    component="cpu.compute",
                )
            )
        baseline = learn_baseline(
            populations,
            hardware_class=key,
            attributes=attributes,
            created="2026-01-01T00:00:00+00:00",
            error_rate=None,
        )
        save_baseline(baseline, folder or pytester.path / "baselines")
        return baseline

    return do
