"""A healthy machine beside noisy neighbours: its values of five runs, and what five more runs say of it.

The data are of a virtual machine with two cores and nothing wrong with it, measured before moments were
chosen: all of its runs were rejected. Disturbances are left out, so that every value counts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from pytest_anubis.core.baseline import Baseline
from pytest_anubis.core.gather import Gather
from pytest_anubis.core.metric import Metric
from pytest_anubis.core.sample import Population
from pytest_anubis.core.verdict import MetricVerdict, Outcome
from pytest_anubis.validator import judge_sample, learn_baseline
from pytest_anubis.validator.judging.sequential_test import CONFIRMING_LOOKS
from tests.places import DATA

ROWS = [
    json.loads(line)
    for line in (DATA / "one_machine_noisy.jsonl").read_text(encoding="utf-8").splitlines()
]


def metric(row: dict[str, str]) -> Metric:
    return Metric(name=row["metric"], unit=row["unit"], better=row["better"])  # type: ignore[arg-type]


def populations(wanted: Callable[[str], bool]) -> tuple[Population, ...]:
    gather = Gather()
    for row in ROWS:
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


@pytest.fixture(scope="module")
def baseline() -> Baseline:
    return learn_baseline(
        populations(lambda run: run.startswith("learn-")),
        hardware_class="here",
        created="2026-01-01T00:00:00Z",
        one_machine=True,
    )


def verdicts(
    baseline: Baseline, run: str, looks: int, slower: float = 1.0
) -> Iterator[MetricVerdict]:
    for row in ROWS:
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
@pytest.mark.parametrize("run", [f"judge-{number}" for number in range(1, 6)])
def test_healthy_machine_is_rejected_for_nothing(baseline: Baseline, run: str, looks: int) -> None:
    told = list(verdicts(baseline, run, looks))
    failed = [
        f"{one.benchmark} {one.metric}: {one.text}" for one in told if one.outcome is Outcome.FAIL
    ]
    assert not failed, "\n".join(failed)


@pytest.mark.parametrize("run", [f"judge-{number}" for number in range(1, 6)])
def test_machine_that_is_ten_times_as_slow_is_rejected_for_all(
    baseline: Baseline, run: str
) -> None:
    told = [one for one in verdicts(baseline, run, CONFIRMING_LOOKS, 10.0) if one.better != "equal"]
    passed = [f"{one.benchmark} {one.metric}" for one in told if one.outcome is not Outcome.FAIL]
    assert len(told) > 15
    assert not passed, "\n".join(passed)
