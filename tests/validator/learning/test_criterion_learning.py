from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_anubis.core.baseline import DOUBTFUL, Scope
from pytest_anubis.core.metric import Direction, Metric
from pytest_anubis.core.sample import Population, SampleProblem, population_of
from pytest_anubis.core.verdict import Outcome
from pytest_anubis.validator import LearnError, judge_sample, learn_criterion, one_sided
from pytest_anubis.validator.similarity.centre import (
    AT_ONCE,
    PAIRS,
    exact_columns,
    median_centre,
    medoid_row,
    repeatability,
    total_distances,
)
from pytest_anubis.validator.similarity.distance import similarity
from pytest_anubis.validator.similarity.usable_rows import rows_of
from tests.validator.known import known

SCOPES: tuple[Scope, ...] = ("unit", "node")


def metric(better: Direction = "lower", name: str = "step") -> Metric:
    return Metric(name=name, unit="ms", better=better)


def population(
    samples: list[list[float]], better: Direction = "lower", **more: object
) -> Population:
    return population_of(samples, metric=metric(better), benchmark="b", **more)  # type: ignore[arg-type]


def naive(samples: list[list[float]], better: Direction, alpha: float) -> list[int]:
    """All pairs, as in the paper: the flags of the iterative medoid."""
    live = list(range(len(samples)))
    while True:
        totals = [sum(similarity(samples[i], samples[j]) for j in live) for i in live]
        centre = samples[live[int(np.argmax(totals))]]
        kept = [i for i in live if one_sided(samples[i], centre, better) >= alpha]
        if kept == live:
            break
        live = kept
    return [i for i, s in enumerate(samples) if one_sided(s, centre, better) < alpha]


def fleet(seed: int, n: int = 30, slow: int = 4) -> list[list[float]]:
    rng = np.random.default_rng(seed)
    samples = [list(100 * np.exp(rng.normal(0, 0.005, 6))) for _ in range(n)]
    for i in range(slow):
        samples[i] = [x * 1.2 for x in samples[i]]
    return samples


@pytest.mark.parametrize("method", ["median", "medoid"])
@pytest.mark.parametrize("seed", range(3))
def test_flags_the_same_units_as_the_naive_algorithm(method: str, seed: int) -> None:
    samples = fleet(seed)
    learned = learn_criterion(population(samples), method=method)  # type: ignore[arg-type]
    assert np.flatnonzero(learned.flagged).tolist() == naive(samples, "lower", 0.95) == [0, 1, 2, 3]
    assert {e.node for e in learned.exclusions} == {"n0", "n1", "n2", "n3"}
    assert known(learned.criterion).nodes == 26


def test_the_smallest_loss_that_is_found_is_stated_where_there_is_one() -> None:
    for better, loss in (("lower", 1 / 0.9 - 1), ("higher", 0.1), ("equal", None)):
        samples = [[100.0] * 6] * 5
        learned = learn_criterion(population(samples, better=better), alpha=0.9)  # type: ignore[arg-type]
        assert known(learned.criterion).detectable == (
            None if loss is None else pytest.approx(loss)
        )


def test_a_fleet_with_49_percent_at_half_speed_still_finds_them_all() -> None:
    samples = fleet(5, n=100, slow=0)
    for i in range(49):
        samples[i] = [2 * x for x in samples[i]]
    learned = learn_criterion(population(samples))
    assert np.flatnonzero(learned.flagged).tolist() == list(range(49))
    kinds = [finding.kind for finding in learned.findings]
    assert kinds == ["second-population", "undecided-population"]
    assert all("49 of 100 nodes" in finding.text for finding in learned.findings)


def test_of_two_groups_of_nearly_one_size_the_slower_one_is_marginal_whichever_is_larger() -> None:
    for slow in (40, 49, 60):
        samples = fleet(5, n=100, slow=0)
        for i in range(slow):
            samples[i] = [1.3 * x for x in samples[i]]
        learned = learn_criterion(population(samples))
        criterion = known(learned.criterion)
        assert criterion.second is not None
        assert (criterion.second.members, criterion.second.whole) == (slow, 100)
        assert criterion.second.alpha == 0.95
        fast, other = np.median(samples[99]), np.median(samples[0])
        assert criterion.typical == pytest.approx(fast, rel=0.02)
        assert criterion.second.typical == pytest.approx(other, rel=0.02)
        tight = replace(criterion, learned=0.97)
        for factor, outcome in ((1, Outcome.PASS), (1.3, Outcome.MARGINAL), (2, Outcome.FAIL)):
            assert judge_sample([x * factor for x in samples[99]], tight).outcome is outcome


def test_a_small_slower_group_is_a_batch_of_sick_nodes() -> None:
    samples = fleet(5, n=100, slow=0)
    for i in range(25):
        samples[i] = [1.3 * x for x in samples[i]]
    criterion = known(learn_criterion(population(samples)).criterion)
    assert criterion.second is None
    assert judge_sample(samples[0], criterion).outcome is Outcome.FAIL


def test_a_better_minority_is_not_punished_but_reported() -> None:
    samples = [[100.0, 101.0]] * 20 + [[50.0, 51.0]] * 5
    learned = learn_criterion(population(samples))
    assert not learned.flagged.any()
    assert [f.kind for f in learned.findings] == ["second-population"]
    assert "lower than the majority" in learned.findings[0].text


def test_scattered_defects_are_no_second_population() -> None:
    samples = [[100.0]] * 20 + [[120.0], [150.0], [190.0], [250.0], [400.0]]
    assert learn_criterion(population(samples)).findings == ()


@settings(max_examples=25)
@given(st.permutations(range(12)), st.sampled_from(["median", "medoid"]))
def test_the_order_of_the_input_does_not_matter(order: list[int], method: str) -> None:
    samples = [list(np.random.default_rng(i).normal(100, 3, 2 + i % 3)) for i in range(12)]
    names = [f"n{i}" for i in range(12)]
    one = learn_criterion(population(samples, nodes=names), method=method)  # type: ignore[arg-type]
    mixed = population([samples[i] for i in order], nodes=[names[i] for i in order])
    two = learn_criterion(mixed, method=method)  # type: ignore[arg-type]
    assert one.criterion == two.criterion
    assert set(one.exclusions) == set(two.exclusions)


@given(
    st.lists(st.lists(st.floats(0.1, 1e3), min_size=1, max_size=5), min_size=1, max_size=7),
)
def test_prefix_sums_give_every_total_distance(samples: list[list[float]]) -> None:
    rows = rows_of(population(samples))
    columns, weights = exact_columns(rows, rows.usable)
    totals = total_distances(columns, weights)
    for i, a in enumerate(samples):
        direct = 0.0
        for b in samples:
            size = math.lcm(len(a), len(b))
            spread = [np.repeat(np.sort(s), size // len(s)) for s in (a, b)]
            direct += float(np.abs(spread[0] - spread[1]).mean())
        assert totals[i] == pytest.approx(direct, abs=1e-6)
    alike = [sum(similarity(a, b) for b in samples) for a in samples]
    assert alike[medoid_row(rows, rows.usable)] == pytest.approx(max(alike))


@given(st.lists(st.one_of(st.just(0.0), st.floats(1e-3, 1e3)), min_size=2, max_size=9))
def test_repeatability_of_constants_is_the_mean_over_pairs(values: list[float]) -> None:
    columns = np.array([values])
    pairs = [similarity([a], [b]) for a, b in itertools.combinations(values, 2)]
    got = repeatability(columns, np.ones(len(values), dtype=np.bool_))
    assert got == pytest.approx(float(np.mean(pairs)), abs=1e-9)


@pytest.mark.parametrize("spread", [0.03, 0.1])
def test_repeatability_by_prefix_sums_is_close_to_that_over_all_pairs(spread: float) -> None:
    rng = np.random.default_rng(0)
    size, count = 300, 400
    shift = rng.normal(0, spread, (1, count))
    columns = np.sort(100 * np.exp(shift + rng.normal(0, spread, (size, count))), axis=0)
    assert columns.size * count > PAIRS
    losses = []
    for i in range(count - 1):
        apart = np.abs(columns[:, i + 1 :] - columns[:, i : i + 1]).mean(axis=0)
        means = columns[:, i + 1 :].mean(axis=0) + columns[:, i].mean()
        losses.append(apart / ((means + apart) / 2))
    every = float(np.concatenate(losses).mean())
    found = known(repeatability(columns, np.ones(count, dtype=np.bool_)))
    assert 1 - found == pytest.approx(every, rel=0.05)


@pytest.mark.parametrize("count", [30, 120])  # at once, and one unit at a time
def test_repeatability_is_the_mean_over_all_pairs(count: int) -> None:
    rng = np.random.default_rng(count)
    columns = np.sort(100 * np.exp(rng.normal(0, 0.1, (64, count))), axis=0)
    members = rng.random(count) < 0.9
    assert count < 100 or 64 * int(members.sum()) ** 2 > AT_ONCE
    chosen = columns.T[members]
    pairs = [similarity(a, b) for a, b in itertools.combinations(chosen, 2)]
    assert repeatability(columns, members) == pytest.approx(float(np.mean(pairs)), abs=1e-9)


def test_the_median_centre_has_the_least_total_distance() -> None:
    rng = np.random.default_rng(1)
    columns = np.sort(rng.uniform(1, 2, (5, 9)), axis=0)
    members = np.ones(9, dtype=np.bool_)
    centre = median_centre(columns, members)
    total = np.abs(columns - centre[:, None]).sum()
    for other in range(9):
        assert total <= np.abs(columns - columns[:, [other]]).sum() + 1e-12


@pytest.mark.parametrize(
    ("samples", "word"),
    [
        ([[1.0]] * 2, "at least 3 needed"),
        ([[100.0], [90.0], [60.0], [50.0], [300.0], [200.0]], "no majority"),
        ([], "at least 3 needed"),
    ],
)
def test_no_criterion_says_why(samples: list[list[float]], word: str) -> None:
    learned = learn_criterion(population(samples))
    assert learned.criterion is None
    assert word in learned.reason
    assert [f.kind for f in learned.findings] == ["no-criterion"]


def test_nodes_are_counted_not_values() -> None:
    samples, devices = [[100.0, 101.0]] * 16, [str(i) for i in range(16)]
    two = learn_criterion(population(samples, nodes=["a", "b"] * 8, devices=devices))
    assert "2 nodes, at least 3" in two.reason
    one = learn_criterion(population(samples, nodes=["a"] * 16, devices=devices))
    criterion = known(one.criterion)
    assert (criterion.nodes, criterion.units, criterion.weak) == (1, 16, False)


@pytest.mark.parametrize("n", [3, 4])
def test_three_or_four_units_make_a_weak_criterion(n: int) -> None:
    criterion = known(learn_criterion(population([[100.0]] * n)).criterion)
    assert criterion.weak


def test_bad_samples_are_left_out_with_their_reason() -> None:
    samples = [[100.0, 101.0]] * 6 + [[], [math.nan, 1.0], [math.inf, 1.0], [-1.0, 2.0], [5000.0]]
    problems = {10: SampleProblem(kind="failed", text="return code 3")}
    learned = learn_criterion(population(samples, problems=problems))
    reasons = {e.node: e.reason for e in learned.exclusions}
    assert "no value was recorded" in reasons["n6"]
    assert "NaN" in reasons["n7"]
    assert "infinite" in reasons["n8"]
    assert "negative" in reasons["n9"]
    assert reasons["n10"] == "failed: return code 3"
    assert known(learned.criterion).units == 6


def test_a_population_of_only_bad_samples_is_no_traceback() -> None:
    learned = learn_criterion(population([[math.nan], [], [-1.0]]))
    assert learned.criterion is None
    assert len(learned.exclusions) == 3


def test_exact_metrics_learn_the_constant_of_the_majority() -> None:
    samples = [[0.0] * 3] * 7 + [[0.0, 2.0, 0.0]]
    learned = learn_criterion(population(samples, "equal"))
    assert known(learned.criterion).centre == (0.0,)
    assert [e.node for e in learned.exclusions] == ["n7"]
    undecided = learn_criterion(population([[1.0], [2.0], [3.0], [4.0]], "equal"))
    assert "agree on one value" in undecided.reason
    assert [one.kind for one in undecided.findings] == [DOUBTFUL]  # so learning ends with 20


def test_exact_metrics_teach_under_load_which_makes_nothing_wrong() -> None:
    load = {row: SampleProblem(kind="disturbed", text="5 % steal") for row in range(5)}
    learned = learn_criterion(population([[0.0]] * 5, "equal", problems=load))
    assert learned.criterion is not None
    assert not learned.exclusions
    rates = learn_criterion(population([[7.0]] * 5, "higher", problems=load))
    assert rates.criterion is None
    assert len(rates.exclusions) == 5


def test_samples_of_many_sizes_lose_nothing_on_the_way_to_the_losses() -> None:
    rng = np.random.default_rng(3)
    samples = [list(rng.normal(100, 2, size)) for size in (3, 7, 11, 30, 31, 64, 97, 5, 8)]
    learned = learn_criterion(population(samples))
    centre = known(learned.criterion).centre
    for sample, loss in zip(samples, learned.losses, strict=True):
        assert 1 - one_sided(sample, centre, "lower") == pytest.approx(loss, abs=1e-9)


def test_node_scope_pools_devices_and_a_missing_device_is_no_pooled_sample() -> None:
    samples, nodes = [[100.0 + i] for i in range(8)], [f"n{i // 2}" for i in range(8)]
    pairs = population(samples, nodes=nodes, devices=["d0", "d1"] * 4)
    learned = learn_criterion(pairs, scope="node")
    criterion = known(learned.criterion)
    assert (criterion.scope, criterion.units) == ("node", 4)
    assert learned.population.sample(1).tolist() == [102.0, 103.0]
    holed = replace(pairs, problems={3: SampleProblem(kind="missing", text="nothing recorded")})
    assert known(learn_criterion(holed, scope="node").criterion).nodes == 3
    # What one device lacks is left out once, although its node's values lack it too.
    both = [learn_criterion(holed, scope=scope).exclusions for scope in SCOPES]
    assert [(one.node, one.device) for found in both for one in found] == [("n1", "d1")]


@pytest.mark.parametrize(("key", "value"), [("alpha", 0.0), ("alpha", 1.5), ("method", "mean")])
def test_impossible_settings_are_refused(key: str, value: object) -> None:
    with pytest.raises(LearnError, match=key):
        learn_criterion(population([[1.0]] * 3), **{key: value})  # type: ignore[arg-type]


def test_a_noisy_majority_beside_a_slow_population_is_still_a_majority() -> None:
    rng = np.random.default_rng(0)
    noise = np.abs(rng.normal(0, 0.028, 56))  # a twelfth of them beyond 5 %, without a gap
    samples = [[100 * (1 + x)] * 2 for x in noise] + [[200.0, 201.0]] * 44
    learned = learn_criterion(population(samples))
    assert learned.criterion is not None
    assert learned.flagged[56:].all()


def test_values_that_spread_so_far_that_none_is_close_to_the_middle_make_no_criterion() -> None:
    learned = learn_criterion(population([[1.0, 10.0], [5.0, 6.0]] * 3))
    assert learned.criterion is None
    assert learned.reason.startswith("no majority: 0 of 6 units agree within the limit")


@pytest.mark.parametrize("even", [False, True])
def test_some_devices_of_most_nodes_are_counted_as_devices(even: bool) -> None:
    """Two of eight devices of 36 of 60 nodes are 15 % of the devices, although 60 % of the nodes."""
    rng = np.random.default_rng(8)
    nodes = [f"n{i:02d}" for i in range(60) for _ in range(8)]
    faster = [d >= 5 if even else i < 36 and d < 2 for i in range(60) for d in range(8)]
    samples = [list((85 if fast else 100) * np.exp(rng.normal(0, 0.005, 3))) for fast in faster]
    devices = [f"d{d}" for _ in range(60) for d in range(8)]
    learned = learn_criterion(population(samples, nodes=nodes, devices=devices))
    criterion = known(learned.criterion)
    if not even:  # a few lucky devices are no reason to doubt all others
        assert criterion.second is None
        assert criterion.typical == pytest.approx(100, rel=0.02)
    else:  # three of eight: which is the larger group is luck, on whatever nodes they are
        assert criterion.second is not None
        assert criterion.typical == pytest.approx(85, rel=0.02)
