"""A made-up node with eight cards and something of everything a report has to show."""

from __future__ import annotations

import dataclasses
import json
import random
from collections.abc import Sequence
from typing import Any

from pytest_anubis.core.baseline import Baseline
from pytest_anubis.core.events import WorkerDied
from pytest_anubis.core.measurement import Measurement, PlannedTest, TestResult
from pytest_anubis.core.metric import Direction, Metric
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.sample import Population, population_of
from pytest_anubis.core.verdict import MetricVerdict, Outcome, Reason
from pytest_anubis.validator import judge_node, judge_sample, learn_baseline
from tests.places import DATA

CLASS = "8x-made-up-h100_smoke"
EVIL = "<script>alert('\"&')</script>"

METRICS: dict[str, tuple[str, str, Direction, float, str]] = {
    "gemm_rate": (
        "compute/test_gemm.py::test_gemm[bfloat16]",
        "TFLOP/s",
        "higher",
        712.0,
        "compute",
    ),
    "triad_rate": ("memory/test_stream.py::test_triad", "GB/s", "higher", 2950.0, "memory"),
    "launch_time": ("compute/test_dispatch.py::test_dispatch", "us", "lower", 4.2, "compute"),
    "copy_rate": ("memory/test_transfer.py::test_host_to_device", "GB/s", "higher", 54.0, "pcie"),
}


def inventory() -> dict[str, Any]:
    recorded = json.loads((DATA / "recorded_8gpu.json").read_text(encoding="utf-8"))
    found: dict[str, Any] = recorded["inventory"]
    return found


def metric(name: str) -> Metric:
    _, unit, better, _, _ = METRICS[name]
    return Metric(
        name=name,
        unit=unit,
        better=better,
        question=f"Does every card reach its full {name}?",
        action="reseat the card; if that does not help, return it",
    )


def sample(name: str, seed: int, factor: float = 1.0, count: int = 40) -> tuple[float, ...]:
    rng = random.Random(f"{name} {seed}")
    centre = METRICS[name][3] * factor * rng.gauss(1, 0.004)
    return tuple(centre * rng.gauss(1, 0.006) for _ in range(count))


def populations(nodes: int = 30) -> list[Population]:
    """Nodes with eight cards each, one card of one node slow."""
    found = []
    for name, (benchmark, _, _, _, component) in METRICS.items():
        units = [(node, card) for node in range(nodes) for card in range(8)]
        found.append(
            population_of(
                [
                    sample(name, 8 * n + c, 0.8 if (n, c, name) == (3, 5, "triad_rate") else 1.0)
                    for n, c in units
                ],
                metric=metric(name),
                benchmark=benchmark,
                nodes=[f"node{n:02d}" for n, _ in units],
                devices=[f"cuda:{c}" for _, c in units],
                runs=[f"run{n:02d}" for n, _ in units],
                hardware_class=CLASS,
                component=f"accelerator.{component}",
            )
        )
    return found


def baseline(nodes: int = 30) -> Baseline:
    learned = learn_baseline(
        populations(nodes),
        hardware_class=CLASS,
        attributes={"accelerator": "made-up H100", "profile": "smoke"},
        created="2026-01-01T00:00:00+00:00",
        error_rate=None,
    )
    return dataclasses.replace(learned, digest="sha256:0123456789ab")


def measurement(
    name: str,
    card: int,
    values: Sequence[float],
    *,
    disturbance: tuple[str, ...] = (),
    telemetry: tuple[tuple[str, tuple[float, ...]], ...] = (),
) -> Measurement:
    benchmark, _, _, _, component = METRICS[name]
    test = f"suites/{benchmark}".replace("[", f"[cuda:{card}-")
    return Measurement(
        test=test if "[" in test else f"{test}[cuda:{card}]",
        benchmark=benchmark,
        component=f"accelerator.{component}",
        metric=metric(name),
        device=f"cuda:{card}",
        values=tuple(values),
        disturbance=disturbance,
        telemetry=telemetry,
        seconds=1.2,
    )


def _series(card: int) -> tuple[tuple[str, tuple[float, ...]], ...]:
    rng = random.Random(card)
    return (
        (f"GPU {card} power (W)", tuple(650 + rng.gauss(0, 15) for _ in range(30))),
        (f"GPU {card} temperature (°C)", tuple(60 + 0.5 * i for i in range(30))),
        (f"GPU {card} memory clock (MHz)", (2619.0,) * 30),
    )


def judged(found: Measurement, learned: Baseline, node: str) -> MetricVerdict:
    return judge_sample(
        found.values,
        learned.find(found.benchmark, found.metric.name),
        baseline=learned,
        node=node,
        device=found.device,
        benchmark=found.benchmark,
        metric=found.metric,
        component=found.component,
        disturbance=found.disturbance,
    )


def record(learned: Baseline | None = None, *, node: str = "rack4-node17") -> RunRecord:
    """Card 3 has slow memory, the measurement of card 6 was disturbed, one test never reported."""
    learned = learned or baseline()
    found = []
    for name in METRICS:
        for card in range(8):
            factor = 0.83 if (name, card) == ("triad_rate", 3) else 1.0
            slow = (name, card) == ("launch_time", 6)
            found.append(
                measurement(
                    name,
                    card,
                    sample(name, 1000 + card, 1.3 if slow else factor),
                    disturbance=("another process used 1.3 cores",) if slow else (),
                    telemetry=_series(card),
                )
            )
    verdicts = [judged(one, learned, node) for one in found]
    verdicts = [
        dataclasses.replace(v, evidence=("GPU 3: remapped rows +2", "GPU 3: ECC corrected +118"))
        if v.outcome is Outcome.FAIL
        else v
        for v in verdicts
    ]
    lost = "suites/network/test_collective.py::test_all_reduce"
    verdicts.append(
        MetricVerdict(
            outcome=Outcome.NOT_TESTED,
            reason=Reason.NOT_REPORTED,
            text="planned, but its worker died before it reported",
            benchmark="network/test_collective.py::test_all_reduce",
            metric="",
            component="network.nvlink",
            node=node,
            device="node",
        )
    )
    return RunRecord(
        run="20260102-030405-rack4-node17",
        node=node,
        hardware_class=CLASS,
        profile="smoke",
        started="2026-01-02T03:04:05+00:00",
        ended="2026-01-02T03:09:45+00:00",
        purpose="acceptance",
        exit_status=1,
        inventory=inventory(),
        baseline=learned.digest,
        planned=(*(PlannedTest(test=one.test) for one in found), PlannedTest(test=lost)),
        results=tuple(
            TestResult(test=one.test, benchmark=one.benchmark, outcome="passed", metrics=1)
            for one in found
        ),
        measurements=tuple(found),
        verdicts=tuple(verdicts),
        node_verdict=judge_node(verdicts, node=node, baseline=learned),
        events=(WorkerDied(worker="gw3", text="killed by signal 9"),),
    )
