from __future__ import annotations

import numpy as np
import pytest

from pytest_anubis.core.baseline import Baseline, Criterion
from pytest_anubis.core.metric import Metric
from pytest_anubis.core.sample import FloatArray, Population, Problem, population_of
from pytest_anubis.core.verdict import Decision, Outcome, Reason, Reference
from pytest_anubis.validator import judge_node, judge_peers, judge_self, strongest

METRIC = Metric(name="rate", unit="GB/s", better="higher")


def devices(count: int, slow: dict[int, float], spread: float = 0.003) -> list[FloatArray]:
    rng = np.random.default_rng(0)
    return [
        np.asarray(100 * np.exp(rng.normal(0, spread) + rng.normal(0, spread, 10))) * slow.get(i, 1)
        for i in range(count)
    ]


def node(samples: list[FloatArray], problems: dict[int, Problem] | None = None) -> Population:
    return population_of(
        samples,
        metric=METRIC,
        benchmark="b",
        nodes=["n"] * len(samples),
        devices=[f"cuda:{i}" for i in range(len(samples))],
        problems=problems,
    )


def test_one_slow_device_is_found_among_its_peers_without_a_baseline() -> None:
    verdicts = judge_peers(node(devices(8, {3: 0.85})))
    assert [v.outcome for v in verdicts].count(Outcome.FAIL) == 1
    assert verdicts[3].outcome is Outcome.FAIL
    assert all(v.reference is Reference.PEERS for v in verdicts)
    assert verdicts[3].population == "7 other devices of this node"
    assert judge_node(verdicts).decision is Decision.REJECTED


def test_peers_are_blind_to_a_uniformly_slow_node_and_never_accept() -> None:
    verdicts = judge_peers(node(devices(8, dict.fromkeys(range(8), 0.5))))
    assert {v.outcome for v in verdicts} == {Outcome.PASS}
    assert judge_node(verdicts).decision is Decision.UNDECIDED


def test_noisy_devices_do_not_reject_each_other() -> None:
    verdicts = judge_peers(node(devices(8, {}, spread=0.05)))
    assert Outcome.FAIL not in {v.outcome for v in verdicts}


def test_too_few_peers_say_so_and_failures_stay_failures() -> None:
    two = judge_peers(node(devices(2, {})))
    assert {v.outcome for v in two} == {Outcome.INCONCLUSIVE}
    assert "3 needed" in two[0].text
    broken = judge_peers(node(devices(8, {}), {1: Problem(kind="failed", text="code 3")}))
    assert (broken[1].outcome, broken[1].reason) == (Outcome.FAIL, Reason.TEST_FAILED)
    assert broken[0].population == "6 other devices of this node"


def test_the_own_history_shows_decay() -> None:
    history = devices(6, {})
    good = judge_self(devices(7, {})[6], history, metric=METRIC, benchmark="b")
    assert (good.outcome, good.reference) == (Outcome.PASS, Reference.SELF)
    decayed = judge_self(history[0] * 0.88, history, metric=METRIC, benchmark="b")
    assert decayed.outcome is Outcome.FAIL
    assert "6 earlier runs" in decayed.population
    young = judge_self(history[0], history[:2], metric=METRIC, benchmark="b")
    assert young.outcome is Outcome.INCONCLUSIVE


@pytest.mark.parametrize(
    ("has", "reference"),
    [
        ("fleet peers history", Reference.FLEET),
        ("peers history", Reference.PEERS),
        ("history", Reference.SELF),
        ("", Reference.NONE),
    ],
)
def test_the_strongest_reference_decides_and_is_named(has: str, reference: Reference) -> None:
    criterion = Criterion(benchmark="b", metric=METRIC, centre=(100.0,), nodes=9)
    baseline = Baseline(hardware_class="c", criteria=(criterion,), created="-")
    verdict = strongest(
        [99.0, 100.0],
        metric=METRIC,
        benchmark="b",
        criterion=criterion if "fleet" in has else None,
        baseline=baseline if "fleet" in has else None,
        peers=devices(7, {}) if "peers" in has else (),
        history=devices(5, {}) if "history" in has else (),
    )
    assert verdict.reference is reference
    assert verdict.outcome is (Outcome.PASS if has else Outcome.INCONCLUSIVE)
