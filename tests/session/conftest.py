"""A project with one benchmark, and a way to give it a baseline, for tests of the plugin."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path

import pytest

from pytest_anubis.core.baseline import ALPHA, Baseline, Criterion
from pytest_anubis.core.inventory import Inventory
from pytest_anubis.core.metric import Direction, Metric
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.sample import Population, population_of
from pytest_anubis.hardware.inventory.hardware_classes import hardware_class as class_of
from pytest_anubis.hardware.inventory.inventory_reading import read_inventory
from pytest_anubis.session.measuring import attempts
from pytest_anubis.store.baselines.baseline_files import save_baseline
from pytest_anubis.store.journal.journal_reading import read_journal
from pytest_anubis.validator import learn_baseline
from tests.quiet import OPTIONS

SUITE = """
import json, os, pathlib, pytest

@pytest.mark.anubis(component="cpu.compute", scope="device", goal="full speed",
                    question="is it fast?", action="check the cooler")
def test_speed(anubis_metric, anubis_device):
    values = json.loads(pathlib.Path("speed.json").read_text())
    anubis_metric.record("speed", values, unit="GFLOP/s", better="higher")
"""

COPIES = """
import pytest

@pytest.mark.anubis(component="accelerator.memory", scope="device")
def test_copy(anubis_metric, anubis_device):
    anubis_metric.record("rate", [100.0] * 5, unit="GB/s", better="higher")
"""
"""A suite for every card, of which `baseline_of_copies` is the baseline."""

HEALTHY = [100.0 + 0.1 * i for i in range(-10, 11)]

Learn = Callable[..., Baseline]


@pytest.fixture(autouse=True)
def in_process(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run tests in their own process, without a worker's start, unless ``in_workers`` is asked for."""
    if "pytester" not in request.fixturenames:
        return
    request.getfixturevalue("pytester").makeini("[pytest]\n")  # so that its folder is pytest's root
    if "in_workers" not in request.fixturenames:
        monkeypatch.setenv("PYTEST_ADDOPTS", f"{OPTIONS} --anubis-in-process")


@pytest.fixture
def in_workers() -> None:
    """Run as users do: in a worker, or as many as the test asks for."""


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let in-process runs look closer without pauses."""
    monkeypatch.setattr(attempts, "LOOK_PAUSE", 0.0)


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    """A suite whose one benchmark records what speed.json says."""
    pytester.makepyfile(test_suite=SUITE)
    set_speed(pytester, HEALTHY)
    return pytester


def set_speed(pytester: pytest.Pytester, values: Sequence[float]) -> None:
    (pytester.path / "speed.json").write_text(json.dumps(list(values)))


def set_default(monkeypatch: pytest.MonkeyPatch, kind: type, name: str, value: object) -> None:
    """Change the default of a keyword argument by which objects of a class are made."""
    monkeypatch.setitem(vars(kind)["__init__"].__kwdefaults__, name, value)


def edit_suite(pytester: pytest.Pytester, old: str, new: str) -> None:
    """Replace text in the suite."""
    path = pytester.path / "test_suite.py"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def append_to_suite(pytester: pytest.Pytester, text: str) -> None:
    """Add lines to the end of the suite."""
    with (pytester.path / "test_suite.py").open("a") as out:
        out.write(text)


def run_kinds(
    project: pytest.Pytester, kinds: Mapping[str, str], *options: str
) -> tuple[int, RunRecord, dict[str, set[str]]]:
    """Run one file for each kind; return exit code, journal, and the outcomes of each file's verdicts."""
    files = {f"test_{number:02}": kind for number, kind in enumerate(kinds)}
    project.makepyfile(**{file: kinds[kind] for file, kind in files.items()})
    result = project.runpytest("--anubis", *options)
    record = read_journal(next(project.path.glob(".anubis/runs/*")))
    found = {
        kind: {v.outcome.value for v in record.verdicts if v.benchmark.startswith(f"{file}.py")}
        for file, kind in files.items()
    }
    return int(result.ret), record, found


@pytest.fixture(scope="session")
def hardware_class() -> tuple[str, Mapping[str, str]]:
    return class_of(read_inventory(), "smoke")


def baseline_of(
    populations: Sequence[Population], key: str, attributes: Mapping[str, str], alpha: float = ALPHA
) -> Baseline:
    """Return what populations of one hardware class teach."""
    return learn_baseline(
        populations,
        hardware_class=key,
        attributes=attributes,
        created="2026-01-01T00:00:00+00:00",
        alpha=alpha,
        error_rate=None,
    )


@cache
def learned(
    metrics: tuple[tuple[str, str, Direction], ...],
    benchmark: str,
    centre: float,
    key: str,
    attributes: tuple[tuple[str, str], ...],
) -> Baseline:
    """Learn the same only once: many tests begin with it."""
    populations = [
        population_of(
            [
                [centre + 0.02 * node + 0.1 * (i % 21 - 10) for i in range(42)]
                for node in range(-6, 6)
            ],
            metric=Metric(name=name, unit=unit, better=better),
            benchmark=benchmark,
            devices=["cpu"] * 12,
            runs=[f"r{i}" for i in range(12)],
            hardware_class=key,
            component="cpu.compute",
        )
        for name, unit, better in metrics
    ]
    return baseline_of(populations, key, dict(attributes))


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
        wanted = (metrics or {"speed": ("GFLOP/s", "higher")}).items()
        baseline = learned(
            tuple((name, unit, better) for name, (unit, better) in wanted),
            benchmark,
            centre,
            key,
            tuple(attributes.items()),
        )
        save_baseline(baseline, folder or pytester.path / "baselines")
        return baseline

    return do


@pytest.fixture
def with_baseline(project: pytest.Pytester, learn: Learn) -> pytest.Pytester:
    """The suite, and a baseline of its one benchmark."""
    learn()
    return project


def exact(metric: str, benchmark: str = "test_suite.py::test_speed") -> Criterion:
    """Return the criterion of an exact metric that was 0 on twelve nodes."""
    return Criterion(
        benchmark=benchmark,
        metric=Metric(name=metric, unit="elements", better="equal"),
        centre=(0.0,),
        nodes=12,
        units=12,
    )


def baseline_of_copies(inventory: Inventory) -> Baseline:
    """Return what twelve nodes of an inventory's class taught: ``test_copy`` has a rate of 100 GB/s."""
    key, attributes = class_of(inventory, "smoke")
    return learned_copies(key, tuple(attributes.items()))


@cache
def learned_copies(key: str, attributes: tuple[tuple[str, str], ...]) -> Baseline:
    """Learn the same only once: many tests of the gate begin with it."""
    population = population_of(
        [[100.0] * 5 for _ in range(12)],
        metric=Metric(name="rate", unit="GB/s", better="higher"),
        benchmark="test_suite.py::test_copy",
        devices=["cuda:0"] * 12,
        hardware_class=key,
        component="accelerator.memory",
    )
    return baseline_of([population], key, dict(attributes))
