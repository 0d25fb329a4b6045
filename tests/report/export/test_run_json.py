"""A run as JSON, and a baseline as lines."""

from __future__ import annotations

import json
import math
from dataclasses import replace

from pytest_anubis.core.baseline import Baseline, Criterion, Exclusion, Finding
from pytest_anubis.core.events import Attempted, BenchmarksChosen, BlockerFound, UnknownEvent
from pytest_anubis.core.measurement import Measurement
from pytest_anubis.core.metric import Metric
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.verdict import NOISY, MetricVerdict, Outcome, Reason, Triage
from pytest_anubis.report.export.prometheus_export import prometheus_text
from pytest_anubis.report.export.run_json import SCHEMA, run_json
from pytest_anubis.report.text.learned_text import MAX_ROWS, criteria_lines, learned_lines
from pytest_anubis.report.text.shared_lines import baseline_line

METRIC = Metric(name="rate", unit="GB/s", better="higher")
CRITERION = Criterion(
    benchmark="suites/t.py::test_rate",
    metric=METRIC,
    centre=(99.0, 100.0, 101.0),
    learned=0.97,
    repeatability=0.99,
    detectable=0.06,
    units=12,
)
BASELINE = Baseline(
    hardware_class="class",
    criteria=(CRITERION,),
    created="2026-01-02T00:00:00+00:00",
    nodes=("a", "b"),
    runs=("r1", "r2", "r3"),
    digest="sha256:0123456789ab",
)


def refuse(name: str) -> None:
    raise AssertionError(f"{name} is not JSON")


def test_a_run_is_strict_json_with_all_values() -> None:
    measured = Measurement(
        test="t",
        benchmark="b",
        component="",
        metric=METRIC,
        device="cpu",
        values=(1.0, math.nan, math.inf),
        telemetry=(("power (W)", (1.0, -math.inf)),),
    )
    choice = {"risk_before": math.nan, "chosen": ["b"]}
    events = (
        UnknownEvent(data={"event": "x", "x": [math.nan]}),
        BlockerFound(text="cuda:1 is hidden"),
        BenchmarksChosen(choice=choice),
        Attempted(measurement=measured),
    )
    record = RunRecord(run="r", node="n", measurements=(measured,), events=events)
    plain = json.loads(run_json(record), parse_constant=refuse)
    assert plain["schema"] == SCHEMA
    assert plain["measurements"][0]["values"] == [1.0, "NaN", "Infinity"]
    assert plain["measurements"][0]["telemetry"] == [["power (W)", [1.0, "-Infinity"]]]
    assert plain["events"][:3] == [
        {"event": "x", "x": ["NaN"]},
        {"event": "blocker", "text": "cuda:1 is hidden", "found_anew": False, "file": ""},
        {"event": "selection", "risk_before": "NaN", "chosen": ["b"]},
    ]
    assert plain["events"][3]["event"] == "attempt"
    assert "NaN" in str(plain["events"][3])
    assert plain["node_verdict"] is None


def test_failures_in_noise_are_unsure_in_json() -> None:
    slow = MetricVerdict(
        outcome=Outcome.FAIL, reason=Reason.BEYOND, text="slow", benchmark="b", metric="rate",
        better="higher", similarity=0.6, certainty=1.0,
    )  # fmt: skip
    record = RunRecord(run="r", node="n", verdicts=(slow,), settings={"quiet_limits": {"steal": 1}})
    (shown,) = json.loads(run_json(record))["verdicts"]
    assert (shown["triage"], shown["retest"]) == (Triage.RETEST, NOISY)
    assert 'triage="retest"' in prometheus_text(record)


def test_an_end_to_end_loss_names_what_explains_it() -> None:
    train = MetricVerdict(
        outcome=Outcome.FAIL, reason=Reason.BEYOND, text="slow", benchmark="t", metric="step",
        better="lower", similarity=0.6, component="training.step", device="cuda:1",
    )  # fmt: skip
    gemm = replace(train, benchmark="g", metric="rate", component="compute.matrix")
    infer = replace(train, benchmark="i", metric="latency", component="workload.inference")
    plain = json.loads(run_json(RunRecord(run="r", node="n", verdicts=(train, infer, gemm))))
    (loss,) = plain["end_to_end"]
    place = {"benchmark": "g", "metric": "rate", "device": "cuda:1", "component": "compute.matrix"}
    assert [one["metric"] for one in loss["wholes"]] == ["step", "latency"]
    assert loss["explained_by"] == [place]
    assert "end_to_end" not in json.loads(run_json(RunRecord(run="r", node="n", verdicts=(gemm,))))


def test_a_criterion_is_one_row() -> None:
    header, row = criteria_lines(BASELINE, whole=False)
    assert header.split()[:3] == ["benchmark", "metric", "centre"]
    assert row.split() == [
        "t.py::test_rate",
        "rate",
        "100",
        "GB/s",
        "12",
        "0.9900",
        "0.9700",
        "6.0",
        "%",
    ]


def test_group_and_pooled_criteria_differ() -> None:
    pooled = replace(CRITERION, scope="node", group="slot 1", learned=None, detectable=None)
    row = criteria_lines(replace(BASELINE, criteria=(pooled,)), whole=True)[1]
    assert "t.py::test_rate (slot 1) [node]" in row
    assert row.split()[-2:] == ["0.9500", "-"]  # without a learned threshold alpha decides


def test_a_wide_baseline_is_cut_and_says_so() -> None:
    many = tuple(replace(CRITERION, benchmark=f"t.py::test_{i}") for i in range(MAX_ROWS + 5))
    lines = criteria_lines(replace(BASELINE, criteria=many), whole=False)
    assert "... and 5 more criteria, all in the file (-v shows them)" in lines
    assert sum(line.startswith("t.py::") for line in lines) == MAX_ROWS


def test_findings_and_exclusions_name_their_place() -> None:
    lines = learned_lines(
        replace(
            BASELINE,
            exclusions=(
                Exclusion(node="n", device="d", benchmark="b", metric="m", reason="12 % worse"),
            ),
            findings=(
                Finding(kind="x", text="two firmwares", benchmark="suites/t.py::test_rate"),
                Finding(kind="y", text="few nodes"),
            ),
        ),
        verbose=True,
    )
    assert lines[-3:] == [
        "left out: n d b m: 12 % worse",
        "finding: t.py::test_rate: two firmwares",
        "finding: few nodes",
    ]


def test_a_baseline_of_one_machine_says_so() -> None:
    assert "2 nodes, 3 runs, practical thresholds only" in baseline_line(BASELINE)
    alone = replace(BASELINE, one_machine=True, error_rate=0.01)
    assert "3 runs of a, b alone (nodes: 1), error rate 0.01 a node" in baseline_line(alone)
