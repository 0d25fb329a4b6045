"""What makes a learned baseline less than it claims."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from pytest_anubis.cli.learning.doubts import doubts_of, rejected_lines
from pytest_anubis.core.gather import Gather
from pytest_anubis.core.metric import Metric
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.sample import SampleProblem
from pytest_anubis.core.verdict import Decision, NodeVerdict
from pytest_anubis.store.node_standing import keep_ended
from pytest_anubis.validator import learn_baseline


def add(gather: Gather, name: str, run: int, problem: SampleProblem | None = None) -> None:
    gather.add(
        hardware_class="c",
        benchmark="test_disk.py::test_disk",
        component="storage.disk",
        group="",
        node="n",
        device="node",
        run=f"r{run}",
        metric=Metric(name=name, unit="IOPS", better="higher"),
        values=[100.0 + (run + value) % 3 for value in range(30)],
        problem=problem,
    )


@pytest.mark.parametrize("measured", [True, False])  # else the runs were collected
def test_a_disturbed_metric_is_named_with_what_helps(measured: bool) -> None:
    gather = Gather()
    for run in range(5):
        add(gather, "reads", run)
        add(
            gather,
            "writes",
            run,
            SampleProblem(kind="disturbed", text="8 % steal") if run else None,
        )
    populations = list(gather.populations())
    baseline = learn_baseline(populations, hardware_class="c", created="2026-01-01T00:00:00Z")
    asked: list[object] = []

    def helps(metrics: object) -> str:
        asked.append(metrics)
        return "8 % steal; allow it"

    options = argparse.Namespace(accept_rate=False)
    lines, doubtful = doubts_of(baseline, populations, options, helps if measured else None)
    assert doubtful
    (line,) = [one for one in lines if "disturbances" in one]
    again = "learn again when this machine is quiet: 8 % steal; allow it"
    assert (
        line == f"1 metric lost to disturbances: writes; {again if measured else 'measure again'}"
    )
    assert asked == ([[("test_disk.py::test_disk", "writes")]] if measured else [])


@pytest.mark.parametrize("decision", [Decision.REJECTED, Decision.ACCEPTED])
def test_a_baseline_of_a_rejected_node_is_doubtful(decision: Decision, tmp_path: Path) -> None:
    verdict = NodeVerdict(node="n1", decision=decision, headline="")
    record = RunRecord(
        run="r", node="n1", started="2026-01-01T00:00:00+00:00", exit_status=1, node_verdict=verdict
    )
    assert not keep_ended(tmp_path, record, ended=1767225660.0, reason="")
    lines = rejected_lines(tmp_path, ["n1", "n2"])
    assert ["n1" in line for line in lines] == [True] * (decision is Decision.REJECTED)
