"""A sample of which a part is far off is told as that, and no other one is."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_anubis.core.baseline import Baseline, Criterion
from pytest_anubis.core.metric import Metric, differs_by_median
from pytest_anubis.core.sample import population_of
from pytest_anubis.core.verdict import Outcome, Reason
from pytest_anubis.validator import judge_columns, judge_node, judge_sample, learn_baseline
from pytest_anubis.validator.similarity.partial_loss import part_text

LATENCY = Criterion(
    benchmark="b",
    metric=Metric(name="lat", unit="us", better="lower"),
    centre=tuple(np.linspace(9.8, 10.2, 9).tolist()),
    learned=0.63,
    nodes=90,
)
OUTLYING = [10.0] * 11 + [30.0] * 2


def test_two_of_thirteen_values_are_told_and_to_be_looked_at() -> None:
    found = judge_sample(OUTLYING, LATENCY)
    assert (found.outcome, found.reason) == (Outcome.PASS, Reason.UNDETECTABLE)
    assert found.part == "2 of 13 values are 3 times as long"
    assert "its median equal: 2 of 13 values are 3 times as long, but within" in found.text
    assert found.worth_a_look
    baseline = Baseline(hardware_class="c", criteria=(LATENCY,), created="-", nodes=("x", "y"))
    headline = judge_node([found], baseline=baseline, node="n").headline
    assert f"to be looked at: b lat (in its distribution: {found.part})" in headline
    population = population_of([np.array(OUTLYING)], metric=LATENCY.metric, benchmark="b")
    columns = judge_columns(population, LATENCY)
    assert columns.verdict(0).part == found.part


@pytest.mark.parametrize(
    "values",
    [
        [13.0] * 13,  # all of them
        [12.0] * 11 + [14.0] * 2,  # all, some more than others
        [10.0] * 6 + [30.0] * 7,  # most of them
        [10.0] * 2 + [14.0] * 2,  # too few to tell a part
    ],
)
def test_of_the_whole_no_part_is_told(values: list[float]) -> None:
    assert judge_sample(values, LATENCY).part == ""


def test_what_learning_leaves_out_for_a_part_of_its_values_says_so() -> None:
    rng = np.random.default_rng(1)
    samples = [10 * np.exp(rng.normal(0, 0.003, 13)) for _ in range(20)]
    samples[4][3:5] *= 3
    population = population_of(
        samples, metric=LATENCY.metric, benchmark="b", nodes=[f"n{i}" for i in range(20)]
    )
    (left,) = learn_baseline([population], hardware_class="c", created="2026-01-01").exclusions
    part = "2 of 13 values are 3 times as long"
    assert f"worse than the centre in its distribution ({part})" in left.reason


def test_a_median_that_lost_more_than_the_distribution_is_told_beside_it() -> None:
    assert differs_by_median(0.61, 0.62)
    assert not differs_by_median(0.2, 0.04)
    assert differs_by_median(0.997, 0.999)
    assert not differs_by_median(1 / 21, 1 / 18.4)  # 21 times as long beside a median of 18 times
    assert not differs_by_median(0.76, 0.8)  # 24 % slower beside 80 of 100
    rate = Metric(name="r", unit="GB/s", better="higher")
    slow = [20.0] * 6 + [70.0] * 4
    text = judge_sample(slow, Criterion(benchmark="b", metric=rate, centre=(100.0,))).text
    said = "20 GB/s, expected 100 GB/s; its distribution is 60 % worse, its median 80 % slower"
    assert said in text


def test_a_centre_that_begins_with_nothing_overflows_nowhere() -> None:
    values = np.array([0.0, 0.0, 0.0, 0.0, 1e30])
    assert part_text(values, 0.5, values.tolist(), "higher", "GB/s") == ""


def test_a_count_where_none_is_normal_is_no_multiple_of_it() -> None:
    assert part_text(np.array([0.0] * 7 + [17.0]), 0.0, (0.0, 0.0), "lower", "count") == (
        "1 of 8 values is above zero"
    )
