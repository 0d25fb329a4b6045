"""What the end of a run adds to its tests: changes within a run, pooled values, peers and own history."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from pytest_anubis.core.metric import Metric
from pytest_anubis.core.sample import population_of
from pytest_anubis.hardware.inventory.hardware_classes import hardware_class as class_of
from pytest_anubis.hardware.telemetry.recorded_node import replay
from pytest_anubis.store.baselines.baseline_files import save_baseline
from tests.places import RECORDED
from tests.session.conftest import HEALTHY, baseline_of, set_speed

THROTTLED = [*HEALTHY, *(0.88 * value for value in HEALTHY)]
NODE = """
import json, pathlib, pytest

@pytest.mark.anubis(component="accelerator.memory", scope="device", action="swap the card")
def test_copy(anubis_metric, anubis_device):
    values = json.loads(pathlib.Path("rates.json").read_text())[anubis_device.name]
    anubis_metric.record("rate", values, unit="GB/s", better="higher")
"""


def rates(pytester: pytest.Pytester, slow: Mapping[int, float], seed: int = 0) -> None:
    rng = np.random.default_rng(seed)
    values = {
        f"cuda:{i}": (100 * slow.get(i, 1.0) * np.exp(rng.normal(0, 0.003, 12))).tolist()
        for i in range(8)
    }
    (pytester.path / "rates.json").write_text(json.dumps(values))


@pytest.fixture
def eight(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A recorded node of eight GPUs, without a baseline."""
    monkeypatch.delenv("PYTEST_ANUBIS_PROFILE", raising=False)
    monkeypatch.delenv("PYTEST_ANUBIS_STORE", raising=False)
    pytester.makepyfile(test_suite=NODE)
    (pytester.path / "node.json").write_text(RECORDED.read_text())
    return pytester


def run(pytester: pytest.Pytester, *more: str) -> pytest.RunResult:
    recorded = ("--anubis-inventory=node.json", "-p", "no:xdist", "-p", "no:cacheprovider")
    return pytester.runpytest("--anubis", *recorded, *more)


def junit(pytester: pytest.Pytester) -> tuple[str, int, list[str]]:
    """Return what the JUnit file says: decision, failures, names of the cases that failed."""
    root = ET.parse(pytester.path / "out.xml").getroot()  # noqa: S314  # pytest wrote it just now
    (suite,) = root.iter("testsuite")
    (properties,) = suite.findall("properties")
    values = {one.get("name"): one.get("value") for one in properties}
    failed = [
        case.get("name", "") for case in suite.iter("testcase") if case.find("failure") is not None
    ]
    return str(values["anubis.decision"]), int(suite.get("failures", "-1")), failed


def verdicts(pytester: pytest.Pytester) -> list[dict[str, Any]]:
    """Return the verdicts of the latest run."""
    journal = max(pytester.path.glob(".anubis/runs/*/journal.jsonl"))
    events = [json.loads(line) for line in journal.read_text().splitlines()]
    return [event for event in events if event["event"] == "verdict"]


def test_slow_gpu_is_rejected_without_baseline(eight: pytest.Pytester) -> None:
    rates(eight, {5: 0.85})
    result = run(eight, "--junitxml=out.xml")
    assert result.ret == 1
    assert junit(eight) == ("REJECTED", 1, ["acceptance"])
    result.stdout.fnmatch_lines(
        [
            "REJECTED: node *: accelerator.memory (1 of 1 result failed)",
            "FAIL test_copy rate on cuda:5 * by 7 other devices of this node [[]accelerator.memory[]]*",
            "next step for accelerator.memory: swap the card",
        ]
    )
    found = [v for v in verdicts(eight) if v.get("reference") == "peers"]
    assert len(found) == 8
    assert [v["device"] for v in found if v["outcome"] == "FAIL"] == ["cuda:5"]
    assert {v["outcome"] for v in found} == {"FAIL", "PASS"}


def test_agreeing_devices_are_not_accepted(eight: pytest.Pytester) -> None:
    rates(eight, dict.fromkeys(range(8), 0.5))
    result = run(eight, "--junitxml=out.xml")
    assert result.ret == 20
    assert junit(eight) == ("UNDECIDED", 1, ["acceptance"])
    result.stdout.fnmatch_lines(["UNDECIDED*", "in the way of acceptance:", "*no baseline*"])
    assert {v["outcome"] for v in verdicts(eight) if v.get("reference") == "peers"} == {"PASS"}


def test_pooled_values_are_judged_by_the_baseline(eight: pytest.Pytester) -> None:
    rng = np.random.default_rng(1)
    key, attributes = class_of(replay(eight.path / "node.json").inventory, "smoke")
    count = 12
    population = population_of(
        [100 * np.exp(rng.normal(0, 0.003, 12)) for _ in range(8 * count)],
        metric=Metric(name="rate", unit="GB/s", better="higher"),
        benchmark="test_suite.py::test_copy",
        nodes=[f"n{i // 8}" for i in range(8 * count)],
        devices=[f"cuda:{i % 8}" for i in range(8 * count)],
        hardware_class=key,
    )
    baseline = baseline_of([population], key, attributes)
    save_baseline(baseline, eight.path / "baselines")
    rates(eight, {})
    assert run(eight).ret == 0
    (pooled,) = [v for v in verdicts(eight) if v.get("scope") == "node"]
    assert (pooled["outcome"], pooled["count"], pooled["reference"]) == ("PASS", 96, "fleet")
    rates(eight, dict.fromkeys(range(8), 0.9))
    assert run(eight).ret == 1
    (pooled,) = [v for v in verdicts(eight) if v.get("scope") == "node"]
    assert pooled["outcome"] == "FAIL"


def test_decay_is_found_in_the_own_history(project: pytest.Pytester) -> None:
    rng = np.random.default_rng(2)
    for _ in range(5):
        set_speed(project, (100 * np.exp(rng.normal(0, 0.003, 20))).tolist())
        assert project.runpytest("--anubis").ret == 20
    set_speed(project, (85 * np.exp(rng.normal(0, 0.003, 20))).tolist())
    result = project.runpytest("--anubis")
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        ["REJECTED*", "FAIL test_speed speed * by 5 earlier runs of this device *"]
    )
    set_speed(project, (100 * np.exp(rng.normal(0, 0.003, 20))).tolist())
    assert project.runpytest("--anubis").ret == 20
    (own,) = [v for v in verdicts(project) if v.get("reference") == "self"]
    # The slow run was rejected, so nothing is learned from it.
    assert (own["outcome"], own["population"]) == ("PASS", "5 earlier runs of this device")


def test_two_earlier_runs_are_no_reference(project: pytest.Pytester) -> None:
    for _ in range(2):
        assert project.runpytest("--anubis").ret == 20
    set_speed(project, [0.5 * value for value in HEALTHY])
    assert project.runpytest("--anubis").ret == 20
    assert not [v for v in verdicts(project) if v.get("reference") == "self"]


def test_throttling_is_marginal_with_its_onset(
    project: pytest.Pytester, hardware_class: tuple[str, Mapping[str, str]]
) -> None:
    key, attributes = hardware_class
    # A loss of 6 % over the whole run is within the practical threshold of this baseline.
    samples = [
        [100 * (1 + 0.001 * (node - 6)) * (1 + 0.001 * (i % 21 - 10)) for i in range(42)]
        for node in range(13)
    ]
    population = population_of(
        samples,
        metric=Metric(name="speed", unit="GFLOP/s", better="higher"),
        benchmark="test_suite.py::test_speed",
        devices=["cpu"] * 13,
        hardware_class=key,
    )
    baseline = baseline_of([population], key, attributes, alpha=0.9)
    save_baseline(baseline, project.path / "baselines")
    set_speed(project, THROTTLED)
    result = project.runpytest("--anubis", "--html=r.html", "--self-contained-html")
    assert result.ret == 0  # MARGINAL does not reject
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["MARGINAL *became 12 % slower from value 22 of 42*probability*"])
    (found,) = verdicts(project)
    assert (found["outcome"], found["reason"]) == ("MARGINAL", "change-point")
    assert "from value 22 of 42" in found["text"]
    assert "from value 22 of 42" in (project.path / "r.html").read_text()
    assert project.runpytest("--anubis", "--anubis-fail-on=marginal").ret == 1


def test_a_steady_run_is_not_marginal(with_baseline: pytest.Pytester) -> None:
    rng = np.random.default_rng(3)
    set_speed(with_baseline, (100 * np.exp(rng.normal(0, 0.004, 60))).tolist())
    assert with_baseline.runpytest("--anubis").ret == 0
    assert [v["outcome"] for v in verdicts(with_baseline)] == ["PASS"]


def test_a_change_is_told_without_any_reference(project: pytest.Pytester) -> None:
    set_speed(project, THROTTLED)
    result = project.runpytest("--anubis")
    assert result.ret == 20
    found = verdicts(project)[-1]
    assert (found["outcome"], found["reference"]) == ("MARGINAL", "self")
    assert "from value 22 of 42" in found["text"]
    result.stdout.fnmatch_lines(["MARGINAL test_speed speed: became 12 % slower *"])
