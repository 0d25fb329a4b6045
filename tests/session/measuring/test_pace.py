"""The pace of the host is read beside what is to be learned from, and later where that has helped."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from pytest_anubis.core.baseline import HOST_PACE, Criterion, PacedForm, PaceSlope
from pytest_anubis.core.verdict import Outcome
from pytest_anubis.hardware.host_pace import WAITING
from pytest_anubis.store.baselines.baseline_files import load_baseline, save_baseline
from pytest_anubis.store.journal.journal_reading import read_journal
from pytest_anubis.validator.similarity.pacing import pace_metric
from tests.session.conftest import Learn

SUITE = """
import pytest

@pytest.mark.anubis(component="cpu.compute", scope="device")
def test_speed(anubis_metric, anubis_device):
    anubis_metric.measure("speed", lambda: sum(range(999)), unit="us", better="lower", rounds=5, calls=9)
    anubis_metric.collect("flow", lambda: [100.0, 100.0], unit="GFLOP/s", better="higher", rounds=4)
    anubis_metric.collect("wrong", lambda: 0.0, unit="1", better="equal", rounds=2)
    anubis_metric.record("given", [1.0, 2.0], unit="1", better="higher")
"""


def paces(pytester: pytest.Pytester, *options: str) -> dict[str, dict[str, int]]:
    """Run the suite; return metric -> kind -> how many numbers stand beside its values."""
    result = pytester.runpytest("--anubis", "--anubis-run-id=r", *options)
    assert result.ret in (0, 20)
    lines = (pytester.path / ".anubis/runs/r/journal.jsonl").read_text().splitlines()
    found: dict[str, dict[str, int]] = {}
    for event in map(json.loads, lines):
        if event["event"] == "measurement":
            beside: Any = event.get("pace", [])
            assert all(len(each) == len(event["values"]) for _, each in beside)
            found[event["metric"]["name"]] = {kind: len(each) for kind, each in beside}
    return found


def test_a_run_to_learn_from_reads_it_beside_everything_that_is_timed_here(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile(test_suite=SUITE)
    found = paces(pytester, "--anubis-mode=measure")
    assert {"compute", "memory"} <= found["speed"].keys()
    assert set(found["speed"].values()) == {5}
    assert found["flow"].keys() == found["speed"].keys()
    assert (found["wrong"], found["given"]) == ({}, {})


def test_a_later_run_reads_only_what_its_baseline_has_a_form_for(
    pytester: pytest.Pytester, learn: Learn
) -> None:
    pytester.makepyfile(test_suite=SUITE)
    learned = learn({"flow": ("GFLOP/s", "higher")})
    assert paces(pytester) == {"speed": {}, "flow": {}, "wrong": {}, "given": {}}
    slope = PaceSlope(kind=WAITING, reference=1.0, slope=1e-9, least=1e-9, most=1e9)
    (criterion,) = learned.criteria
    form = PacedForm(slopes=(slope,), gain=0.5, centre=criterion.centre)
    pace = Criterion(
        benchmark=HOST_PACE,
        metric=pace_metric(WAITING),
        component="host.cpu",
        centre=(1.0,),
        learned=0.02,  # this host may be as busy as it likes
        nodes=1,
    )
    (path,) = (pytester.path / "baselines").iterdir()
    with_form = replace(load_baseline(path), criteria=(replace(criterion, paced=form), pace))
    save_baseline(with_form, path.parent)
    pytester.path.joinpath(".anubis").rename(pytester.path / "before")
    found = paces(pytester)
    assert (found["speed"], found["wrong"]) == ({}, {})
    assert set(found["flow"]) == {WAITING}
    record = read_journal(pytester.path / ".anubis/runs/r")
    said = {v.metric: v for v in record.verdicts}
    assert said["flow"].text.endswith("at the host's reference pace, measured 100 GFLOP/s")
    of_pace = said["waiting_pace"]
    assert (of_pace.component, of_pace.outcome) == ("host.cpu", Outcome.PASS)
    assert record.node_verdict is not None
    assert record.node_verdict.decision.value == "ACCEPTED"
