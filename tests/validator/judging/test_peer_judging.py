"""Devices beside the other devices of their node, or their own past: what is named, and what is spared."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_anubis.core.baseline import Baseline, Criterion
from pytest_anubis.core.metric import Direction, Metric
from pytest_anubis.core.sample import FloatArray, Population, SampleProblem, population_of
from pytest_anubis.core.verdict import Decision, Outcome, Reason, Reference
from pytest_anubis.validator import judge_by_history, judge_by_peers, judge_node
from pytest_anubis.validator.deciding.fleet_judging import judge_fleet

Samples = list[FloatArray]


def nodes(
    samples: Samples,
    devices: int = 8,
    *,
    name: str = "rate",
    better: Direction = "higher",
    problems: dict[int, SampleProblem] | None = None,
    run: str = "now",
) -> Population:
    return population_of(
        samples,
        metric=Metric(name=name, unit="GB/s", better=better),
        benchmark="b",
        nodes=[f"n{i // devices:03d}" for i in range(len(samples))],
        devices=[f"cuda:{i % devices}" for i in range(len(samples))],
        runs=[run] * len(samples),
        problems=problems,
    )


def noise(seed: int, count: int, spread: float = 0.004, size: int = 12) -> Samples:
    rng = np.random.default_rng(seed)
    shift = rng.normal(0, spread, (count, 1))
    return list(100 * np.exp(shift + rng.normal(0, spread, (count, size))))


def failed(population: Population) -> list[str]:
    (judged,) = judge_by_peers([population])
    return [v.device for v in judged.verdicts() if v.outcome is Outcome.FAIL]


@pytest.mark.parametrize("better", ["higher", "lower"])
def test_two_slow_devices_do_not_hide_each_other(better: Direction) -> None:
    samples = noise(0, 8)
    factor = 0.85 if better == "higher" else 1 / 0.85
    for device in (2, 6):
        samples[device] = samples[device] * factor
    assert failed(nodes(samples, better=better)) == ["cuda:2", "cuda:6"]


def test_a_better_device_is_not_punished() -> None:
    samples = noise(0, 8)
    samples[1] = samples[1] * 1.3
    assert failed(nodes(samples)) == []


def test_many_metrics_of_healthy_nodes_neither_reject_nor_warn() -> None:
    count = 40
    populations = [
        nodes(noise(seed, 8 * count, spread), name=f"m{seed}")
        for seed, spread in enumerate(np.geomspace(0.001, 0.03, 30))
    ]
    judged = judge_by_peers(populations)
    bad = {
        node
        for one in judged
        for node, code in zip(one.population.nodes, one.outcome.tolist(), strict=True)
        if code != 0
    }
    assert len(bad) <= 2  # 1 % of 40 nodes, of 240 comparisons each


def test_every_verdict_names_the_peers_and_the_table_agrees_with_the_columns() -> None:
    samples = noise(1, 16)
    samples[11] = samples[11] * 0.8
    (judged,) = judge_by_peers([nodes(samples)])
    for row, verdict in enumerate(judged.verdicts()):
        assert verdict.reference is Reference.PEERS
        assert verdict.population == "7 other devices of this node"
        assert verdict.outcome is (Outcome.FAIL if row == 11 else Outcome.PASS)
        assert verdict.similarity == pytest.approx(judged.similarity[row])
    assert "by 7 other devices of this node" in judged.verdict(11).text
    assert judge_node([judged.verdict(11)]).decision is Decision.REJECTED


def test_peers_are_blind_to_a_uniformly_slow_node_and_never_accept() -> None:
    (judged,) = judge_by_peers([nodes([0.5 * one for one in noise(0, 8)])])
    verdicts = list(judged.verdicts())
    assert {v.outcome for v in verdicts} == {Outcome.PASS}
    assert judge_node(verdicts).decision is Decision.UNDECIDED


def test_too_few_peers_say_so_and_noisy_ones_do_not_reject_each_other() -> None:
    (judged,) = judge_by_peers([nodes(noise(0, 2), 2)])
    assert {v.outcome for v in judged.verdicts()} == {Outcome.INCONCLUSIVE}
    assert "3 needed" in judged.verdict(0).text
    assert failed(nodes(noise(0, 8, 0.05))) == []


def test_a_disturbed_device_is_no_peer_and_cannot_reject() -> None:
    samples = noise(2, 8)
    samples[3] = samples[3] * 0.7
    problems = {3: SampleProblem(kind="disturbed", text="steal")}
    (judged,) = judge_by_peers([nodes(samples, problems=problems)])
    verdicts = list(judged.verdicts())
    assert (verdicts[3].outcome, verdicts[3].reason) == (Outcome.INCONCLUSIVE, Reason.DISTURBED)
    assert verdicts[0].population == "6 other devices of this node"
    assert {v.outcome for v in verdicts[:3]} == {Outcome.PASS}


@pytest.mark.parametrize(
    ("kind", "outcome", "reason"),
    [
        ("failed", Outcome.FAIL, Reason.TEST_FAILED),
        ("missing", Outcome.NOT_TESTED, Reason.NOT_REPORTED),
        ("waived", Outcome.NOT_TESTED, Reason.WAIVED),
        ("unit", Outcome.INCONCLUSIVE, Reason.WRONG_UNIT),
        ("version", Outcome.INCONCLUSIVE, Reason.OTHER_VERSION),
        ("invalid", Outcome.INCONCLUSIVE, Reason.INVALID),
    ],
)
def test_a_problem_means_beside_peers_what_it_means_against_a_fleet(
    kind: str, outcome: Outcome, reason: Reason
) -> None:
    problems = {3: SampleProblem(kind=kind, text="told")}
    (judged,) = judge_by_peers([nodes(noise(2, 8), problems=problems)])
    verdict = judged.verdict(3)
    assert (verdict.outcome, verdict.reason) == (outcome, reason)
    assert "told" in verdict.text
    assert judged.verdict(0).population == "6 other devices of this node"


def test_exact_results_are_compared_with_what_most_devices_say() -> None:
    samples = [np.zeros(3) for _ in range(8)]
    samples[5] = np.array([0.0, 2.0, 0.0])
    assert failed(nodes(samples, better="equal")) == ["cuda:5"]
    apart = [np.full(3, float(i)) for i in range(8)]
    (judged,) = judge_by_peers([nodes(apart, better="equal")])
    verdict = judged.verdict(0)
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "do not agree" in verdict.text


@given(st.integers(0, 50), st.permutations(range(8)))
def test_the_order_of_the_devices_does_not_matter(seed: int, order: list[int]) -> None:
    samples = noise(seed, 8, 0.02, size=5)
    (first,) = judge_by_peers([nodes(samples)])
    (second,) = judge_by_peers([nodes([samples[i] for i in order])])
    np.testing.assert_allclose(first.similarity[list(order)], second.similarity, atol=1e-12)
    np.testing.assert_allclose(first.learned[list(order)], second.learned, atol=1e-9)


def test_samples_of_different_lengths_are_compared() -> None:
    rng = np.random.default_rng(3)
    samples = [np.asarray(100 * np.exp(rng.normal(0, 0.003, size))) for size in (4, 6, 8, 12, 8, 6)]
    samples[1] = samples[1] * 0.85
    assert failed(nodes(samples, 6)) == ["cuda:1"]


def history(samples: Samples, problems: dict[int, SampleProblem] | None = None) -> Population:
    return population_of(
        samples,
        metric=Metric(name="rate", unit="GB/s", better="higher"),
        benchmark="b",
        nodes=["n000"] * len(samples),
        devices=["cuda:0"] * len(samples),
        runs=[f"r{i}" for i in range(len(samples))],
        problems=problems,
    )


@pytest.mark.parametrize(("factor", "outcome"), [(1.0, Outcome.PASS), (0.88, Outcome.FAIL)])
def test_each_device_is_held_against_its_own_past(factor: float, outcome: Outcome) -> None:
    now = nodes([factor * noise(7, 1)[0], noise(8, 1)[0]], 2)
    (found,) = judge_by_history([now], [history(noise(9, 6))])
    assert set(found) == {0}  # cuda:1 has no past
    assert (found[0].outcome, found[0].reference) == (outcome, Reference.SELF)
    assert found[0].population == "6 earlier runs of this device"
    assert judge_node([found[0]]).decision is not Decision.ACCEPTED


@pytest.mark.parametrize("virtual", [False, True])
@pytest.mark.parametrize("device", ["node", "cuda:0"])
def test_the_past_of_a_virtual_machine_allows_for_other_guests(device: str, virtual: bool) -> None:
    def disk(values: Samples) -> Population:
        found = replace(history(values), devices=(device,) * len(values))
        return replace(found, component="storage.disk")

    shared = virtual and device == "node"
    for factor, fails in ((0.7, not shared), (0.5, True)):
        now = replace(disk([factor * noise(7, 1)[0]]), runs=("now",))
        (found,) = judge_by_history([now], [disk(noise(9, 6))], virtual=virtual)
        assert (found[0].outcome is Outcome.FAIL) is fails


def test_a_short_or_unusable_past_is_none() -> None:
    now = nodes(noise(7, 1), 1)
    assert judge_by_history([now], [history(noise(9, 2))]) == [{}]
    kinds = enumerate(("disturbed", "failed"))
    problems = {row: SampleProblem(kind=kind, text="x") for row, kind in kinds}
    assert judge_by_history([now], [history(noise(9, 4), problems)]) == [{}]


def test_healthy_runs_of_many_metrics_are_not_rejected_by_the_past() -> None:
    rejected = 0
    for seed in range(20):
        now = nodes(noise(1000 + 40 * seed, 1, 0.01), 1)
        (found,) = judge_by_history([now], [history(noise(5000 + seed, 6, 0.01))])
        rejected += found[0].outcome is Outcome.FAIL
    assert rejected <= 1


@pytest.mark.parametrize(
    ("known", "population", "reference"),
    [
        (True, nodes(noise(0, 8)), Reference.FLEET),
        (False, nodes(noise(0, 8)), Reference.PEERS),
        (False, history(noise(0, 6)), Reference.SELF),
        (False, nodes(noise(0, 1), 1), Reference.NONE),
    ],
)
def test_the_strongest_reference_decides_and_is_named(
    known: bool, population: Population, reference: Reference
) -> None:
    criterion = Criterion(benchmark="b", metric=population.metric, centre=(100.0,), nodes=9)
    baseline = Baseline(hardware_class="", criteria=(criterion,), created="-")
    judged = judge_fleet([population], {"": baseline} if known else {})
    verdict = judged.columns[0].verdict(len(population) - 1)
    assert verdict.reference is reference
    unknown = reference is Reference.NONE
    assert verdict.outcome is (Outcome.INCONCLUSIVE if unknown else Outcome.PASS)
    assert (judged.nodes[0].decision is Decision.ACCEPTED) is (reference is Reference.FLEET)


def test_ways_to_other_nodes_have_no_peers() -> None:
    samples = noise(1, 8)
    samples[3] = samples[3] * 0.5
    ways = replace(nodes(samples), devices=tuple(f"n0 -> n{i + 1}" for i in range(8)))
    assert failed(ways) == []
