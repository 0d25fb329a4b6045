from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pytest_anubis.core.baseline import Baseline, Criterion
from pytest_anubis.core.metric import Metric
from pytest_anubis.core.sample import FloatArray, Population, population_of
from pytest_anubis.core.verdict import Outcome, Reason
from pytest_anubis.validator import backtest, judge_columns, settle_shift
from tests.validator.known import known

METRIC = Metric(name="rate", unit="GB/s", better="higher")
CRITERION = Criterion(
    benchmark="b", metric=METRIC, centre=(99.0, 100.0, 101.0), learned=0.98, nodes=9
)


def nodes(factors: FloatArray) -> Population:
    rng = np.random.default_rng(0)
    values = [f * 100 * np.exp(rng.normal(0, 0.004, 4)) for f in factors]
    return population_of(values, metric=METRIC, benchmark="b")


def outcomes(factors: FloatArray) -> tuple[list[Outcome], list[str]]:
    judged = settle_shift(judge_columns(nodes(factors), CRITERION))
    return [v.outcome for v in judged.verdicts()], [judged.shift.kind] if judged.shift else []


def test_a_class_that_moved_together_is_one_finding_and_the_slow_node_stays() -> None:
    factors = np.full(20, 0.92)
    factors[4] = 0.5
    judged = settle_shift(judge_columns(nodes(factors), CRITERION))
    shift = known(judged.shift)
    assert shift.kind == "class-shift"
    assert "20 of 20 nodes moved together" in shift.text
    verdicts = list(judged.verdicts())
    assert [v.node for v in verdicts if v.outcome is Outcome.FAIL] == ["n4"]
    assert verdicts[0].outcome is Outcome.INCONCLUSIVE
    assert verdicts[0].reason is Reason.CLASS_SHIFT
    assert "most of the class" in verdicts[0].text


@pytest.mark.parametrize(
    ("factors", "failed"),
    [
        pytest.param(np.array([0.9] * 7 + [1.0] * 14), 7, id="a third is slow"),
        pytest.param(np.linspace(0.3, 0.9, 20), 20, id="slow nodes do not agree"),
        pytest.param(np.full(3, 0.9), 3, id="few nodes"),
        pytest.param(np.ones(20), 0, id="healthy nodes"),
    ],
)
def test_there_is_no_shift_if_most_nodes_did_not_move_alike(
    factors: FloatArray, failed: int
) -> None:
    verdicts, finding = outcomes(factors)
    assert verdicts.count(Outcome.FAIL) == failed
    assert finding == []


def test_an_improvement_is_reported_and_changes_no_verdict() -> None:
    verdicts, finding = outcomes(np.full(10, 1.2))
    assert set(verdicts) == {Outcome.PASS}
    assert finding == ["class-shift"]


def cards(factors: FloatArray) -> Population:
    """Shape (nodes, 8): one sample of each card."""
    rng = np.random.default_rng(1)
    nodes, count = factors.shape
    return population_of(
        [f * 100 * np.exp(rng.normal(0, 0.001, 4)) for f in factors.ravel()],
        nodes=[f"n{node}" for node in range(nodes) for _ in range(count)],
        devices=[f"cuda:{card}" for _ in range(nodes) for card in range(count)],
        metric=METRIC,
        benchmark="b",
    )


def test_a_promise_within_the_noise_makes_no_shift_of_what_noise_moves() -> None:
    factors = np.exp(np.random.default_rng(2).normal(0, 0.02, (20, 8)))
    promise = replace(CRITERION, alpha=0.98, learned=0.98)
    before = judge_columns(cards(factors), promise)
    beyond = {v.node for v in before.verdicts() if v.outcome is Outcome.FAIL}
    assert len(beyond) > 10  # most nodes have some card beyond it
    assert settle_shift(before) is before


def test_one_place_that_moved_in_all_nodes_is_a_shift() -> None:
    factors = np.ones((20, 8))
    factors[:, 3] = 0.9
    judged = settle_shift(judge_columns(cards(factors), CRITERION))
    assert judged.shift is not None
    assert {v.reason for v in judged.verdicts() if v.device == "cuda:3"} == {Reason.CLASS_SHIFT}


def test_a_backtest_names_what_would_change() -> None:
    factors = np.ones(50)
    factors[0], factors[1] = 0.5, 0.93
    old = Baseline(hardware_class="", criteria=(CRITERION,), created="-")
    loose = Criterion(benchmark="b", metric=METRIC, centre=(99.0, 100.0, 101.0), alpha=0.9, nodes=9)
    new = Baseline(hardware_class="", criteria=(loose,), created="-", error_rate=0.01, factor=9.0)
    result = backtest([nodes(factors)], old, new)
    assert (result.rejected_before, result.rejected_after) == (2, 1)
    assert result.newly_passed == ("n1",)
    assert result.newly_rejected == ()
    (change,) = result.changes
    assert (change.node, change.before, change.after) == ("n1", Outcome.FAIL, Outcome.PASS)
    assert result.per_thousand == 0
    assert result.stated == 10
    back = backtest([nodes(factors)], new, old)
    assert back.newly_rejected == ("n1",)
    assert back.per_thousand == 1000 / 49
    assert back.stated is None
    gone = backtest([nodes(factors)], old, Baseline(hardware_class="", criteria=(), created="-"))
    assert {f.after for f in gone.changes} == {Outcome.NOT_TESTED}
    # What rejects, or did, comes before many that change without doing anything.
    assert [f.before for f in gone.changes[:3]] == [Outcome.FAIL, Outcome.FAIL, Outcome.PASS]
    factors[:2], factors[40] = 1.0, 0.5
    late = backtest([nodes(factors)], Baseline(hardware_class="", criteria=(), created="-"), old)
    assert [f.node for f in late.changes[:2]] == ["n40", "n0"]
