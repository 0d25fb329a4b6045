"""A recorded job from its file to the verdict: learned, accepted, and rejected with the slow kind named."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_anubis.benchmarking.replay import replayed_step
from pytest_anubis.benchmarking.replay.operation_calls import OperationCall
from pytest_anubis.benchmarking.verification import flip_bit
from pytest_anubis.cli.shared.collected_judging import judge_collected
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.sample import population_of
from pytest_anubis.core.verdict import Decision, Outcome
from pytest_anubis.session.collecting import trace_files
from pytest_anubis.store.baselines.baseline_files import load_baseline, save_baseline
from pytest_anubis.store.collected_runs import read_runs
from pytest_anubis.traces.operation_kinds import Kind
from tests.run_journals import journal_of, record_of
from tests.session.conftest import baseline_of
from tests.traces.made_traces import recorded_step

Run = Callable[..., RunRecord]


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the trace on a clock of its own: an operation takes a millisecond, one of the slow kind longer."""
    (pytester.path / "job.trace.json").write_text(recorded_step(), encoding="utf-8")
    now, chance, slow, ruined = [0.0], random.Random(1), [Kind.COLLECTIVE], [0]
    clock = SimpleNamespace(perf_counter=lambda: now[0])
    monkeypatch.setattr(replayed_step, "time", clock)
    monkeypatch.setattr(trace_files, "time", clock)
    own = OperationCall.run

    def timed(call: OperationCall, tensors: Any) -> Any:
        factor = 1.5 if call.kind is slow[0] else 1.0
        now[0] += 1e-3 * factor * chance.gauss(1, 0.02)
        result = own(call, tensors)
        backward = call.operation.name == "aten::threshold_backward"
        if ruined[0] and backward and result.device.type == "cpu":  # sizes are checked on no device
            flip_bit(result)
            ruined[0] -= 1
        return result

    monkeypatch.setattr(OperationCall, "run", timed)

    def do(*options: str, kind: Kind = Kind.COLLECTIVE, wrong: int = 0) -> RunRecord:
        slow[0], ruined[0] = kind, wrong
        pytester.runpytest("--anubis", *options)
        record = record_of(pytester)
        journal_of(pytester).parent.rename(
            pytester.path / f"kept-{len(list(pytester.path.iterdir()))}"
        )
        return record

    return do


def test_a_recorded_job_from_its_file_to_the_verdict(
    run: Run, pytester: pytest.Pytester, hardware_class: tuple[str, Mapping[str, str]]
) -> None:
    key, attributes = hardware_class
    healthy = run("--anubis-mode=measure")
    chance = random.Random(2)
    populations = [
        population_of(
            [
                [value if one.metric.better == "equal" else value * share for value in one.values]
                for share in (chance.gauss(1, 0.01) for _ in range(12))
            ],
            metric=one.metric,
            benchmark=one.benchmark,
            devices=["cpu"] * 12,
            group=one.group,
            hardware_class=key,
            component=one.component,
        )
        for one in healthy.measurements
    ]
    baseline = baseline_of(populations, key, attributes)
    saved = load_baseline(save_baseline(baseline, pytester.path / "baselines"))

    accepted = run()
    assert accepted.node_verdict is not None
    assert accepted.node_verdict.decision is Decision.ACCEPTED

    rejected = run(kind=Kind.POINTWISE)
    rejected_run = max(pytester.path.glob("kept-*"), key=lambda one: one.stat().st_ctime)
    assert rejected.node_verdict is not None
    assert rejected.node_verdict.decision is Decision.REJECTED
    failed = {one.metric: one for one in rejected.verdicts if one.outcome is Outcome.FAIL}
    assert "time_pointwise" in failed
    shares = failed["step_time"].shares
    assert shares is not None
    assert [one.metric for one in shares.named] == ["time_pointwise"]

    # A bit flipped in every step's results is not what was learned; in one step, it is not the other's.
    always = run(wrong=1_000_000)
    failed = {one.metric: one for one in always.verdicts if one.outcome is Outcome.FAIL}
    assert set(failed) == {"step_bits"}
    once = run(wrong=3)  # two in the rehearsal, one in the step whose bits are kept
    assert once.node_verdict is not None
    assert once.node_verdict.decision is Decision.REJECTED

    # A run that only measured, and is judged later, says the same.
    judged = judge_collected(read_runs([rejected_run]), {key: saved})
    (again,) = (one for one in judged.details[0].verdicts if one.metric == "step_time")
    assert again.shares == shares
