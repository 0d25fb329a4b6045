"""A loss that several metrics of a component share is found though none of them shows it alone."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from pytest_anubis.core.baseline import Baseline
from pytest_anubis.core.measurement import Measurement
from pytest_anubis.core.metric import Metric, whole_of
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.sample import Population, SampleProblem, population_of
from pytest_anubis.core.verdict import Decision, Outcome
from pytest_anubis.store.baselines.baseline_form import baseline_from_plain, baseline_to_plain
from pytest_anubis.store.history.contents.run_rows import exposing_benchmarks
from pytest_anubis.validator import learn_baseline
from pytest_anubis.validator.deciding.fleet_judging import JudgedFleet, judge_fleet
from pytest_anubis.validator.deciding.run_decision import decide_run

CARDS = ("cuda:0", "cuda:1")
NOISE = 0.03
METRICS = {"rate_a": "higher", "time_b": "lower", "rate_c": "higher", "rate_d": "higher"}
COMPONENT = "training.convolution"


def fleet(
    nodes: int, seed: int, slow: dict[tuple[int, str], float] | None = None
) -> list[Population]:
    """Metrics of one component with 3 % noise each, and an unrelated one; some cards lose in all of them.

    Args:
        nodes: How many.
        seed: Of the noise.
        slow: Node and card -> part of the rate that is lost.
    """
    rng = np.random.default_rng(seed)
    units = list(product(range(nodes), CARDS))
    made = []
    for name, better in {**METRICS, "copy": "higher"}.items():
        sign = -1 if better == "lower" else 1
        lost = [(slow or {}).get(unit, 0.0) if name != "copy" else 0.0 for unit in units]
        typical = np.exp(sign * (rng.normal(0, NOISE, len(units)) + np.log1p(-np.array(lost))))
        made.append(
            population_of(
                [[10 * one] for one in typical.tolist()],
                metric=Metric(name=name, unit="ms" if better == "lower" else "1/s", better=better),  # type: ignore[arg-type]
                benchmark=f"test_{name}",
                component="memory.copy" if name == "copy" else COMPONENT,
                nodes=[f"n{node}" for node, _ in units],
                devices=[card for _, card in units],
            )
        )
    return made


@pytest.fixture(scope="module")
def baseline() -> Baseline:
    return learn_baseline(fleet(150, 1), hardware_class="c", created="2026-01-01T00:00:00Z")


def judged(populations: list[Population], baseline: Baseline) -> JudgedFleet:
    return judge_fleet(populations, {"": baseline})


def test_what_no_metric_shows_alone_is_found_in_all_of_them(baseline: Baseline) -> None:
    slow = {(node, "cuda:1"): 0.085 for node in range(20)}
    populations = fleet(60, 2, slow)
    alone = judged(populations, replace(baseline, together=()))
    found = judged(populations, baseline)
    by_itself = sum(one.decision is Decision.REJECTED for one in alone.nodes)
    rejected = [one for one in found.nodes if one.decision is Decision.REJECTED]
    assert len(rejected) >= 18
    assert by_itself <= 13
    assert all(COMPONENT in one.components for one in rejected)


def test_a_benchmark_may_bear_the_name_of_its_component() -> None:
    named = [replace(one, benchmark=one.component) for one in fleet(60, 6)]
    baseline = learn_baseline(named, hardware_class="c", created="2026-01-01T00:00:00Z")
    assert {one.metric.name for one in baseline.criteria} == {*METRICS, "copy"}
    assert len(baseline.together) == 1


def test_healthy_nodes_pass(baseline: Baseline) -> None:
    found = judged(fleet(400, 3), baseline)
    assert sum(one.decision is Decision.REJECTED for one in found.nodes) <= 8


def test_a_card_without_one_of_the_metrics_has_no_mean(baseline: Baseline) -> None:
    populations = fleet(20, 4, {(5, "cuda:1"): 0.12})
    row = 5 * len(CARDS) + 1
    lost = replace(populations[0], problems={row: SampleProblem(kind="disturbed", text="load")})
    found = judged([lost, *populations[1:]], baseline)
    means = [one for one in found.columns if one.population.benchmark == whole_of(COMPONENT)]
    units = [(node, card) for one in means for node, card, _ in one.population.units()]
    assert len(units) == 2 * 20 - 1
    assert ("n5", "cuda:1") not in units


def test_a_component_that_a_metric_blames_is_blamed_once(baseline: Baseline) -> None:
    found = judged(fleet(20, 5, {(5, "cuda:1"): 0.4}), baseline)
    (detail,) = [d for v, d in zip(found.nodes, found.details, strict=True) if v.node == "n5"]
    failed = {one.benchmark for one in detail.verdicts if one.outcome is Outcome.FAIL}
    assert failed == {f"test_{name}" for name in METRICS}


def test_a_file_keeps_the_criterion(baseline: Baseline) -> None:
    assert [one.benchmark for one in baseline.together] == [whole_of(COMPONENT)]
    again = baseline_from_plain(baseline_to_plain(baseline))
    assert again.together[0].learned == pytest.approx(baseline.together[0].learned)


@pytest.mark.parametrize(("loss", "blamed"), [(0.09, [COMPONENT]), (0.0, [])])
def test_a_run_blames_the_component_at_its_end(
    baseline: Baseline, loss: float, blamed: list[str]
) -> None:
    measurements = []
    for criterion in baseline.criteria:
        if criterion.scope == "node":
            continue
        higher = criterion.metric.better == "higher"
        rate = 1 - loss if criterion.component == COMPONENT else 1.0
        value = criterion.typical * rate if higher else criterion.typical / rate
        measurements += [
            Measurement(
                test=f"{criterion.benchmark}[{card}]",
                benchmark=criterion.benchmark,
                metric=criterion.metric,
                component=criterion.component,
                device=card,
                values=(value,),
            )
            for card in CARDS
        ]
    run = RunRecord(run="r", node="n", hardware_class="", measurements=tuple(measurements))
    added = decide_run(run, baseline).added
    failed = [one for one in added if one.outcome is Outcome.FAIL and one.scope == "unit"]
    assert sorted({one.component for one in failed}) == blamed
    exposed = {f"test_{name}" for name in METRICS} if blamed else set()
    assert {*exposing_benchmarks(run, failed)} == exposed
