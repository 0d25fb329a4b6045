"""Two healthy machines: their values of five rounds, and what further runs say of them.

`one_machine_noisy` is a virtual machine with two cores and noisy neighbours, measured before moments were
chosen: all of its runs were rejected. `one_h200` is a virtual machine with one NVIDIA H200, measured on
2026-11-27 within ten minutes; what needs few seconds has five rounds to learn from, the rest three.
Disturbances are left out, so that every value counts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest

from pytest_anubis.core.baseline import Baseline
from pytest_anubis.core.gather import Gather
from pytest_anubis.core.metric import Metric
from pytest_anubis.core.sample import Population
from pytest_anubis.core.verdict import MetricVerdict, Outcome
from pytest_anubis.validator import judge_sample, learn_baseline
from pytest_anubis.validator.judging.sequential_test import CONFIRMING_LOOKS
from tests.places import DATA

NOISY, H200 = "one_machine_noisy", "one_h200"
RUNS = [*((NOISY, f"judge-{k}") for k in range(1, 6)), *((H200, f"judge-{k}") for k in range(1, 6))]


@cache
def rows(machine: str) -> list[dict[str, Any]]:
    text = (DATA / f"{machine}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def metric(row: dict[str, Any]) -> Metric:
    return Metric(name=row["metric"], unit=row["unit"], better=row["better"])


def populations(machine: str, wanted: Callable[[str], bool]) -> tuple[Population, ...]:
    gather = Gather()
    for row in rows(machine):
        if wanted(row["run"]):
            gather.add(
                hardware_class="here",
                benchmark=row["benchmark"],
                metric=metric(row),
                component="host",
                group="",
                node="n",
                device=row["device"],
                run=row["run"],
                values=row["values"],
            )
    return gather.populations()


@cache
def learned(machine: str) -> Baseline:
    return learn_baseline(
        populations(machine, lambda run: run.startswith("learn-")),
        hardware_class="here",
        created="2026-01-01T00:00:00Z",
        one_machine=True,
    )


def verdicts(machine: str, run: str, looks: int, slower: float = 1.0) -> Iterator[MetricVerdict]:
    baseline = learned(machine)
    for row in rows(machine):
        if row["run"] == run:
            criterion = baseline.find(row["benchmark"], row["metric"])
            worse = {"higher": 1 / slower, "lower": slower, "equal": 1.0}[row["better"]]
            yield judge_sample(
                [worse * value for value in row["values"]],
                criterion,
                baseline,
                metric=metric(row),
                benchmark=row["benchmark"],
                device=row["device"],
                looks=looks,
            )


@pytest.mark.parametrize("looks", [1, CONFIRMING_LOOKS])
@pytest.mark.parametrize(("machine", "run"), RUNS)
def test_healthy_machine_is_rejected_for_nothing(machine: str, run: str, looks: int) -> None:
    result = list(verdicts(machine, run, looks))
    failed = [
        f"{one.benchmark} {one.metric}: {one.text}" for one in result if one.outcome is Outcome.FAIL
    ]
    assert result
    assert not failed, "\n".join(failed)


@pytest.mark.parametrize("run", [run for machine, run in RUNS if machine == NOISY])
def test_noisy_machine_that_is_ten_times_as_slow_is_rejected_for_all(run: str) -> None:
    result = [one for one in verdicts(NOISY, run, CONFIRMING_LOOKS, 10.0) if one.better != "equal"]
    passed = [f"{one.benchmark} {one.metric}" for one in result if one.outcome is not Outcome.FAIL]
    assert len(result) > 15
    assert not passed, "\n".join(passed)


@pytest.mark.parametrize("run", [run for machine, run in RUNS if machine == H200])
def test_card_that_is_an_eighth_slower_is_rejected_for_all_that_its_host_does_not_time(
    run: str,
) -> None:
    timed_by_the_host = {"dispatch_time", "round_trip", "both_ways_rate"}
    result = [
        one
        for one in verdicts(H200, run, CONFIRMING_LOOKS, 1.125)
        if one.better != "equal" and one.metric not in timed_by_the_host
    ]
    passed = [f"{one.benchmark} {one.metric}" for one in result if one.outcome is not Outcome.FAIL]
    assert len(result) > 5
    assert not passed, "\n".join(passed)
