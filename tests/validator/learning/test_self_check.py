from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest

from pytest_anubis.core.baseline import Baseline, Criterion, SelfCheck
from pytest_anubis.core.metric import Metric
from pytest_anubis.core.sample import FloatArray, Population, SampleProblem, population_of
from pytest_anubis.core.verdict import Outcome
from pytest_anubis.report.text.shared_lines import baseline_line
from pytest_anubis.validator import judge_columns, judge_sample, learn_baseline
from pytest_anubis.validator.deciding.fleet_judging import judge_fleet
from pytest_anubis.validator.judging.verdict_table import FAIL, MARGINAL
from pytest_anubis.validator.learning.self_check import MIN_NODES, joint_movement
from pytest_anubis.validator.limits.promises import apply_decision
from tests.validator.known import known


def metric(name: str, values: FloatArray) -> Population:
    """Values of shape (nodes, devices, count), rates."""
    nodes, devices, _ = values.shape
    return population_of(
        [values[i, d] for i in range(nodes) for d in range(devices)],
        metric=Metric(name=name, unit="GB/s", better="higher"),
        benchmark="b",
        component=f"part.{name}",
        nodes=[f"n{i:03d}" for i in range(nodes) for _ in range(devices)],
        devices=[f"d{d}" for _ in range(nodes) for d in range(devices)],
    )


def rates(seed: int, nodes: int, spread: float = 0.01, devices: int = 4) -> FloatArray:
    rng = np.random.default_rng(seed)
    shift = rng.normal(0, spread, (nodes, devices, 1))
    return np.asarray(100 * np.exp(shift + rng.normal(0, 0.002, (nodes, devices, 5))))


def learn(*populations: Population, **more: object) -> Baseline:
    return learn_baseline(populations, hardware_class="c", created="2026-01-01", **more)  # type: ignore[arg-type]


def table(values: Iterable[FloatArray]) -> list[Population]:
    return [metric(f"m{m}", one) for m, one in enumerate(values)]


def find(baseline: Baseline, name: str) -> Criterion:
    return known(baseline.find("b", name))


def checked(baseline: Baseline) -> SelfCheck:
    return known(baseline.self_check)


def smeared(seed: int, nodes: int, share: float, metrics: int = 8) -> list[FloatArray]:
    rng = np.random.default_rng(seed)
    values = [rates(100 * seed + m, nodes) for m in range(metrics)]
    for node in range(int(share * nodes)):
        for m in rng.permutation(metrics)[:2]:
            values[m][node, rng.integers(4)] *= 1 - rng.uniform(0.1, 0.6)
    return values


UNEVEN = """
import numpy as np
from pytest_anubis.core.metric import Metric
from pytest_anubis.core.sample import population_of
from pytest_anubis.validator import learn_baseline

values = 100 * (1 + 0.05 * np.random.default_rng(1).standard_normal((48, 1)))
population = population_of(
    list(values),
    metric=Metric(name="m", unit="GB/s", better="higher"),
    benchmark="b",
    nodes=[f"n{node}" for node in range(12) for _ in range(4)],
    devices=[f"cuda:{one}" for one in range(4)] * 12,
)
print(learn_baseline([population], hardware_class="", created="-", error_rate=None).self_check.rate)
"""


def test_rate_does_not_depend_on_the_hash_seed() -> None:
    rates = {
        subprocess.run(
            [sys.executable, "-c", UNEVEN],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "2")
    }
    assert len(rates) == 1


def test_metrics_that_move_together_or_never_differ_are_told() -> None:
    link = rates(5, 40)
    copies = [link * rates(m, 40, 0.0005) / 100 for m in range(3)]
    others = [rates(10 + m, 40) for m in range(3)]
    still = np.full((40, 4, 5), 7.0)
    named = [metric(f"m{m}", values) for m, values in enumerate([*copies, *others, still])]
    result = {f.kind: f.text for f in learn(*named).findings}
    assert result["move-together"] == (
        "3 of 7 metrics move together with others from node to node (b m0 with b m1 and 1 more): all 7 tell "
        "as much as 4 would"
    )
    assert result["never-differs"] == "the same on all nodes, so never informative so far: b m6"


def test_a_fifth_of_sick_nodes_is_counted_and_hides_nobody() -> None:
    values = smeared(1, 100, 0.2)
    baseline = learn(*table(values))
    check = checked(baseline)
    assert check.holds
    assert check.nodes == 100
    assert 18 <= check.rejected <= 23
    assert check.sick == pytest.approx(20, abs=4)
    criterion = find(baseline, "m0")
    assert known(criterion.detectable) < 0.1
    assert judge_sample([70.0] * 5, criterion).outcome is Outcome.FAIL


def test_what_is_stated_as_detectable_is_found() -> None:
    held = 400
    values = [rates(m, 150 + held, 0.004 * (1 + m)) for m in range(6)]
    baseline = learn(*table(v[:150] for v in values))
    for m, v in enumerate(values):
        criterion = find(baseline, f"m{m}")
        worse = v[150:, :1] * (1 - known(criterion.detectable))
        found = judge_columns(metric(f"m{m}", worse), criterion).outcome == 2
        assert found.mean() == pytest.approx(0.95, abs=0.035)


def test_a_promise_is_kept_and_its_cost_is_told() -> None:
    populations = [metric("noisy", rates(0, 60, 0.03)), metric("quiet", rates(1, 60, 0.002))]
    plain, strict = learn(*populations), learn(*populations, promises={"": 0.1})
    noisy, kept = find(plain, "noisy"), find(strict, "noisy")
    assert known(noisy.detectable) > 0.1
    assert kept.detectable == pytest.approx(0.1)
    assert strict.find("b", "quiet") == plain.find("b", "quiet")
    # What fails from 10 % on is not said to show no such loss.
    assert "not-repeatable" in {f.kind for f in plain.findings}
    assert "not-repeatable" not in {f.kind for f in strict.findings}
    [result] = [f for f in strict.findings if f.kind == "promise"]
    assert "of the healthy nodes" in result.text
    assert learn(*populations, promises={"part.noisy": 0.1}).find("b", "noisy") == kept
    assert learn(*populations, promises={"part.quiet": 0.1}).find("b", "noisy") == noisy


def test_groups_that_cannot_all_be_sick_are_undecided_and_one_batch_is_rejected() -> None:
    values = [rates(m, 100, 0.004) for m in range(6)]
    values[0][:25] *= 0.8
    one = learn(*table(values))
    assert checked(one).holds
    assert checked(one).rejected >= 25
    assert checked(one).worst[0].metric == "m0"  # although its nodes took no part in the limits
    assert checked(one).worst[0].alone >= 25
    assert "rejects-many" not in {f.kind for f in one.findings}
    for m in range(1, 4):  # each metric has its own quarter
        values[m][25 * m : 25 * m + 25] *= 0.8
    many = learn(*table(values))
    assert checked(many).rejected <= 5
    second = [c.metric.name for c in many.criteria if c.second is not None and c.scope == "unit"]
    assert second == ["m0", "m1", "m2", "m3"]
    assert many.undecided == ("m0", "m1", "m2", "m3")


def test_a_group_that_nobody_has_decided_about_is_named_by_what_it_is() -> None:
    slot, driver = rates(1, 40, 0.004), rates(2, 40, 0.004)
    slot[:, 3] *= 0.8  # one device of four, on every node
    driver[:18] *= 0.8
    attributes = {f"n{i:03d}": {"driver": "535" if i < 18 else "550"} for i in range(40)}
    found = learn(metric("slot", slot), metric("driver", driver), node_attributes=attributes)
    result = {f.metric: f.text for f in found.findings if f.kind == "undecided-population"}
    assert result["slot"].startswith("slot: 40 of 160 devices have 79.9")
    assert result["slot"].endswith("device separates them: d3 against d0, d1, d2")
    assert result["driver"].startswith("driver: 18 of 40 nodes have 79.9")
    assert result["driver"].endswith("driver separates them: 535 against 550")
    criterion = find(found, "driver")
    assert known(criterion.second).separates == "driver separates them: 535 against 550"
    promised = learn(metric("driver", driver), promises={"": 0.1})
    assert promised.undecided == ()
    assert "undecided-population" not in {f.kind for f in promised.findings}


def test_a_noisy_device_of_a_faster_node_is_none_of_the_slower_group() -> None:
    rng = np.random.default_rng(3)
    # One device in twenty lies beyond alpha.
    values = 100 * (1 + 0.03 * rng.normal(size=(60, 8, 1)))
    values[:30] *= 0.88
    found = learn(metric("m", values))
    result = [f.text for f in found.findings if f.kind == "undecided-population"]
    assert [text.partition(" have")[0] for text in result] == ["m: 30 of 60 nodes"]
    assert {(c.second.members, c.second.whole) for c in found.criteria if c.second} == {(30, 60)}


@pytest.mark.parametrize("seed", range(3))
def test_a_group_just_beyond_alpha_does_not_widen_the_limit_of_the_faster_one(seed: int) -> None:
    values = rates(seed, 40, 0.01)
    values[::2] *= 0.94
    undecided = find(learn(metric("m", values)), "m")
    for what, outcome in ((undecided, MARGINAL), (apply_decision(undecided, "faster"), FAIL)):
        judged = judge_columns(metric("m", values), what).outcome.reshape(40, -1)
        assert np.all(judged[1::2] == 0)
        assert np.mean(judged[::2].max(axis=1) == outcome) > 0.9


def test_sick_nodes_of_a_group_that_nobody_has_decided_about_count_as_rejected() -> None:
    values = rates(6, 60)
    values[30:] *= 0.88
    values[30:33] *= 0.6
    others = [metric(f"m{m}", rates(20 + m, 60)) for m in range(3)]
    baseline = learn(metric("split", values), *others)
    assert any(one.second is not None for one in baseline.criteria)
    (worst,) = [one for one in checked(baseline).worst if one.metric == "split"]
    assert worst.nodes == 3


def test_the_next_step_of_a_group_in_steps_is_none_of_its_failures() -> None:
    rng = np.random.default_rng(4)

    def draw(nodes: int) -> FloatArray:
        return rng.choice([8.0, 9, 9, 9, 9, 10, 10], (nodes, 2, 1))

    train = [draw(60) for _ in range(10)]
    baseline = learn(*table(train))
    rejecting = {one.metric for one in checked(baseline).worst}
    assert len(rejecting) <= 1  # pairs of (9, 9) and (9, 10) are even in one: told, not hidden
    assert checked(baseline).holds is (not rejecting)
    for criterion in baseline.criteria:
        judged = judge_columns(metric(criterion.metric.name, draw(200)), criterion)
        assert criterion.metric.name in rejecting or not (judged.outcome == FAIL).any()


def test_a_rate_that_does_not_hold_is_told_with_its_metrics() -> None:
    rng = np.random.default_rng(5)
    values = [rates(m, 120, 0.004) for m in range(4)]
    for node in range(60):  # scattered losses in half of the nodes: no group, no majority of sick
        values[0][node, rng.integers(4)] *= 1 - rng.uniform(0.1, 0.6)
    baseline = learn(*table(values))
    assert not checked(baseline).holds
    kinds = {f.kind for f in baseline.findings}
    assert {"rate-not-held", "rejects-many"} <= kinds
    assert checked(baseline).worst[0].metric == "m0"
    assert checked(baseline).worst[0].alone > 50


def test_small_fleets_find_large_losses() -> None:
    """Of metrics that repeat to 2 %, learned from eight nodes of which one lost a quarter in one of them."""
    missed = 0
    for seed in range(6):
        values = [rates(100 * seed + m, 8, 0.02, devices=1) for m in range(12)]
        values[0][3] *= 0.75
        baseline = learn(*table(values))
        assert not baseline.unjudged
        criterion = find(baseline, "m0")
        missed += judge_sample(values[0][3, 0], criterion).outcome is not Outcome.FAIL
    assert missed <= 2


def test_a_node_that_is_measured_often_does_not_become_the_norm() -> None:
    good, bad = rates(1, 11, 0.01, devices=1), rates(2, 30, 0.01, devices=1) * 0.7
    populations = population_of(
        [*good[:, 0], *bad[:, 0]],
        metric=Metric(name="m", unit="GB/s", better="higher"),
        benchmark="b",
        nodes=[*(f"n{i}" for i in range(11)), *["suspect"] * 30],
        runs=[f"r{i}" for i in range(41)],
    )
    criterion = find(learn(populations), "m")
    assert criterion.typical == pytest.approx(100, rel=0.02)
    assert judge_sample([70.0] * 5, criterion).outcome is Outcome.FAIL


def test_half_of_a_fleet_that_is_dead_excuses_nothing() -> None:
    values = rates(1, 20, 0.01, devices=1)
    values[:8] = 0.0
    criterion = find(learn(metric("m", values)), "m")
    assert judge_sample([10.0] * 5, criterion).outcome is Outcome.FAIL
    assert judge_sample([0.0] * 5, criterion).outcome is Outcome.FAIL


def test_a_metric_of_few_nodes_has_alpha_alone_in_a_table_of_many() -> None:
    many, few = metric("many", rates(1, 20)), metric("few", rates(2, 4))
    baseline = learn(many, few)
    limits = {c.metric.name: c.learned for c in baseline.criteria if c.scope == "unit"}
    assert limits["few"] is None
    assert limits["many"] is not None


def test_a_promise_counts_in_the_self_check() -> None:
    check = checked(learn(metric("m", rates(0, 100, 0.03)), promises={"": 0.06}))
    assert check.rejected > 20
    assert not check.holds


def test_sick_nodes_are_named_with_what_they_are_worst_in() -> None:
    bad, fine, counts = rates(21, 40), rates(22, 40), np.zeros((40, 4, 5))
    bad[7, 2] *= 0.7
    fine[7] *= 0.9
    fine[11, 0] *= 0.8
    counts[3, 1] = 2.0
    of_counts = Metric(name="errors", unit="count", better="equal")
    exact = replace(metric("errors", counts), metric=of_counts)
    check = checked(learn(metric("bad", bad), metric("fine", fine), exact))
    named = [(one.node, one.metric, one.device) for one in check.unlike]
    sick = {("n003", "errors", "d1"), ("n007", "bad", "d2"), ("n011", "fine", "d0")}
    assert (len(named), {*named}) == (3, sick)
    assert named[0][0] == "n003"  # nothing of it was right
    slow = next(one for one in check.unlike if one.node == "n007")
    assert (slow.component, slow.rejected) == ("part.bad", True)
    assert slow.similarity == pytest.approx(0.7, abs=0.02)
    assert check.rejected == len(named)
    assert check.holds  # a wrong result is no healthy node's bad luck


def small_table(seed: int, nodes: int = 200) -> tuple[list[FloatArray], set[int]]:
    """One value of twelve metrics that spread by 2 %; a tenth of the nodes lost 10 to 40 % in one or two."""
    rng = np.random.default_rng(seed)
    values = [100 / (1 + 0.02 * rng.normal(size=(nodes, 1, 1))) for _ in range(12)]
    sick = rng.permutation(nodes)[: nodes // 10].tolist()
    for node in sick:
        for m in rng.permutation(12)[: rng.integers(1, 3)].tolist():
            values[m][node] *= 1 - rng.uniform(0.1, 0.4)
    return values, set(sick)


def test_few_sick_nodes_with_single_values_hide_nobody() -> None:
    missed, found, healthy = 0, [], []
    for seed in range(4):
        values, sick = small_table(seed)
        baseline = learn(*table(values))
        rejected = np.zeros(200, dtype=np.bool_)
        for m, v in enumerate(values):
            criterion = find(baseline, f"m{m}")
            found.append(known(criterion.detectable))
            rejected |= judge_columns(metric(f"m{m}", v), criterion).outcome == FAIL
        missed += sum(not rejected[node] for node in sick)
        healthy.append(np.delete(rejected, sorted(sick)).mean())
    assert missed <= 1  # of eighty
    assert max(found) < 0.2  # 9 to 13 % where nobody is sick
    assert max(healthy) <= 0.015


def test_limits_do_not_depend_on_the_order_of_the_metrics() -> None:
    rng = np.random.default_rng(0)
    tables = []
    for m in range(72):  # more than are held at a time
        noise = rng.normal(size=(60, 1, 1)) if m < 60 else rng.standard_t(3, size=(60, 1, 1))
        values = 100 / (1 + np.clip(0.02 * noise, -0.5, 0.8))
        values[: m % 4] *= 0.85
        tables.append(metric(f"m{m:02d}", values))
    one, other = learn(*tables), learn(*(tables[place] for place in rng.permutation(72).tolist()))
    for criterion in one.criteria:
        same = find(other, criterion.metric.name)
        assert same.learned == pytest.approx(criterion.learned, rel=1e-9)
        assert same.detectable == pytest.approx(criterion.detectable, rel=1e-9)
    assert other.factor == pytest.approx(one.factor, rel=1e-9)


def test_the_worst_metric_is_told_first_with_the_promise_that_mends_it() -> None:
    populations = [
        metric(f"m{m}", rates(m, 60, spread)) for m, spread in enumerate((0.024, 0.031, 0.027))
    ]
    result = [f for f in learn(*populations).findings if f.kind == "not-repeatable"]
    assert list(dict.fromkeys(f.metric for f in result)) == ["m1", "m2", "m0"]
    remedy, price = result[0].text.split("; ")[-1].split(", and ")
    assert remedy == "--promise m1=10% makes a loss of 10 % fail all the same"
    # The price is what the promise says once it is given.
    kept = learn(*populations, promises={"m1": 0.1}).findings
    assert any(f.kind == "promise" and f.text.endswith(f"; that {price}") for f in kept)
    assert re.fullmatch(r"rejects [\d.]+ % of the healthy nodes", price)
    assert all("--promise" not in f.text for f in result[1:])


def test_a_promise_that_rejects_many_healthy_nodes_is_not_proposed() -> None:
    """It was, at any price: for 100 % of the healthy nodes too."""
    findings = learn(metric("m", rates(1, 60, 0.12))).findings
    first = next(f for f in findings if f.kind == "not-repeatable")
    remedy = first.text.split("; ", 2)[-1]
    assert re.fullmatch(
        r"no --promise mends it: one of 10 % would reject [\d.]+ % of the healthy nodes; measure it longer, "
        r"or leave it out: --without m",
        remedy,
    )


@pytest.mark.parametrize("slower", [30, 12])
def test_nodes_of_a_second_population_are_counted_by_most_of_their_devices(slower: int) -> None:
    """Nodes with one sick device were counted with the slower ones, and the same group told twice."""
    values = rates(1, 60, 0.003)
    values[60 - slower :] *= 0.9
    values[:4, 0] *= 0.9  # four other nodes have one slow device
    baseline = learn(metric("m", values))
    result = [f.text for f in baseline.findings if "population" in f.kind]
    assert len(result) == 1
    assert result[0].startswith(f"m: {slower} of 60 nodes ")
    seconds = [c.second for c in baseline.criteria if c.second is not None]
    assert {(one.members, one.whole) for one in seconds} <= {(slower, 60)}
    assert bool(seconds) is (slower == 30)


def test_a_node_whose_test_failed_counts_as_rejected_and_not_against_the_limits() -> None:
    whole = metric("m", rates(1, 40))
    failed = replace(
        whole,
        problems={3: SampleProblem(kind="failed", text="return code 1")}
        | {8 + i: SampleProblem(kind="disturbed", text="steal") for i in range(4)},
    )
    check, fine = checked(learn(failed)), checked(learn(whole))
    assert check.rejected == fine.rejected + 1
    assert check.holds
    worst = check.unlike[0]
    assert (worst.node, worst.device, worst.failure) == ("n000", "d3", "return code 1")
    assert worst.rejected


def test_a_group_that_nobody_has_decided_about_is_told_wherever_it_is_judged_by() -> None:
    values = rates(1, 40)
    values[::2] *= 0.8
    population = metric("m", values)
    baseline = learn(population)
    judged = judge_fleet([replace(population, hardware_class="c")], {"c": baseline})
    result = "no operator has decided about slower groups in m"
    assert any(note.startswith(f"hardware class c: {result}: decide with") for note in judged.notes)
    assert all(result in node.headline for node in judged.nodes)
    assert "slower groups undecided in 1 metric" in baseline_line(baseline)
    criterion = find(baseline, "m")
    text = judge_sample(values[0, 0], criterion).text
    assert "within what a slower group reaches (typical 80" in text
    assert "about which no operator has decided" in text


def test_the_cost_of_a_promise_is_a_chance_and_says_for_which_form() -> None:
    population = metric("m", rates(1, 60, 0.03, 8))
    strict = learn(population, promises={"": 0.06})
    result = [f.text for f in strict.findings if f.kind == "promise"]
    assert [text.partition(":")[0] for text in result] == ["m", "m [node]"]
    stated = float(re.findall(r"rejects ([\d.]+) %", result[0])[0]) / 100
    criterion = find(strict, "m")
    failed = (judge_columns(population, criterion).outcome == FAIL).reshape(60, -1).any(axis=1)
    assert abs(stated - failed.mean()) < 0.1


def test_copies_of_one_link_are_one_group_and_what_never_differs_is_named() -> None:
    rng = np.random.default_rng(0)
    links = rng.normal(0, 0.01, (2, 60))
    values = np.concatenate([
        links[0] + rng.normal(0, 0.001, (3, 60)),
        rng.normal(0, 0.01, (4, 60)),
        links[1] + rng.normal(0, 0.001, (2, 60)),
        np.zeros((1, 60)),
    ])  # fmt: skip
    values[0, 5] = np.nan  # a node that lacks it
    values[1, 7] = 0.9  # and one that is sick in it
    found = joint_movement(values)
    assert found.groups == ((0, 1, 2), (7, 8))
    assert found.still == (9,)
    assert found.distinct == 6


def test_steps_of_a_coarse_clock_are_no_movement() -> None:
    rng = np.random.default_rng(1)
    coarse = (rng.random((200, 40)) < 0.25).astype(float)
    assert joint_movement(coarse).groups == ()
    assert joint_movement(coarse).distinct == 200


def test_of_few_nodes_nothing_is_said() -> None:
    same = np.ones((3, 1)) * np.arange(MIN_NODES - 1)
    assert joint_movement(same) == ((), (), 3)
