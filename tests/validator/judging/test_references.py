from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pytest_anubis.core.baseline import Baseline, Criterion
from pytest_anubis.core.metric import Metric
from pytest_anubis.core.sample import FloatArray, Population, population_of
from pytest_anubis.core.verdict import Decision, MetricVerdict, Outcome, Reference
from pytest_anubis.validator import judge_by_history, judge_by_peers, judge_node
from pytest_anubis.validator.deciding.fleet_judging import judge_fleet

METRIC = Metric(name="rate", unit="GB/s", better="higher")


def devices(count: int, slow: dict[int, float], spread: float = 0.003) -> list[FloatArray]:
    rng = np.random.default_rng(0)
    return [
        np.asarray(100 * np.exp(rng.normal(0, spread) + rng.normal(0, spread, 10))) * slow.get(i, 1)
        for i in range(count)
    ]


def node(samples: list[FloatArray]) -> Population:
    return population_of(
        samples,
        metric=METRIC,
        benchmark="b",
        nodes=["n"] * len(samples),
        devices=[f"cuda:{i}" for i in range(len(samples))],
    )


def by_peers(population: Population) -> list[MetricVerdict]:
    (judged,) = judge_by_peers([population])
    return list(judged.verdicts())


def test_one_slow_device_is_found_among_its_peers_without_a_baseline() -> None:
    verdicts = by_peers(node(devices(8, {3: 0.85})))
    assert [v.outcome is Outcome.FAIL for v in verdicts] == [i == 3 for i in range(8)]
    assert judge_node(verdicts).decision is Decision.REJECTED


def test_peers_are_blind_to_a_uniformly_slow_node_and_never_accept() -> None:
    verdicts = by_peers(node(devices(8, dict.fromkeys(range(8), 0.5))))
    assert {v.outcome for v in verdicts} == {Outcome.PASS}
    assert judge_node(verdicts).decision is Decision.UNDECIDED


def test_noisy_devices_do_not_reject_each_other() -> None:
    verdicts = by_peers(node(devices(8, {}, spread=0.05)))
    assert Outcome.FAIL not in {v.outcome for v in verdicts}


def test_too_few_peers_say_so() -> None:
    two = by_peers(node(devices(2, {})))
    assert {v.outcome for v in two} == {Outcome.INCONCLUSIVE}
    assert "3 needed" in two[0].text


def runs(samples: list[FloatArray]) -> Population:
    return population_of(
        samples,
        metric=METRIC,
        benchmark="b",
        nodes=["n"] * len(samples),
        devices=["cpu"] * len(samples),
        runs=[f"day {number}" for number in range(len(samples))],
    )


@pytest.mark.parametrize(("factor", "outcome"), [(1.0, Outcome.PASS), (0.88, Outcome.FAIL)])
def test_the_own_history_shows_decay(factor: float, outcome: Outcome) -> None:
    *earlier, now = devices(7, {6: factor})
    today = replace(runs([now]), runs=("today",))
    (found,) = judge_by_history([today], [runs(earlier)])
    assert (found[0].outcome, found[0].reference) == (outcome, Reference.SELF)
    assert found[0].population == "6 earlier runs of this device"
    assert judge_node([found[0]]).decision is not Decision.ACCEPTED
    assert judge_by_history([today], [runs(earlier[:2])]) == [{}]


@pytest.mark.parametrize(
    ("known", "count", "reference"),
    [
        (True, 8, Reference.FLEET),
        (False, 8, Reference.PEERS),
        (False, 1, Reference.SELF),
        (False, 0, Reference.NONE),
    ],
)
def test_the_strongest_reference_decides_and_is_named(
    known: bool, count: int, reference: Reference
) -> None:
    criterion = Criterion(benchmark="b", metric=METRIC, centre=(100.0,), nodes=9)
    baseline = Baseline(hardware_class="", criteria=(criterion,), created="-")
    population = {8: node(devices(8, {})), 1: runs(devices(6, {})), 0: node(devices(1, {}))}[count]
    judged = judge_fleet([population], {"": baseline} if known else {})
    verdict = judged.columns[0].verdict(len(population) - 1)
    assert verdict.reference is reference
    wanted = Outcome.INCONCLUSIVE if reference is Reference.NONE else Outcome.PASS
    assert verdict.outcome is wanted
    accepts = judged.nodes[0].decision is Decision.ACCEPTED
    assert accepts is (reference is Reference.FLEET)
