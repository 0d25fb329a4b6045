from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from pytest_anubis.core.baseline import Baseline
from pytest_anubis.core.metric import Direction, Metric
from pytest_anubis.core.sample import FloatArray, Population, population_of
from pytest_anubis.core.verdict import Outcome
from pytest_anubis.validator import LearnError, judge_columns, judge_sample, learn_baseline
from pytest_anubis.validator.learning.subpopulations import separating_attribute
from tests.validator.known import known


def population(
    name: str,
    values: FloatArray,
    better: Direction = "lower",
    unit: str = "ms",
    hardware_class: str = "c",
    order: list[int] | None = None,
) -> Population:
    """Values of shape (nodes, devices, count)."""
    nodes, devices, _ = values.shape
    order = order or list(range(nodes))
    return population_of(
        [values[i, d] for i in order for d in range(devices)],
        metric=Metric(name=name, unit=unit, better=better),
        benchmark="b",
        nodes=[f"n{i}" for i in order for _ in range(devices)],
        devices=[f"d{d}" for _ in order for d in range(devices)],
        hardware_class=hardware_class,
    )


def noise(
    seed: int, nodes: int, devices: int = 2, spread: float = 0.004, count: int = 5
) -> FloatArray:
    rng = np.random.default_rng(seed)
    shift = rng.normal(0, spread, (nodes, devices, 1))
    return np.asarray(100 * np.exp(shift + rng.normal(0, spread, (nodes, devices, count))))


def learn(*populations: Population, **more: object) -> Baseline:
    return learn_baseline(populations, hardware_class="c", created="2026-01-01", **more)  # type: ignore[arg-type]


def test_a_quiet_metric_gets_a_higher_threshold_than_alpha_and_a_noisy_one_a_lower() -> None:
    quiet = population("quiet", noise(0, 240, spread=0.002))
    noisy = population("noisy", noise(1, 240, spread=0.02))
    baseline = learn(quiet, noisy)
    tight, loose = known(baseline.find("b", "quiet")), known(baseline.find("b", "noisy"))
    assert known(tight.learned) > 0.97
    assert known(loose.learned) < 0.95
    assert known(loose.detectable) > 1 / known(loose.learned) - 1
    assert 1 / 0.95 - 1 < known(tight.detectable) < 1 / 0.94 - 1
    assert baseline.factor is not None
    shifted = [x * 1.03 for x in tight.centre]
    assert judge_sample(shifted, tight, baseline).outcome is Outcome.MARGINAL
    assert any(f.kind == "not-repeatable" and f.metric == "noisy" for f in baseline.findings)


def test_the_stated_rate_holds_on_held_out_nodes() -> None:
    metrics, nodes, held = 12, 300, 600
    values = [noise(m, nodes + held, devices=4, spread=0.003 * (1 + m % 4)) for m in range(metrics)]
    baseline = learn(*[population(f"m{m}", v[:nodes]) for m, v in enumerate(values)])
    beyond = np.zeros(held, dtype=np.bool_)
    for m, v in enumerate(values):
        for criterion in baseline.criteria:
            if criterion.metric.name == f"m{m}":
                judged = judge_columns(population(f"m{m}", v[nodes:]), criterion)
                threshold = criterion.learned if criterion.learned is not None else criterion.alpha
                beyond |= (judged.similarity.reshape(held, -1) < threshold).any(axis=1)
    # Stated 1 %; the 99.9 % binomial bound for 600 nodes at 2 % (the threshold itself is an estimate).
    assert beyond.mean() < 0.04


def test_too_few_nodes_fall_back_to_alpha_and_say_how_many_are_needed() -> None:
    baseline = learn(population("m", noise(0, 4)))
    assert baseline.factor is None
    assert all(c.learned is None for c in baseline.criteria)
    [finding] = [f for f in baseline.findings if f.kind == "few-nodes"]
    assert "5 are needed" in finding.text
    some = learn(population("m", noise(0, 40)))
    assert some.factor is not None
    [finding] = [f for f in some.findings if f.kind == "few-nodes"]
    assert finding.text == (
        "the share of healthy nodes that these limits reject, 1.0 %, is an estimate from 40 of them; "
        "99 or more would show it"
    )
    assert "up to" not in finding.text  # its noise stays far within alpha, however heavy its tail
    assert not [f for f in learn(population("m", noise(0, 120))).findings if f.kind == "few-nodes"]


def test_few_noisy_nodes_say_which_rate_their_tails_leave_open() -> None:
    noisy = learn(*[population(f"m{i}", noise(i, 40, spread=0.03)) for i in range(4)])
    [finding] = [f for f in noisy.findings if f.kind == "few-nodes"]
    [rate] = re.findall(r"may be up to ([\d.]+) %", finding.text)
    assert 1 < float(rate) < 10  # more than is stated, and no answer that fits anything


def test_no_error_rate_means_alpha_alone() -> None:
    baseline = learn(population("m", noise(0, 240)), error_rate=None)
    assert all(c.learned is None for c in baseline.criteria)
    assert baseline.findings == ()


def test_faulty_nodes_do_not_lower_the_threshold() -> None:
    clean = noise(0, 240)
    dirty = clean.copy()
    dirty[:50] *= 2
    pure = known(learn(population("m", clean)).find("b", "m"))
    with_faults = known(learn(population("m", dirty)).find("b", "m"))
    assert abs(known(pure.learned) - known(with_faults.learned)) < 0.005
    assert np.median(with_faults.centre) == pytest.approx(float(np.median(pure.centre)), rel=0.01)


def test_order_and_executor_do_not_change_the_result() -> None:
    values = noise(4, 120)
    other = noise(5, 120)
    order = np.random.default_rng(0).permutation(120).tolist()
    one = learn(population("m", values), population("k", other))
    two = learn(population("k", other, order=order), population("m", values, order=order))
    with ThreadPoolExecutor(2) as pool:
        three = learn(population("m", values), population("k", other), executor=pool)
    assert one == two == three


def test_progress_is_told() -> None:
    seen: list[tuple[int, int]] = []
    learn(population("m", noise(0, 5)), progress=lambda done, all_: seen.append((done, all_)))
    assert seen == [(1, 2), (2, 2)]


def test_only_a_unit_has_a_window_and_only_nodes_of_several_devices_are_pooled() -> None:
    long = learn(population("m", noise(0, 5, count=40))).criteria
    assert [(c.scope, c.window is not None) for c in long] == [("unit", True), ("node", False)]
    exact = population("e", np.zeros((5, 2, 40)), better="equal")
    assert [(c.scope, c.window) for c in learn(exact).criteria] == [("unit", None)]
    single = population("m", noise(0, 5, devices=1, count=40))
    assert [c.scope for c in learn(single).criteria] == ["unit"]


def test_of_attributes_that_separate_alike_the_first_in_order_is_named() -> None:
    units = population_of(
        [[100.0]] * 3, metric=Metric(name="m", unit="s", better="lower"), benchmark="b"
    )
    attributes = {
        node: {"vbios": bios, "firmware": firmware, "rack": "7"}
        for node, bios, firmware in (("n0", "a", "1.3"), ("n1", "b", "1.2"), ("n2", "b", "1.2"))
    }
    few, most = np.array([True, False, False]), np.array([False, True, True])
    found = separating_attribute(units, few, most, attributes)
    assert found == "firmware separates them: 1.3 against 1.2"
    attributes["n0"]["firmware"] = "1.2"
    assert separating_attribute(units, few, most, attributes) == (
        "vbios separates them: a against b"
    )
    attributes["n2"]["vbios"] = "a"
    assert separating_attribute(units, few, most, attributes) == ""


def test_a_second_population_names_the_attribute_that_separates_it() -> None:
    values = noise(0, 40)
    values[:12] *= 1.15
    attributes = {
        f"n{i}": {"firmware": "1.2" if i < 12 else "1.3", "rack": f"r{i % 5}"} for i in range(40)
    }
    baseline = learn(population("m", values), node_attributes=attributes)
    found = [f for f in baseline.findings if f.kind == "second-population"]
    assert found
    assert all("firmware separates them: 1.2 against 1.3" in f.text for f in found)
    assert "12 of 40 nodes" in found[0].text


@pytest.mark.parametrize(
    ("populations", "word"),
    [
        ([], "no population"),
        ([population("m", noise(0, 4), hardware_class="other")], "hardware class 'other'"),
        ([population("m", noise(0, 4)), population("m", noise(0, 4), unit="s")], "mixed units"),
        ([population("m", noise(0, 4)), population("m", noise(1, 4))], "two populations"),
        (
            [
                population_of(
                    [[1.0]] * 4,
                    metric=Metric(name="m", unit="s", better="lower"),
                    benchmark="b",
                    nodes=["a", "b", "c", "a"],
                )
            ],
            "appears twice",
        ),
    ],
)
def test_contradictions_are_refused_in_one_line(populations: list[Population], word: str) -> None:
    with pytest.raises(LearnError, match=word) as caught:
        learn(*populations)
    assert "\n" not in str(caught.value)


def runs(seed: int, metrics: int, count: int, between: float = 0.01) -> list[Population]:
    rng = np.random.default_rng(seed)
    return [
        population_of(
            [100 * np.exp(rng.normal(0, between) + rng.normal(0, 0.01, 30)) for _ in range(count)],
            metric=Metric(name=f"m{m:02d}", unit="ms", better="lower"),
            benchmark="b",
            nodes=["me"] * count,
            runs=[f"r{i}" for i in range(count)],
        )
        for m in range(metrics)
    ]


def on_virtual_machine(memory: str, *populations: Population) -> Baseline:
    return learn_baseline(
        populations, hardware_class="k", attributes={"memory": memory}, created="2026-12-01"
    )


def test_one_machine_drops_nothing_and_its_spread_decides() -> None:
    baseline = learn(*runs(0, 40, 5))
    assert baseline.one_machine
    assert baseline.exclusions == ()
    assert all(c.scope == "unit" and c.nodes == 1 and c.units == 5 for c in baseline.criteria)
    assert all(c.learned is not None and 0.85 < c.learned < 0.99 for c in baseline.criteria)
    assert all("one machine" in c.notes[0] for c in baseline.criteria)


def test_one_machine_accepts_itself_and_sees_a_tenth_less() -> None:
    rejected, found = 0, 0
    for seed in range(8):
        quiet = runs(seed, 40, 6, between=0.007)
        baseline = learn(*(p.only(range(5)) for p in quiet))
        for p, criterion in zip(quiet, baseline.criteria, strict=True):
            rejected += judge_sample(p.sample(5), criterion, baseline).outcome is Outcome.FAIL
            found += judge_sample(p.sample(5) * 1.12, criterion, baseline).outcome is Outcome.FAIL
    assert rejected == 0  # 320 healthy comparisons
    assert found > 0.95 * 320


@pytest.mark.parametrize("memory", ["virtual", "64 GB"])
@pytest.mark.parametrize("device", ["cpu", "cuda:0"])
def test_the_memory_of_a_virtual_machine_may_lose_what_others_take_of_it(
    memory: str, device: str
) -> None:
    shared = (memory, device) == ("virtual", "cpu")
    times = {  # what loses it, and the factor that never fails for what others share
        ("memory.bandwidth", "test_stream[cpu-read]"): 1.3 if shared else 1.0,
        ("memory.latency", "test_load_latency[llc]"): 9.0 if shared else 1.0,
        ("memory.latency", "test_load_latency[l2]"): 1.0,
    }
    populations = [
        replace(one, devices=[device] * len(one), component=component, benchmark=benchmark)
        for one, (component, benchmark) in zip(runs(0, 3, 6), times, strict=True)
    ]
    baseline = on_virtual_machine(memory, *populations)
    assert not any(one.shared for one in baseline.criteria)
    for population, (component, benchmark) in zip(populations, times, strict=True):
        (criterion,) = (one for one in baseline.criteria if one.benchmark == benchmark)
        allowed = times[component, benchmark]
        for factor, fails in ((allowed, False), (allowed * 1.25, True)):
            outcome = judge_sample(population.sample(5) * factor, criterion, baseline).outcome
            assert (outcome is Outcome.FAIL) is fails


@pytest.mark.parametrize("memory", ["virtual", "64 GB"])
def test_the_disk_of_a_virtual_machine_may_lose_what_others_take_of_it(memory: str) -> None:
    disk, core = runs(0, 2, 6)
    baseline = on_virtual_machine(
        memory, replace(disk, component="storage.disk"), replace(core, component="compute.matrix")
    )
    found = {one.component: one for one in baseline.criteria}
    assert not found["storage.disk"].coarse
    assert (known(found["storage.disk"].shown_loss) > 0.4) is (memory == "virtual")
    assert [one.component for one in baseline.criteria if one.shared] == (
        ["storage.disk"] if memory == "virtual" else []
    )
    for component, of, loss, fails in (
        ("storage.disk", disk, 1.6, memory != "virtual"),
        ("storage.disk", disk, 2.2, True),
        ("compute.matrix", core, 1.6, True),
    ):
        outcome = judge_sample(of.sample(5) * loss, found[component], baseline).outcome
        assert (outcome is Outcome.FAIL) is fails


def test_the_loss_stated_of_recorded_values_is_found_although_nobody_looks_again() -> None:
    measured = runs(0, 40, 6)
    recorded = [replace(p.only(range(5)), given=True) for p in measured]
    baseline, looked_at = learn(*recorded), learn(*(p.only(range(5)) for p in measured))
    found = 0
    for p, criterion, other in zip(measured, baseline.criteria, looked_at.criteria, strict=True):
        detectable = known(criterion.detectable)
        assert detectable > (other.detectable or 0.0)
        slower = p.sample(5) * (1 + detectable)
        found += judge_sample(slower, criterion, baseline).outcome is Outcome.FAIL
    assert found >= 36  # of 40; by what ten further looks would find it was 25


def test_what_a_promise_costs_a_machine_is_told() -> None:
    baseline = learn(*runs(3, 1, 5, between=0.04), promises={"": 0.05})
    [tight] = baseline.criteria
    [result] = [f.text for f in baseline.findings if f.kind == "promise"]
    assert known(tight.learned) > 0.95
    cost = known(re.search(r"rejects up to ([\d.]+) % of its healthy runs", result))
    assert 10 < float(cost[1]) <= 50


def test_a_machine_with_wild_runs_does_not_reject_itself() -> None:
    wild = learn(*runs(3, 1, 5, between=0.04))
    [criterion] = wild.criteria
    assert known(criterion.learned) < 0.85
    assert known(criterion.detectable) > 0.15


def test_a_metric_that_could_not_show_that_performance_has_halved_is_coarse_and_fails_what_it_shows() -> (
    None
):
    [population] = runs(3, 1, 5, between=0.2)
    baseline = learn(population)
    [coarse] = baseline.criteria
    assert coarse.coarse
    assert not baseline.unjudged
    assert not [f for f in baseline.findings if f.metric == coarse.metric.name]
    slow = population.sample(0) * (1 + (coarse.detectable or 0.0))
    assert judge_sample(slow, coarse, baseline).outcome is Outcome.FAIL
    assert judge_sample(population.sample(0) * 1.5, coarse, baseline).outcome is Outcome.PASS


def test_more_runs_raise_the_threshold() -> None:
    few = learn(*runs(1, 20, 3)).criteria
    many = learn(*runs(1, 20, 20)).criteria
    mean = [np.mean([c.learned or 0 for c in criteria]) for criteria in (few, many)]
    assert mean[0] < mean[1]


def test_two_runs_are_no_baseline() -> None:
    baseline = learn(*runs(1, 2, 2))
    assert baseline.criteria == ()
    assert {f.kind for f in baseline.findings} == {"no-criterion"}


@pytest.mark.parametrize("alpha", [0.95, 1e-6])
def test_no_criterion_is_learned_that_could_never_fail(alpha: float) -> None:
    dead = population("dead", np.zeros((5, 1, 5)), better="higher", unit="GB")
    alive = population("alive", noise(0, 5, devices=1))
    baseline = learn(dead, alive, alpha=alpha)
    assert [c.metric.name for c in baseline.criteria] == (["alive"] if alpha > 0.5 else [])
    said = [f.text for f in baseline.findings if f.metric == "dead"]
    assert any("no criterion, it could never fail" in text for text in said)
