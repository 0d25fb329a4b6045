from __future__ import annotations

import math
import re
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_anubis.core.baseline import Baseline, Criterion, SecondPopulation, Unjudged
from pytest_anubis.core.metric import Direction, Metric, value_text
from pytest_anubis.core.sample import SampleProblem, population_of
from pytest_anubis.core.verdict import MetricVerdict, Outcome, Reason, Reference
from pytest_anubis.validator import judge_columns, judge_populations, judge_sample
from pytest_anubis.validator.judging.verdict_table import OUTCOMES, REASONS
from pytest_anubis.validator.similarity.pooling import pooled

GOOD = [100.0, 101.0, 99.0, 100.0]


def criterion(
    learned: float | None = None, better: Direction = "higher", scope: str = "unit", **more: object
) -> Criterion:
    return Criterion(
        benchmark="b",
        metric=Metric(name="rate", unit="GB/s", better=better, action="replace it"),
        component="memory",
        centre=(99.0, 100.0, 101.0),
        learned=learned,
        nodes=312,
        units=312,
        medians=tuple(float(x) for x in range(95, 106)),
        scope=scope,  # type: ignore[arg-type]
        **more,  # type: ignore[arg-type]
    )


def baseline(*criteria: Criterion, one_machine: bool = False) -> Baseline:
    return Baseline(
        hardware_class="c",
        criteria=criteria,
        created="-",
        digest="sha256:abc",
        one_machine=one_machine,
    )


def judge(values: object, c: Criterion | None, **more: object) -> MetricVerdict:
    b = baseline(c) if c else None
    return judge_sample(values, c, b, node="n", device="d", **more)  # type: ignore[arg-type]


# The verdict table of the design: (loss, learned threshold) -> cell.
@pytest.mark.parametrize(
    ("value", "learned", "outcome", "reason"),
    [
        (99, None, Outcome.PASS, Reason.WITHIN),
        (94, None, Outcome.FAIL, Reason.BEYOND),
        (99.5, 0.99, Outcome.PASS, Reason.WITHIN),
        (98, 0.99, Outcome.MARGINAL, Reason.UNUSUAL),
        (94, 0.99, Outcome.FAIL, Reason.BEYOND),
        (93, 0.90, Outcome.PASS, Reason.UNDETECTABLE),
        (89, 0.90, Outcome.FAIL, Reason.BEYOND),
        (150, 0.99, Outcome.PASS, Reason.WITHIN),
    ],
)
def test_the_verdict_table(
    value: float, learned: float | None, outcome: Outcome, reason: Reason
) -> None:
    verdict = judge([value] * 4, criterion(learned))
    assert (verdict.outcome, verdict.reason) == (outcome, reason)
    worse = judge([100 * 100 / value] * 4, criterion(learned, better="lower"))
    assert (worse.outcome, worse.reason) == (outcome, reason)


def test_a_verdict_explains_itself() -> None:
    verdict = judge([90.0] * 4, criterion(0.97))
    assert verdict.value == 90
    assert verdict.expected == 100
    assert verdict.similarity == pytest.approx(0.9)
    assert verdict.threshold == verdict.practical == 0.95
    assert verdict.learned == 0.97
    assert verdict.limit == pytest.approx(95)
    assert verdict.percentile == 0
    assert verdict.population == "312 nodes"
    assert verdict.baseline == "sha256:abc"
    assert verdict.component == "memory"
    assert verdict.action == "replace it"
    assert verdict.reference is Reference.FLEET
    assert verdict.text.startswith("rate is 90 GB/s, expected 100 GB/s: 10 % slower")


@pytest.mark.parametrize(("better", "sign"), [("higher", 1), ("lower", -1)])
def test_the_bound_is_where_a_uniformly_worse_sample_crosses(better: Direction, sign: int) -> None:
    c = criterion(0.97, better=better)
    limit = judge([100.0] * 4, c).limit
    assert limit is not None
    inside = [x * (limit / 100 + sign * 1e-6) for x in c.centre]
    outside = [x * (limit / 100 - sign * 1e-6) for x in c.centre]
    assert judge(inside, c).outcome is Outcome.PASS
    assert judge(outside, c).outcome is Outcome.MARGINAL


@pytest.mark.parametrize(
    ("value", "higher", "lower"),
    [(80.0, 0.0, 100.0), (95.0, 100 / 11, 100.0), (100.0, 600 / 11, 600 / 11), (106.0, 100.0, 0.0)],
)
def test_the_percentile_is_the_share_of_healthy_units_that_are_no_better(
    value: float, higher: float, lower: float
) -> None:
    """Medians of the healthy units are 95, 96, ..., 105."""
    for better, expected in (("higher", higher), ("lower", lower)):
        verdict = judge([value] * 4, criterion(better=better))  # type: ignore[arg-type]
        assert verdict.percentile == pytest.approx(expected)
    assert judge([100.0] * 4, criterion(better="equal")).percentile is None


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -1.0])
def test_a_value_that_is_none_spoils_its_own_sample_only(value: float) -> None:
    samples = [GOOD, [100.0, value], GOOD]
    verdict = judge(samples[1], criterion())
    assert (verdict.outcome, verdict.reason) == (Outcome.INCONCLUSIVE, Reason.INVALID)
    assert "value 2" in verdict.text
    population = population_of(samples, metric=criterion().metric, benchmark="b")
    judged = judge_columns(population, criterion())
    assert [OUTCOMES[code] for code in judged.outcome] == ["PASS", "INCONCLUSIVE", "PASS"]
    assert REASONS[judged.reason[1]] is Reason.INVALID
    assert np.isnan(judged.similarity[1])


def test_too_few_values_are_inconclusive() -> None:
    verdict = judge([100.0], criterion(least=3))
    assert verdict.reason is Reason.TOO_FEW
    assert judge([], criterion()).reason is Reason.TOO_FEW
    assert "1 value, at least 3 needed" in verdict.text


@pytest.mark.parametrize(
    ("other", "reason", "named"),
    [
        ({"unit": "MB/s"}, Reason.WRONG_UNIT, ()),
        ({"better": "lower"}, Reason.WRONG_UNIT, ()),
        ({"version": 3}, Reason.OTHER_VERSION, ("version 3", "version 1")),
    ],
)
def test_another_unit_direction_or_version_is_never_compared(
    other: Any, reason: Reason, named: tuple[str, ...]
) -> None:
    verdict = judge(GOOD, criterion(), metric=replace(criterion().metric, **other))
    assert (verdict.outcome, verdict.reason) == (Outcome.INCONCLUSIVE, reason)
    assert verdict.similarity is None
    assert all(one in verdict.text for one in named)


def test_a_disturbed_sample_can_pass_but_never_reject() -> None:
    passed = judge(GOOD, criterion(0.99), disturbance=("steal 30 %",))
    assert passed.outcome is Outcome.PASS
    assert passed.disturbance == ("steal 30 %",)
    for bad in (98.0, 50.0):
        verdict = judge([bad] * 4, criterion(0.99), disturbance=("steal 30 %",))
        assert (verdict.outcome, verdict.reason) == (Outcome.INCONCLUSIVE, Reason.DISTURBED)
        assert "steal 30 %" in verdict.text


@pytest.mark.parametrize("disturbance", [(), ("steal 30 %",)])
def test_load_explains_slow_values_of_a_sample_that_passes(disturbance: tuple[str, ...]) -> None:
    values = [100.0] * 9 + [30.0] * 3
    coarse = replace(criterion(0.5), centre=tuple([100.0] * 12))
    verdict = judge(values, coarse, disturbance=disturbance)
    assert verdict.outcome is Outcome.PASS
    assert verdict.worth_a_look is not bool(disturbance)


def test_load_excuses_no_wrong_value_and_never_contradicts_the_threshold() -> None:
    exact = replace(
        criterion(None), metric=Metric(name="m", unit="s", better="equal"), centre=(0.0,)
    )
    wrong = judge([0.0] * 5 + [3.0], exact, disturbance=("steal 30 %",))
    assert (wrong.outcome, wrong.reason) == (Outcome.FAIL, Reason.BEYOND)
    assert "1 of 6 values differ" in wrong.text
    unusual = judge([0.97 * value for value in GOOD], criterion(0.99), disturbance=("steal 30 %",))
    assert unusual.outcome is Outcome.INCONCLUSIVE
    assert "within the practical threshold" in unusual.text
    assert "machine was disturbed" in unusual.text


def test_without_criterion_or_baseline() -> None:
    metric = Metric(name="rate", unit="GB/s", better="higher")

    def without(known: Baseline | None, group: str = "") -> MetricVerdict:
        return judge_sample(GOOD, None, known, group=group, metric=metric, benchmark="b")

    nothing, unknown = without(None), without(baseline())
    assert (nothing.outcome, nothing.reason) == (Outcome.INCONCLUSIVE, Reason.NO_BASELINE)
    assert (unknown.outcome, unknown.reason) == (Outcome.NOT_TESTED, Reason.NO_CRITERION)
    assert unknown.value == 100
    noisy = Unjudged(benchmark="b", metric="rate", reason="it is too noisy here (90 % at least)")
    said = without(replace(baseline(), unjudged=(noisy,)))
    assert said.text == "no criterion was learned, since it is too noisy here"
    other = without(baseline(replace(criterion(0.9), group="size 1")), group="size 2")
    assert other.reason is Reason.NO_CRITERION
    assert "size 1" in other.text
    assert "size 2" in other.text


@pytest.mark.parametrize("values", [[math.nan], [math.inf], [-1.0], []])
@pytest.mark.parametrize("known", [baseline(), None])
def test_what_is_no_value_is_inconclusive_without_a_criterion_too(
    values: list[float], known: Baseline | None
) -> None:
    rate = Metric(name="m", unit="GB/s", better="higher")
    assert judge_sample(values, None, known, metric=rate).outcome is Outcome.INCONCLUSIVE


def test_exact_metrics_fail_on_any_difference() -> None:
    exact = Criterion(
        benchmark="b", metric=Metric(name="errors", unit="count", better="equal"), centre=(0.0,)
    )
    assert judge([0.0] * 9, exact).outcome is Outcome.PASS
    verdict = judge([0.0] * 8 + [1.0], exact)
    assert verdict.outcome is Outcome.FAIL
    assert verdict.text == "errors must be 0, but 1 of 9 values differ"
    assert judge([3.0], exact).text == "errors is 3, must be 0"
    assert judge([0.0], exact).text == "errors is 0, as it must be"


def test_one_machine_says_so() -> None:
    c = criterion(0.9)
    one = Criterion(benchmark="b", metric=c.metric, centre=c.centre, nodes=1, units=5)
    verdict = judge_sample(GOOD, one, baseline(one, one_machine=True))
    assert verdict.population == "5 runs of one machine"


def test_the_spread_says_of_what_and_whose_it_is() -> None:
    slow = [0.9 * value for value in GOOD]
    fleet = judge_sample(slow, criterion(0.93), baseline(criterion(0.93)))
    assert (
        "practical threshold of 5.0 % and what healthy nodes differ by (up to 7.0 %)" in fleet.text
    )
    alone = replace(criterion(0.8), nodes=1, units=5)
    hidden = judge_sample(slow, alone, baseline(alone, one_machine=True)).text
    assert "within what healthy runs differ by (up to 20 %), so this metric cannot" in hidden
    promise = judge_sample(slow, criterion(0.95, alpha=0.95), baseline())
    assert "beyond the practical threshold of 5.0 % (retest" in promise.text


values = st.one_of(st.floats(50, 150), st.sampled_from([0.0, 95.0, 100.0]))
odd = st.sampled_from([math.nan, math.inf, -math.inf, -1.0])
samples_of = st.lists(
    st.one_of(
        st.lists(values, min_size=1, max_size=6),
        st.lists(st.one_of(values, odd), max_size=3),
        st.builds(lambda value, count: [value] * count, values, st.integers(1, 5)),
    ),
    min_size=1,
    max_size=8,
)
thresholds = st.one_of(st.none(), st.floats(0.5, 1.0))


@given(
    samples=samples_of,
    centre=st.one_of(st.lists(values, min_size=1, max_size=5).map(sorted), st.just([0.0])),
    better=st.sampled_from(["higher", "lower", "equal"]),
    alpha=st.floats(0.5, 0.99),
    learned=thresholds,
    unconfirmed=thresholds,
    least=st.integers(1, 3),
    medians=st.lists(values, max_size=4).map(sorted),
    looks=st.lists(st.integers(1, 20), min_size=8, max_size=8),
    disturbed=st.sets(st.integers(0, 7)),
    group=st.sampled_from(["", "stage 1"]),
    known=st.booleans(),
    against=st.sampled_from(["criterion", "criterion", "other unit", "nothing"]),
)
def test_columns_and_single_samples_get_the_same_verdict_in_every_field(
    samples: list[list[float]],
    centre: list[float],
    better: Direction,
    alpha: float,
    learned: float | None,
    unconfirmed: float | None,
    least: int,
    medians: list[float],
    looks: list[int],
    disturbed: set[int],
    group: str,
    known: bool,
    against: str,
) -> None:
    """The two ways share the table, not the way to the similarity; so all that follows is compared."""
    c = replace(
        criterion(learned, better=better, least=least, unconfirmed=unconfirmed),
        medians=tuple(medians),
        centre=tuple(centre[:1] if better == "equal" else centre),
        alpha=alpha,
        group=group,
    )
    b = baseline(c) if known else None
    metric = replace(c.metric, unit="MB/s") if against == "other unit" else c.metric
    population = replace(
        population_of(samples, metric=metric, benchmark="b", group=group, component="memory"),
        looks={row: count for row, count in enumerate(looks[: len(samples)]) if count > 1},
        problems={
            row: SampleProblem(kind="disturbed", text="steal")
            for row in disturbed
            if row < len(samples)
        },
    )
    chosen = None if against == "nothing" else c
    judged = judge_columns(population, chosen, baseline=b)
    for row, sample in enumerate(samples):
        single = judge_sample(
            sample,
            chosen,
            b,
            metric=metric,
            benchmark="b",
            component="memory",
            node=f"n{row}",
            device="node",
            group=group,
            disturbance=("steal",) if row in disturbed else (),
            looks=looks[row],
        )
        alike = single.similarity
        edges = [edge for edge in (alpha, learned, unconfirmed) if edge is not None]
        if alike is not None and any(abs(alike - edge) < 1e-9 for edge in edges):
            continue  # on the edge rounding decides
        assert_same(judged.verdict(row, b), single)
        assert OUTCOMES[judged.outcome[row]] == single.outcome
        assert REASONS[judged.reason[row]] == single.reason
        if row not in disturbed:  # whose similarity is in the verdict alone
            assert_close(judged.similarity[row], alike)
            assert_close(judged.threshold[row], single.threshold)


def test_likely_sick_unit_near_a_slower_group() -> None:
    """It lies beyond the group's own limit, so the group does not explain it."""
    second = SecondPopulation(typical=80, members=5, whole=10, threshold=0.7, alpha=0.95)
    one = criterion(0.4, alpha=0.7, look=0.65, second=second)
    columns = judge_columns(population_of([[60.0] * 4], metric=one.metric, benchmark="b"), one)
    single = judge([60.0] * 4, one)
    assert (single.outcome, single.reason) == (Outcome.MARGINAL, Reason.UNDETECTABLE)
    assert REASONS[columns.reason[0]] is single.reason
    assert columns.threshold[0] == single.threshold == 0.65


def assert_close(number: float, other: float | None) -> None:
    assert number == pytest.approx(math.nan if other is None else other, abs=1e-9, nan_ok=True)


def assert_same(one: MetricVerdict, other: MetricVerdict) -> None:
    for field in fields(MetricVerdict):
        left, right = getattr(one, field.name), getattr(other, field.name)
        if isinstance(right, float):
            assert left == pytest.approx(right, rel=1e-9, abs=1e-9), field.name
        elif field.name == "text":  # a digit may be rounded otherwise
            assert re.sub(r"\d", "#", left) == re.sub(r"\d", "#", right)
        else:
            assert left == right, field.name


def test_a_failed_or_missing_test_is_its_own_verdict_never_slow() -> None:
    c = criterion()
    population = population_of(
        [GOOD, [], [], [50.0], [50.0], GOOD, [math.nan]],
        metric=c.metric,
        benchmark="b",
        problems={
            1: SampleProblem(kind="failed", text="return code 3"),
            2: SampleProblem(kind="missing", text="no value"),
            3: SampleProblem(kind="failed", text="return code 4"),
            4: SampleProblem(kind="disturbed", text="steal"),
            5: SampleProblem(kind="disturbed", text="steal"),
        },
    )
    [judged] = judge_populations([population], baseline(c))
    verdicts = list(judged.verdicts(baseline(c)))
    assert [(v.outcome, v.reason) for v in verdicts] == [
        (Outcome.PASS, Reason.WITHIN),
        (Outcome.FAIL, Reason.TEST_FAILED),
        (Outcome.NOT_TESTED, Reason.NOT_REPORTED),
        (Outcome.FAIL, Reason.TEST_FAILED),
        (Outcome.INCONCLUSIVE, Reason.DISTURBED),
        (Outcome.PASS, Reason.WITHIN),
        (Outcome.INCONCLUSIVE, Reason.INVALID),
    ]
    assert "return code 3" in verdicts[1].text
    assert verdicts[3].similarity is None


def test_units_and_pooled_nodes_are_judged() -> None:
    b = baseline(criterion(), criterion(scope="node"))
    samples = [[100.0]] * 7 + [[80.0]]
    population = population_of(
        samples,
        metric=b.criteria[0].metric,
        benchmark="b",
        nodes=["n"] * 8,
        devices=[f"cuda:{i}" for i in range(8)],
    )
    verdicts = [v for judged in judge_populations([population], b) for v in judged.verdicts(b)]
    assert [v.outcome for v in verdicts] == [Outcome.PASS] * 7 + [Outcome.FAIL, Outcome.PASS]
    assert (verdicts[-1].device, verdicts[-1].scope, verdicts[-1].count) == ("node", "node", 8)


def test_pooled_values_were_looked_at_as_often_as_their_least_looked_at_device() -> None:
    population = replace(
        population_of(
            [[1.0]] * 5,
            metric=criterion().metric,
            benchmark="b",
            nodes=["a", "a", "b", "b", "c"],
            devices=["cuda:0", "cuda:1"] * 2 + ["cuda:0"],
        ),
        looks={0: 3, 1: 7, 2: 11, 4: 2},
    )
    whole = pooled(population)
    assert whole.nodes == ("a", "b", "c")
    assert [whole.looks.get(row) for row in range(3)] == [3, None, 2]


def test_another_hardware_class_is_no_baseline_never_close_enough() -> None:
    population = population_of(
        [GOOD], metric=criterion().metric, benchmark="b", hardware_class="other"
    )
    [columns] = judge_populations([population], baseline(criterion()))
    [verdict] = columns.verdicts()
    assert (verdict.outcome, verdict.reason) == (Outcome.INCONCLUSIVE, Reason.NO_BASELINE)
    assert np.isnan(columns.similarity).all()


@pytest.mark.parametrize("value", [123456.7, 1e6, 8602.9, 0.00012345])
def test_a_sentence_writes_a_value_as_tables_do(value: float) -> None:
    rate = Metric(name="rate", unit="op/s", better="higher")
    normal = Criterion(benchmark="b", metric=rate, component="c", centre=(2 * value,) * 9)
    result = judge_sample([value] * 9, normal).text
    seen, usual = (value_text(number, "op/s") for number in (value, 2 * value))
    assert f"rate is {seen}, expected {usual}" in result


def test_what_fails_by_its_distribution_is_not_called_no_worse() -> None:
    rate = Metric(name="rate", unit="GB/s", better="higher")
    normal = Criterion(
        benchmark="b", metric=rate, component="c", centre=(100.0,) * 9, alpha=0.999, learned=0.999
    )
    judged = judge_sample([100.0] * 8 + [97.0], normal)
    assert judged.similarity is not None
    assert 0.995 < judged.similarity < 0.999
    assert "no worse" not in judged.text
    assert "no worse" in judge_sample([100.0] * 9, normal).text
